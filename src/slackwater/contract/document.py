"""Foreign documents: plain mappings, lists and scalars, read field by field with their paths.

Owns the one error of this package and the sentence in it. Refuses to convert: a text is not a
number, true is not 1, 80.0 is not 80. Null counts as absent, as it does in Kubernetes.
"""

import enum

import msgspec

from slackwater.model.complaint import Complaint, below, quoted, sentences

SMALLEST_NUMBER, LARGEST_NUMBER = -(2**63), 2**63 - 1


class ContractError(ValueError):
    """A foreign object that cannot be used; str() is one sentence for each complaint."""

    def __init__(self, *complaints: Complaint) -> None:
        super().__init__(sentences(complaints))
        self.complaints = complaints


class Spelling(enum.Enum):
    """Which keys count as a name: Kubernetes is exact, Go's own JSON takes any case."""

    EXACT = "exact"
    ANY_CASE = "any case"


class Field(msgspec.Struct, frozen=True):
    """One value of a document and where it stands. `source` is a file's or an object's name."""

    source: str
    path: str
    value: object
    spelling: Spelling = Spelling.EXACT

    def where(self) -> str:
        return f"{self.source}: {self.path}" if self.path else self.source

    def refused(self, wanted: str) -> ContractError:
        return ContractError(self.complaint(wanted))

    def complaint(self, wanted: str) -> Complaint:
        return Complaint(self.where(), quoted(self.value), wanted)

    def at(self, key: str, value: object) -> "Field":
        return Field(self.source, below(self.path, key), value, self.spelling)


def members(field: Field) -> tuple[tuple[str, Field], ...]:
    """The keys of a mapping and what they hold, null included."""
    if not isinstance(field.value, dict):
        raise field.refused("a mapping")
    for key in field.value:
        if not isinstance(key, str):
            raise ContractError(Complaint(f"a key of {field.where()}", quoted(key), "a text"))
    return tuple((key, field.at(key, value)) for key, value in field.value.items())


def member(field: Field, name: str) -> Field | None:
    """What a mapping holds under this name; None where that is nothing or null."""
    found = dict(members(field))
    key = spelled(found, name, field.spelling)
    chosen = None if key is None else found[key]
    return None if chosen is None or chosen.value is None else chosen


def spelled(keys: dict[str, Field], name: str, spelling: Spelling) -> str | None:
    """The key that counts as this name: the exact one before any other spelling of it."""
    if name in keys or spelling is Spelling.EXACT:
        return name if name in keys else None
    return next((key for key in keys if key.casefold() == name.casefold()), None)


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


def parse_json(content: str, source: str) -> object:
    """JSON text as plain values. Duplicate keys: the last one counts, as in Go."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        told = f"JSON ({reason})"
        raise ContractError(Complaint(source, quoted(content), told)) from None
