"""What the kubelet was told: read from its files and from its running process.

Owns where those are, who counts as a kubelet, and how a setting is spelled (a YAML or JSON key, a
flag, a flag in an environment file). Reads only; what is unreadable or garbage becomes a finding
with a note. The process is found by its name, as its pid file is not everywhere; any process may
have that name, so it counts only as root's, and outside of every pod. This is not a YAML parser:
a setting is one line, and a key below another one counts too, as it does in a ConfigMap that holds
the kubelet's file.
"""

import os
import re

import msgspec

from slackwater.bounded_read import LARGEST_READ, Contents, read_start
from slackwater.model.gap import Gap
from slackwater.observation.cgroups.paths import layout_of, pod_uid
from slackwater.observation.detection.findings import Finding
from slackwater.observation.host import Roots

#: How much of a refused value is quoted back.
_QUOTED = 40


class KubeletSetting(msgspec.Struct, frozen=True):
    """One thing a kubelet is told: its key in files, its flag, and what its values look like."""

    key: str
    flag: str
    value: str


DRIVER = KubeletSetting("cgroupDriver", "--cgroup-driver", "systemd|cgroupfs")
_ROOT_PART = "[A-Za-z0-9_][A-Za-z0-9_.:@-]*"
CGROUP_ROOT = KubeletSetting("cgroupRoot", "--cgroup-root", f"/|/?{_ROOT_PART}(?:/{_ROOT_PART})*/?")
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


def setting_in_text(data: bytes, setting: KubeletSetting) -> Said:
    """The first usable value: of the key, else of the flag."""
    if b"\0" in data:
        return Said(None, "not a text file: it contains NUL bytes")
    text = strip_comments(data)
    keys = re.findall(_KEY.format(setting.key), text, re.MULTILINE)
    by_key = [(setting.key, double or single or bare) for double, single, bare in keys]
    flags = re.findall(_FLAG.format(setting.flag), text)
    return _first_usable(setting, by_key + [(setting.flag, value) for value in flags])


def strip_comments(data: bytes) -> str:
    return _COMMENT.sub("", data.decode("utf-8", "replace"))


def setting_in_arguments(arguments: tuple[str, ...], setting: KubeletSetting) -> Said:
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


def _first_usable(setting: KubeletSetting, candidates: list[tuple[str, str]]) -> Said:
    for name, value in candidates:
        if re.fullmatch(setting.value, value):
            return Said(value, name)
    if not candidates:
        return Said(None, f"{setting.key} is not set")
    name, value = candidates[0]
    return Said(None, f"{name} is {value[:_QUOTED]!r}, which is not a valid value")


#: In this order (two that Volcano's documentation names, and the third that it reads too).
CONFIG_FILES = (
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/kubeadm-flags.env",
)
PROCESS_SOURCE = "kubelet process"
_CUT = f"longer than {LARGEST_READ // 1024} KiB, the rest was not read"
#: TASK_COMM_LEN is 16; a newline follows.
_COMM_BYTES = 32
_ROOT_USER = "0"
#: So many processes are named in a sentence.
_SHOWN = 3


class KubeletProcess(msgspec.Struct, frozen=True):
    """A running kubelet. `directory` is its folder in procfs."""

    pid: int
    directory: str
    arguments: tuple[str, ...]
    note: str


class SeveralKubelets(Gap, frozen=True):
    """More than one runs here: none of them tells which tree is this node's."""


def config_files(roots: Roots) -> tuple[str, ...]:
    """The file that was named comes before the usual ones."""
    named = (roots.kubelet_config,) if roots.kubelet_config else ()
    return (*named, *(path for path in CONFIG_FILES if path not in named))


def file_findings(roots: Roots, setting: KubeletSetting) -> tuple[Finding, ...]:
    """What the kubelet's file that was named, and each of the usual ones, says."""
    said = ((path, _said_by_file(f"{roots.host}{path}", setting)) for path in config_files(roots))
    return tuple(Finding(path, answer.value, answer.note) for path, answer in said)


def process_finding(roots: Roots, setting: KubeletSetting) -> Finding:
    """What the running kubelet's flags say, else the file that its --config names."""
    match find_kubelet(roots):
        case Gap(reason):
            return Finding(PROCESS_SOURCE, None, reason)
        case kubelet:
            answer = _said_by_process(roots, kubelet, setting)
            return Finding(PROCESS_SOURCE, answer.value, f"{kubelet.note}: {answer.note}")


def kubelet_cgroup_root(roots: Roots) -> str | None:
    """The kubelet's cgroup root without slashes at its ends, "" for the top; None: nobody says.

    The process comes first: its flags are in force, whatever the files say by now. Of several
    kubelets neither the processes nor the usual files tell whose tree is whose.
    """
    if isinstance(find_kubelet(roots), SeveralKubelets):
        return None
    findings = (process_finding(roots, CGROUP_ROOT), *file_findings(roots, CGROUP_ROOT))
    return next((f.found.strip("/") for f in findings if f.found is not None), None)


def named_cgroup_root(roots: Roots) -> str | Gap | None:
    """What the file that was named says of it, like the above; a Gap if it cannot be read."""
    if not roots.kubelet_config:
        return None
    match read_start(f"{roots.host}{roots.kubelet_config}"):
        case Gap(reason):
            named = roots.kubelet_config[:80]
            return Gap(f"the kubelet's configuration {named!r} (--kubelet-config) is {reason}")
        case Contents(data, _):
            root = setting_in_text(data, CGROUP_ROOT).value
            return None if root is None else root.strip("/")


