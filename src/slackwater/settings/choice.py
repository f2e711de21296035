"""Settings that are no numbers: one word of several, and on or off.

Owns their check. Refuses "yes", 1 and "true" in a file, where on and off are true and false; a
flag or a variable, which is always a text, may also say 1 and 0.
"""

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted

_SPELLINGS = {"true": True, "1": True, "false": False, "0": False}


class Choice(msgspec.Struct, frozen=True):
    """A setting that is one of a few words."""

    name: str
    default: str
    words: tuple[str, ...]
    prose: str

    def span(self) -> str:
        return ", ".join(self.words[:-1]) + f" or {self.words[-1]}"


class Flag(msgspec.Struct, frozen=True):
    """A setting that is on or off."""

    name: str
    default: bool
    prose: str

    def span(self) -> str:
        return "true or false"


Word = Choice | Flag


def choose(choice: Choice, value: object, where: str) -> str:
    """The word, if it is one of the choice's; the same for files, flags and variables."""
    if isinstance(value, str) and value in choice.words:
        return value
    raise _refusal(choice, value, where)


def check_flag(flag: Flag, value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _refusal(flag, value, where)


def check_flag_text(flag: Flag, text: str, where: str) -> bool:
    """The same for a flag or an environment variable."""
    if text in _SPELLINGS:
        return _SPELLINGS[text]
    raise _refusal(flag, text, where)


def _refusal(word: Word, value: object, where: str) -> InvalidError:
    return InvalidError(Problem(where, quoted(value), word.span()))
