"""One schema for everything that is read: the annotations of msgspec Structs.

Types, bounds, units, defaults and prose stand in a Struct's annotations. Whatever reads a file, a
flag, a variable or an object of the API server goes by them (contract.decoding), and so do --help,
the tables in docs, the chart's schema and the CustomResourceDefinitions. Here is what annotations
may say, and what they say in words.
"""

import enum
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, inspect

from slackwater.model.units import EXAMPLES, Micros, Percent, Permille, format_duration

# Keys of Meta(extra=...).
#: What a person should write, where the bound is a regular expression.
BOUND = "bound"
#: A looser regular expression for the chart's schema: those of Go have no lookahead.
GO_PATTERN = "go-pattern"
#: A Unit.
UNIT = "unit"
#: True: the keys of this Struct stand in the mapping of the Struct around it.
INLINE = "inline"
#: A word that stands for the empty text, where a variable cannot be empty.
EMPTY = "empty"
#: A function that makes a plain value of what a document holds, or None where it cannot.
PARSE = "parse"
#: A function that says whether a text is good, where a regular expression cannot.
CHECK = "check"
#: A refused text with this in it may be a secret and is not shown; with "" nothing is shown.
HIDDEN = "hidden"

#: Whole numbers have 64 bits.
LARGEST = 2**63 - 1


class Unit(enum.Enum):
    """What a number counts. A duration is held in microseconds and written as 1s."""

    PERCENT = "%"
    PERMILLE = "‰"
    COUNT = "count"
    DURATION = "duration"


Duration = Annotated[Micros, Meta(extra={UNIT: Unit.DURATION})]
Percentage = Annotated[Percent, Meta(extra={UNIT: Unit.PERCENT})]
Permillage = Annotated[Permille, Meta(extra={UNIT: Unit.PERMILLE})]
Count = Annotated[int, Meta(extra={UNIT: Unit.COUNT})]

_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
#: An extended resource, by Kubernetes' rules for qualified names. The domain is required: cpu and
#: memory are the kubelet's own.
ResourceName = Annotated[
    str,
    Meta(
        pattern=rf"^(?=[^/]{{1,253}}/){_DNS_LABEL}(?:\.{_DNS_LABEL})*/"
        r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
        extra={
            BOUND: "a domain, a slash and a name, such as example.com/batch-cpu",
            GO_PATTERN: r"^[a-z0-9.-]+/[A-Za-z0-9_.-]+$",
        },
    ),
]


class SettingsStruct(msgspec.Struct, frozen=True):
    """A section of our own settings. Keys that it does not know are refused in files, because a
    misspelt setting is a setting that is silently not set. Recordings hold these Structs as well:
    there fields keep their names, and those of other versions are ignored."""


class Annotation(msgspec.Struct, frozen=True):
    """A type without its annotations, and what they say besides its bounds."""

    type: inspect.Type
    extra: Mapping[str, Any] = {}
    description: str = ""

    @property
    def unit(self) -> Unit | None:
        return self.extra.get(UNIT)

    def show_number(self, number: float) -> str:
        """With its unit, as documents show it."""
        match self.unit:
            case Unit.DURATION:
                return format_duration(Micros(int(number)))
            case None | Unit.COUNT:
                return _decimal(number)
            case unit:
                return f"{_decimal(number)} {unit.value}"


def _decimal(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def annotation_of(info: inspect.Type) -> Annotation:
    """What is said of a type; in "this or nothing", of this."""
    extra: dict[str, Any] = {}
    description = ""
    while True:
        match info:
            case inspect.Metadata(type=inner, extra=more, extra_json_schema=stated):
                extra = {**(more or {}), **extra}
                description = description or str((stated or {}).get("description", ""))
                info = inner
            case inspect.UnionType(types=types) if len(stated_types(types)) == 1:
                (info,) = stated_types(types)
            case _:
                return Annotation(info, extra, description)


def stated_types(types: Sequence[inspect.Type]) -> tuple[inspect.Type, ...]:
    """Those of a union, without None."""
    return tuple(each for each in types if not isinstance(each, inspect.NoneType))


@functools.cache
def struct_type(kind: type[msgspec.Struct]) -> inspect.StructType:
    """What the annotations of a Struct say. Kept: a bad object is read at each of its events."""
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind} is not a Struct")
    return info


def inline_struct(info: inspect.Type) -> inspect.StructType | None:
    """The Struct whose keys stand in the mapping around it."""
    found = annotation_of(info)
    if INLINE in found.extra and isinstance(found.type, inspect.StructType):
        return found.type
    return None


