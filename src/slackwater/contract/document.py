"""Foreign documents: plain mappings, lists and scalars, read field by field with their paths.

Nothing is converted: a text is not a number, true is not 1, 80.0 is not 80. Null counts as
absent, as it does in Kubernetes.
"""

import enum
from collections.abc import Collection

import msgspec

from slackwater.model.problem import (
    DocumentName,
    InvalidError,
    Problem,
    ProblemCode,
    below,
    quoted,
)

SMALLEST_NUMBER, LARGEST_NUMBER = -(2**63), 2**63 - 1


class Spelling(enum.Enum):
    """Which keys count as a name: Kubernetes is exact, Go's own JSON takes any case."""

    EXACT = "exact"
    ANY_CASE = "any case"


class Field(msgspec.Struct, frozen=True):
    """One value of a document and where it stands. `source` names a file or an object."""

    source: str | DocumentName
    path: str
    value: object
    spelling: Spelling = Spelling.EXACT

    def where(self) -> str:
        return f"{self.source}: {self.path}" if self.path else str(self.source)

    @property
    def document(self) -> DocumentName:
        return DocumentName(self.source) if isinstance(self.source, str) else self.source

    def refused(self, bound: str) -> InvalidError:
        return InvalidError(self.problem(bound))

    def problem(self, bound: str, value: str = "") -> Problem:
        """`value` where it is not the value itself that should be quoted."""
        code = ProblemCode.REQUIRED if self.value is None else ProblemCode.INVALID
        return Problem(self.path, value or quoted(self.value), bound, code, self.document)

    def unknown_key(self, key: object, bound: str) -> Problem:
        """About a key of this mapping."""
        seen = "null" if key is None else quoted(key)
        return Problem(self.path, seen, bound, ProblemCode.UNKNOWN_KEY, self.document)

    def at(self, key: str, value: object) -> "Field":
        return Field(self.source, below(self.path, key), value, self.spelling)


def members(field: Field) -> tuple[tuple[str, Field], ...]:
    """The keys of a mapping and what they hold, null included."""
    if not isinstance(field.value, dict):
        raise field.refused("a mapping")
    for key in field.value:
        if not isinstance(key, str):
            raise InvalidError(field.unknown_key(key, "a text"))
    return tuple((key, field.at(key, value)) for key, value in field.value.items())


def member(field: Field, name: str) -> Field | None:
    """What a mapping holds under this name; None where that is nothing or null."""
    found = dict(members(field))
    key = spelled(found, name, field.spelling)
    chosen = None if key is None else found[key]
    return None if chosen is None or chosen.value is None else chosen


def spelled(keys: Collection[object], name: str, spelling: Spelling) -> str | None:
    """The key that counts as this name: the exact one before any other spelling of it."""
    if name in keys or spelling is Spelling.EXACT:
        return name if name in keys else None
    texts = (key for key in keys if isinstance(key, str))
    return next((key for key in texts if key.casefold() == name.casefold()), None)


def elements(field: Field) -> tuple[Field, ...]:
    """The elements of a list."""
    if not isinstance(field.value, list | tuple):
        raise field.refused("a list")
    return tuple(
        Field(field.source, f"{field.path}[{place}]", value, field.spelling)
        for place, value in enumerate(field.value)
    )


def text(field: Field) -> str:
    if not isinstance(field.value, str):
        raise field.refused("a text")
    return field.value


def whole(field: Field) -> int:
    """A whole number of 64 bits."""
    value = field.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise field.refused("a whole number")
    if not SMALLEST_NUMBER <= value <= LARGEST_NUMBER:
        raise field.refused("a whole number of 64 bits")
    return value


def flag(field: Field) -> bool:
    if not isinstance(field.value, bool):
        raise field.refused("true or false")
    return field.value


def texts(field: Field) -> dict[str, str]:
    """A mapping of texts to texts, such as labels; a key with null is an empty text, as in Go."""
    return {key: "" if each.value is None else text(each) for key, each in members(field)}


def parse_json(content: str, source: str | DocumentName, path: str = "") -> object:
    """JSON text as plain values; `path` is where in the source it stands. Duplicate keys: the last
    one counts, as in Go."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidError(Field(source, path, content).problem(f"JSON ({reason})")) from None
