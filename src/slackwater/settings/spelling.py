"""How a setting is spelled outside of the file: its flag and its variable. Pure."""

import re

from slackwater.settings.section import Setting

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|\.")


def flag_of(setting: Setting) -> str:
    """--hold-for; the agent's own section needs no prefix on the agent's command line."""
    return "--" + "-".join(_words(setting))


def variable_of(setting: Setting) -> str:
    return "SLACKWATER_" + "_".join(_words(setting)).upper()


def words_of(name: str) -> list[str]:
    """minimumPodAge as minimum, pod, age."""
    return [word.lower() for word in _HUMP.split(name)]


def _words(setting: Setting) -> list[str]:
    words = words_of(setting.name)
    return words[1:] if words[0] == "agent" else words