def pair_types(info: inspect.Type) -> tuple[inspect.Type, inspect.Type] | None:
    """The types of names and values in a tuple of pairs, which is a mapping in a file and
    NAME=VALUE with commas in a text."""
    match info:
        case inspect.VarTupleType(item_type=inspect.TupleType(item_types=(name, value))):
            return name, value
        case _:
            return None


def key_of(field: inspect.Field) -> str:
    """A field's key in documents: holdFor for hold_for."""
    first, *rest = field.encode_name.split("_")
    return first + "".join(word.title() for word in rest)


def known_keys(kind: inspect.StructType) -> tuple[str, ...]:
    """The keys of a mapping, those of inline Structs included."""
    found: list[str] = []
    for each in kind.fields:
        inner = inline_struct(each.type)
        found += (key_of(each),) if inner is None else known_keys(inner)
    return tuple(found)


def describe_type(info: inspect.Type) -> str:
    """What a value of this type must be, for a sentence."""
    found = annotation_of(info)
    match found.type:
        case _ if BOUND in found.extra:
            return str(found.extra[BOUND])
        case inspect.UnionType(types=types):
            return " or ".join(describe_type(each) for each in stated_types(types))
        case inspect.IntType() | inspect.FloatType() as number:
            return ", ".join(filter(None, (_noun(found), _span(found, number.ge, number.le))))
        case inspect.EnumType(cls=cls):
            return f"one of {', '.join(str(each.value) for each in cls)}"
        case inspect.LiteralType(values=values):
            return " or ".join(map(str, values))
        case inspect.VarTupleType() if pair_types(found.type):
            return f"a mapping, {describe_bound(info)}"
        case inspect.DictType(min_length=low, max_length=high):
            return f"a mapping{_length(low, high, 'keys')}"
        case inspect.StructType():
            return "a mapping"
        case _:
            return describe_bound(info)


def describe_bound(info: inspect.Type) -> str:
    """The bound alone, for a table: "1 % to 100 %", "idle, weight or none"."""
    found = annotation_of(info)
    match found.type:
        case _ if BOUND in found.extra:
            return str(found.extra[BOUND])
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType() as number:
            return _span(found, number.ge, number.le)
        case inspect.EnumType(cls=cls):
            *others, last = (str(each.value) for each in cls)
            return f"{', '.join(others)} or {last}"
        case inspect.StrType(min_length=low, max_length=high):
            return f"a text{_length(low, high, 'characters')}"
        case inspect.VarTupleType() as several:
            return _describe_several(several)
        case _:
            raise TypeError(f"no description of {found.type}")


def _describe_several(kind: inspect.VarTupleType) -> str:
    low, high = kind.min_length, kind.max_length
    if pair := pair_types(kind):
        name, value = map(describe_type, pair)
        few = "" if high is None else f"at most {high} "
        return f"{few}pairs of {name} and {value}"
    if low is None and high is None and BOUND in annotation_of(kind.item_type).extra:
        return f"a list of {describe_type(kind.item_type)}"
    return f"a list{_length(low, high, 'elements')}"


def describe_whole(found: Annotation, number: inspect.IntType) -> str:
    """What a whole number must be, with both ends, for one beyond 64 bits: "at least 1" would
    say nothing about it."""
    if number.ge is None and number.le is None:
        return f"{_noun(found)} of 64 bits"
    low = -LARGEST if number.ge is None else number.ge
    high = LARGEST if number.le is None else number.le
    return f"{_noun(found)}, {_span(found, low, high)}"


def _noun(found: Annotation) -> str:
    if found.unit is Unit.DURATION:
        return EXAMPLES
    return "a number" if isinstance(found.type, inspect.FloatType) else "a whole number"


def _span(found: Annotation, low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{found.show_number(low)} to {found.show_number(high)}"
    if low is not None:
        return f"at least {found.show_number(low)}"
    return "" if high is None else f"at most {found.show_number(high)}"


def _length(low: int | None, high: int | None, unit: str) -> str:
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f" of at most {high} {unit}"
        case _, None:
            return f" of at least {low} {unit}"
        case _:
            return f" of {low} to {high} {unit}"


class ForeignSection(msgspec.Struct, frozen=True):
    """`title` is where it stands in the foreign configuration, for messages.

    `switched_on` is what our section reads if the foreign configuration switches it on, else None,
    and `why_off` says why it does not. `values` fill what our own settings leave open where those
    switch the section on. `wanted` is whether it would be switched on, if labels and flags let it.
    """

    title: str
    switched_on: Mapping[str, object] | None = None
    values: Mapping[str, object] = {}
    why_off: str = ""
    wanted: bool = False