def process_name(roots: Roots, pid: int) -> str | Gap:
    contents = read_start(f"{roots.proc}/{pid}/comm", _COMM_BYTES)
    return contents if isinstance(contents, Gap) else os.fsdecode(contents.data.rstrip(b"\n"))


def find_kubelet(roots: Roots) -> KubeletProcess | Gap:
    """The only one that counts; of several none does."""
    found = _find_pids(roots)
    if isinstance(found, Gap):
        return found
    apart, refused = found
    if len(apart) > 1:
        shown = ", ".join(map(str, apart[:_SHOWN]))
        return SeveralKubelets(f"{len(apart)} kubelets run here (pids {shown}): none tells")
    if apart:
        return _kubelet(roots, apart[0])
    aside = "; ".join(f"pid {pid} {why}" for pid, why in list(refused.items())[:_SHOWN])
    return Gap(f"no process named kubelet in {roots.proc}{f' counts: {aside}' if aside else ''}")


def list_kubelets(roots: Roots) -> list[KubeletProcess]:
    """All that count and can be read."""
    found = _find_pids(roots)
    pids = [] if isinstance(found, Gap) else found[0]
    read = [_kubelet(roots, pid) for pid in pids]
    return [each for each in read if isinstance(each, KubeletProcess)]


def _find_pids(roots: Roots) -> tuple[list[int], dict[int, str]] | Gap:
    """Of those that count; and why others of that name do not."""
    try:
        names = os.listdir(roots.proc)
    except OSError as error:
        return Gap(f"{roots.proc} is not readable: {error.strerror}")
    pids = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    named = [pid for pid in pids if process_name(roots, pid) == "kubelet"]
    refused = {pid: why for pid in named if (why := _why_no_kubelet(roots, pid))}
    real = [pid for pid in named if pid not in refused]
    # Between fork and exec a kubelet's child still has its name.
    apart = [pid for pid in real if _status(roots, pid, "PPid") not in [str(each) for each in real]]
    return apart, refused


def _why_no_kubelet(roots: Roots, pid: int) -> str:
    """Empty for one that may be: a name alone is anybody's."""
    match _status(roots, pid, "Uid"):
        case Gap(reason):
            return f"has a status that is {reason}"
        case user if user != _ROOT_USER:
            return f"is user {user[:20]!r}, not root"
    groups = read_start(f"{roots.proc}/{pid}/cgroup")
    text = "" if isinstance(groups, Gap) else groups.data.decode("utf-8", "replace")
    # From inside a cgroup namespace a neighbour's path begins below the tree, with its pod.
    parts = (part for line in text.splitlines() for part in line.split(":", 2)[-1].split("/"))
    return "is in a pod" if any(pod_uid(part) or layout_of(part) for part in parts) else ""


def _status(roots: Roots, pid: int, key: str) -> str | Gap:
    """The first word of a line in /proc/PID/status: of Uid that is the real one."""
    contents = read_start(f"{roots.proc}/{pid}/status")
    if isinstance(contents, Gap):
        return contents
    lines = contents.data.decode("utf-8", "replace").splitlines()
    words = next((line.split()[1:] for line in lines if line.startswith(f"{key}:")), [])
    return words[0] if words else Gap(f"without {key}")


def _kubelet(roots: Roots, pid: int) -> KubeletProcess | Gap:
    directory = f"{roots.proc}/{pid}"
    match read_start(f"{directory}/cmdline"):
        case Gap(reason):
            return Gap(f"{directory}/cmdline is {reason}")
        case Contents(data, cut):
            # The last argument of a cut text may be half of one.
            arguments = arguments_of(data)[:-1] if cut else arguments_of(data)
            note = f"pid {pid}, command line {_CUT}" if cut else f"pid {pid}"
            return KubeletProcess(pid, directory, arguments, note)


def _said_by_process(roots: Roots, kubelet: KubeletProcess, setting: KubeletSetting) -> Said:
    by_flag = setting_in_arguments(kubelet.arguments, setting)
    files = flag_values(kubelet.arguments, CONFIG_FLAG)
    if by_flag.value is not None or not files:
        return by_flag
    return _said_by_config(roots, kubelet, files[-1], setting)


def _said_by_config(
    roots: Roots, kubelet: KubeletProcess, path: str, setting: KubeletSetting
) -> Said:
    """The kubelet's own view of its file comes first: it may have a root of its own."""
    absolute = os.path.normpath(path) if path.startswith("/") else ""
    views = (
        (f"{kubelet.directory}/root{absolute}", f"{roots.host}{absolute}")
        if absolute
        else (f"{kubelet.directory}/cwd/{path}",)
    )
    answers = [_said_by_file(view, setting) for view in views]
    best = next((answer for answer in answers if answer.value is not None), answers[0])
    return Said(best.value, f"{path[:80]!r}: {best.note}")


def _said_by_file(path: str, setting: KubeletSetting) -> Said:
    match read_start(path):
        case Gap(reason):
            return Said(None, reason)
        case Contents(data, cut):
            answer = setting_in_text(data, setting)
            return Said(answer.value, f"{answer.note}; {_CUT}") if cut else answer
