"""A kubelet's settings in the text of its files and of its command line.

Pure: text in, values out. Owns how a setting is spelled (a YAML or JSON key, a flag, a flag in
an environment file). Refuses to be a YAML parser: a setting is one line, and a key below
another one counts too, as it does in a ConfigMap that holds the kubelet's file.
"""

import os
import re

import msgspec

#: How much of a refused value is quoted back.
_QUOTED = 40


class Setting(msgspec.Struct, frozen=True):
    """One thing a kubelet is told: its key in files, its flag, and what its values look like."""

    key: str
    flag: str
    value: str


DRIVER = Setting("cgroupDriver", "--cgroup-driver", "systemd|cgroupfs")
_ROOT_PART = "[A-Za-z0-9_][A-Za-z0-9_.:@-]*"
CGROUP_ROOT = Setting("cgroupRoot", "--cgroup-root", f"/|/?{_ROOT_PART}(?:/{_ROOT_PART})*/?")
CONFIG_FLAG = "--config"

# Whole lines, and what follows a blank and "#".
_COMMENT = re.compile(r"^[ \t]*#.*|[ \t]#.*", re.MULTILINE)
# Blanks, never \s, before the anchor: \s* at every line start is quadratic in empty lines.
_KEY = (
    r"""(?:^|[{{,])[ \t]*["']?{}["']?[ \t]*:[ \t]*"""
    r"""(?:"([^"\n]*)"|'([^'\n]*)'|([^\s,}}"'][^\s,}}]*))"""
)
# After a blank, a quote or the "=" of KUBELET_EXTRA_ARGS=--cgroup-driver=systemd.
_FLAG = r"""(?<![^\s"'=]){}(?:=|\s+)["']?([^\s"'\\]+)"""


class Said(msgspec.Struct, frozen=True):
    """A text's answer: `value` is None where it has none that is usable, and `note` says why."""

    value: str | None
    note: str


def setting_in_text(data: bytes, setting: Setting) -> Said:
    """The first usable value: of the key, else of the flag."""
    if b"\0" in data:
        return Said(None, "not a text file: it contains NUL bytes")
    text = _COMMENT.sub("", data.decode("utf-8", "replace"))
    keys = re.findall(_KEY.format(setting.key), text, re.MULTILINE)
    by_key = [(setting.key, double or single or bare) for double, single, bare in keys]
    flags = re.findall(_FLAG.format(setting.flag), text)
    return _first_usable(setting, by_key + [(setting.flag, value) for value in flags])


def setting_in_arguments(arguments: tuple[str, ...], setting: Setting) -> Said:
    """The last usable value of the flag: a kubelet lets a later flag win."""
    values = flag_values(arguments, setting.flag)
    return _first_usable(setting, [(setting.flag, value) for value in reversed(values)])


def flag_values(arguments: tuple[str, ...], flag: str) -> list[str]:
    """Of `flag=value` and of `flag value`, in order."""
    values: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == flag and position + 1 < len(arguments):
            values.append(arguments[position + 1])
        elif argument.startswith(f"{flag}="):
            values.append(argument.removeprefix(f"{flag}="))
    return values


def arguments_of(cmdline: bytes) -> tuple[str, ...]:
    """/proc/<pid>/cmdline: every argument ends with a NUL."""
    return tuple(os.fsdecode(argument) for argument in cmdline.split(b"\0"))


def _first_usable(setting: Setting, candidates: list[tuple[str, str]]) -> Said:
    for name, value in candidates:
        if re.fullmatch(setting.value, value):
            return Said(value, name)
    if not candidates:
        return Said(None, f"{setting.key} is not set")
    name, value = candidates[0]
    return Said(None, f"{name} is {value[:_QUOTED]!r}, which is no value for it")
