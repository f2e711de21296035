"""A complaint: one sentence about one bad value. Where it stands, what it is, what it must be.

Owns how foreign text is quoted back to a person. Refuses to show more than a line of it, and
never walks into a mapping or a list: a few bytes of YAML aliases can be gigabytes of text.
"""

import re
from collections.abc import Iterable

import msgspec

#: How much of a refused value is quoted back, in characters.
QUOTED = 80
#: Python refuses to print numbers of thousands of digits.
_MOST_BITS = 200
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)


class Complaint(msgspec.Struct, frozen=True):
    """`where` is a file or object and a field path; `seen` is quoted; `wanted` is the bound."""

    where: str
    seen: str
    wanted: str

    def sentence(self) -> str:
        return f"{self.where} is {self.seen}, but must be {self.wanted}"


#: A text is read by a person: ten sentences are enough, the rest is counted.
_MOST_SENTENCES = 10


def sentences(complaints: Iterable[Complaint]) -> str:
    """All of them in one line, in their order."""
    told = [complaint.sentence() for complaint in complaints]
    more = len(told) - _MOST_SENTENCES
    return "; ".join(told[:_MOST_SENTENCES]) + (f"; and {more} more" if more > 0 else "")


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


def below(path: str, key: str) -> str:
    """The path of a key: a.b, or a['odd key'] where the key is not a plain word."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{quoted(key)}]"
    return f"{path}.{key}" if path else key
