"""What is wrong with a value that was read: in which document, at which path, and what it must be.

A problem stays a value until the last layer turns it into a sentence. Foreign text is quoted back
on one line and clipped; mappings and lists are never expanded: a few bytes of YAML aliases can be
gigabytes of text.
"""

import enum
import re
from collections.abc import Iterable
from itertools import accumulate

import msgspec

#: How much of a refused value is quoted back, in characters.
QUOTED = 80
#: Python refuses to print numbers of thousands of digits.
_MOST_BITS = 200
#: A message lists this many problems, as far as they fit, and counts the rest.
_MOST_SENTENCES = 10
_MOST_CHARACTERS = 900
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9./:_-]{1,320}", re.ASCII)


class ProblemCode(enum.Enum):
    """Why a value is refused, for programs; the values are stable."""

    INVALID = "invalid"
    REQUIRED = "required"
    UNKNOWN_KEY = "unknown-key"
    CONFLICT = "conflict"
    UNREADABLE = "unreadable"


class DocumentName(msgspec.Struct, frozen=True):
    """A document: the file or server it came from, and the object that it is, where it is one."""

    source: str
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        if not self.name:
            return self.source
        full_name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        title = f"{_plain(self.kind)} {_plain(full_name)}"
        return f"{self.source}: {title}" if self.source else title


class Problem(msgspec.Struct, frozen=True):
    """One bad value. `value` is quoted and `bound` says what it must be. The path of an unknown
    key is that of the mapping it was found in, and the value is the key."""

    path: str
    value: str
    bound: str
    code: ProblemCode = ProblemCode.INVALID
    document: DocumentName | None = None

    @property
    def where(self) -> str:
        place = ": ".join(filter(None, (str(self.document or ""), self.path)))
        return f"a key of {place}" if self.code is ProblemCode.UNKNOWN_KEY else place

    def sentence(self) -> str:
        return f"{self.where} is {self.value}, but must be {self.bound}"


class ConfigurationProblem(msgspec.Struct, frozen=True):
    """Something wrong with the objects that the agent goes by, and what follows from it.

    `problems` are the refused values; `reason` is a sentence where no single value is at fault.
    `about` is the object at fault, where there is one.
    """

    reason: str = ""
    problems: tuple[Problem, ...] = ()
    about: DocumentName | None = None
    consequence: str = ""

    def sentence(self) -> str:
        stated = self.reason or sentences(self.problems)
        return f"{stated}; {self.consequence}" if self.consequence else stated


class InvalidError(ValueError):
    """A document, flag or variable that cannot be used; str() is a sentence for each problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(sentences(problems))
        self.problems = problems


def sentences(problems: Iterable[Problem]) -> str:
    """All of them on one line, in their order."""
    found = [problem.sentence() for problem in problems]
    lengths = accumulate(len(sentence) + len("; ") for sentence in found)
    fitting = sum(length <= _MOST_CHARACTERS for length in lengths)
    shown = max(min(fitting, _MOST_SENTENCES), 1)
    more = len(found) - shown
    return "; ".join(found[:shown]) + (f"; and {more} more" if more > 0 else "")


def quoted(value: object) -> str:
    """A value as a person should see it: one line, at most 80 characters."""
    match value:
        case None:
            return "missing"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value.bit_length() <= _MOST_BITS else "a number beyond 64 bits"
        case float():
            return repr(value)
        case str():
            return _clipped(value)
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"[:QUOTED]


def _clipped(text: str) -> str:
    shown = repr(text[:QUOTED])
    if len(text) <= QUOTED and len(shown) <= QUOTED:
        return shown
    return f"{shown[: QUOTED - 3].rstrip(chr(92))}..."


def _plain(name: str) -> str:
    """A name inside a sentence; quoted where it could break the line."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def below(path: str, key: str) -> str:
    """The path of a key: a.b, or a['odd key'] where the key is not a plain word."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{quoted(key)}]"
    return f"{path}.{key}" if path else key


def shorten(sentence: str, most: int) -> str:
    """At most `most` characters, cut at a word; what was cut ends with dots. A word longer than
    half of that is cut too: it may be all there is."""
    if len(sentence) <= most:
        return sentence
    room = most - len("...")
    end = sentence.rfind(" ", 0, room + 1)
    return f"{sentence[: end if end > room // 2 else room].rstrip()}..."
