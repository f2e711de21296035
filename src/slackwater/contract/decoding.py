"""Reads values as Structs, by the Structs' annotations (contract.schema).

All that is wrong is collected: each problem with its path, its value and its bound. Nothing is
converted: in a file a text is not a number and true is not 1. Flags and variables are always
texts, and are read as such. Null counts as absent, as in Kubernetes. Unknown keys are ignored,
except in our own settings (SettingsStruct).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from slackwater.contract.document import Field, spelled
from slackwater.contract.schema import (
    CHECK,
    EMPTY,
    HIDDEN,
    LARGEST,
    PARSE,
    Annotation,
    SettingsStruct,
    Unit,
    annotation_of,
    describe_bound,
    describe_type,
    describe_whole,
    inline_struct,
    key_of,
    known_keys,
    pair_types,
    stated_types,
    struct_type,
)
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import DurationError, Micros, parse_duration

T = TypeVar("T", bound=msgspec.Struct)

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MANY_DIGITS = re.compile(r"[+-]?[0-9]{20,}", re.ASCII)
#: An exponent too: Go's programs, and so the original rebalancer, print and read 1.5e0.
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
#: What Go's strconv.ParseBool takes. "yes" is not among them.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_NOT_SHOWN = "a text that is not shown"


#: What a sentence about such a text says.
BOOL_WANTED = "true or false (1, t, T, TRUE and True are true, their opposites false)"


def parse_bool(text: str) -> bool | None:
    """The one spelling of true and false in texts; None for anything else."""
    return _BOOLEANS.get(text)


def read_struct(field: Field, kind: type[T]) -> T:
    """The value of a field as `kind`; raises InvalidError with all that is wrong."""
    problems: list[Problem] = []
    stated = check_struct(field, kind, problems)
    if problems:
        raise InvalidError(*problems)
    return _convert(stated, kind, field)


def decode_struct(content: bytes | msgspec.Raw, kind: type[T], source: str) -> T:
    """JSON as `kind`: decoded at once where nothing is wrong with it, else as read_struct reads it.
    Not for kinds with durations, whose numbers it would take."""
    try:
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.ValidationError:  # it stops at the first; what follows may be no JSON
            document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        text = bytes(content).decode("utf-8", "replace")
        problem = Field(source, "", text).problem(f"JSON ({error})")
        raise InvalidError(problem) from None
    return read_struct(Field(source, "", document), kind)


def read_over(field: Field, base: T) -> T:
    """What a mapping states over `base`, which stays where a key is absent or null."""
    problems: list[Problem] = []
    stated = check_struct(field, type(base), problems)
    if problems:
        raise InvalidError(*problems)
    return with_stated(base, field, stated)


def check_struct(
    field: Field, kind: type[msgspec.Struct], problems: list[Problem]
) -> dict[str, Any]:
    """What a mapping states, as plain values in the shape of `kind`; what it does not state is left
    out. So is whatever is wrong, and the problems have it."""
    stated = _Checker(problems).check(field, struct_type(kind))
    return stated if isinstance(stated, dict) else {}


def check_value(
    field: Field, info: inspect.Type, problems: list[Problem]
) -> object | msgspec.UnsetType:
    """The plain value of a field; UNSET, and a problem more, where it is wrong."""
    return _Checker(problems).check(field, info)


def check_text(
    info: inspect.Type, text: str, where: str, problems: list[Problem]
) -> object | msgspec.UnsetType:
    """The plain value that a flag or variable states; UNSET, and a problem more, where it is wrong.
    `where` is its name."""
    field, kind = Field(where, "", text), annotation_of(info).type
    if pair := pair_types(kind):
        return _check_pairs_text(field, text, info, pair, problems)
    found: list[Problem] = []
    value = _Checker(found).check(Field(where, "", _from_text(info, text)), info)
    if found and isinstance(kind, inspect.VarTupleType):
        found = [field.problem(f"{describe_bound(info)}, with commas")]
    elif found and isinstance(kind, inspect.FloatType):
        found = [field.problem(describe_type(info))]
    problems += found
    return msgspec.UNSET if found else value


def with_stated(base: T, field: Field, *stated: Mapping[str, Any]) -> T:
    """`base` with what was stated over it, the later over the earlier. `field` is where it stands,
    for problems between values that are fine alone."""
    merged: Any = msgspec.to_builtins(base)
    for each in stated:
        merged = _merge(merged, each)
    return _convert(merged, type(base), field)


def _merge(under: Any, over: Any) -> Any:  # noqa: ANN401  plain values
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    both = {key: _merge(under[key], over[key]) for key in under.keys() & over.keys()}
    return {**under, **over, **both}


def _convert(plain: object, kind: type[T], field: Field) -> T:
    try:
        value = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise InvalidError(field.problem(str(error))) from None
    conflicts = tuple(_conflicts(value, field))
    if conflicts:
        raise InvalidError(*conflicts)
    return value


def _conflicts(value: msgspec.Struct, field: Field) -> Iterator[Problem]:
    """A Struct of ours whose values can be at odds with each other has a method `conflicts`; the
    paths of its problems begin at the Struct."""
    find = getattr(value, "conflicts", None)
    for each in () if find is None else find():
        path = ".".join(filter(None, (field.path, each.path)))
        yield msgspec.structs.replace(each, path=path, document=field.document)
    for info in struct_type(type(value)).fields:
        inner = getattr(value, info.name)
        if isinstance(inner, SettingsStruct):
            inline = inline_struct(info.type) is not None
            yield from _conflicts(inner, field if inline else field.at(key_of(info), None))


class _Checker:
    """Collects what is wrong on the way through a document."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems

    def check(self, field: Field, info: inspect.Type) -> object | msgspec.UnsetType:
        """The value, if it is what the type says; else UNSET, and what is wrong with it."""
        found, value = annotation_of(info), field.value
        match found.type:
            case inspect.StructType() as kind if isinstance(value, dict):
                if issubclass(kind.cls, SettingsStruct):
                    self._refuse_unknown(field, value, kind)
                return self._fields(field, value, kind)
            case inspect.DictType() as kind if isinstance(value, dict):
                return self._mapping(field, value, kind)
            case inspect.VarTupleType() as kind if (pair := pair_types(kind)) is not None:
                if isinstance(value, dict):
                    return self._pairs(field, value, kind, pair)
            case inspect.VarTupleType() as kind if isinstance(value, list | tuple):
                return self._list(field, value, kind)
            case _ if (good := _simple(field, found)) is not msgspec.UNSET:
                return good
        self._problems.append(_refusal(field, found, info))
        return msgspec.UNSET

    def _fields(
        self, field: Field, value: dict[object, object], kind: inspect.StructType
    ) -> dict[str, object]:
        stated: dict[str, object] = {}
        for each in kind.fields:
            if inner := inline_struct(each.type):
                stated[each.encode_name] = self._fields(field, value, inner)
                continue
            name = key_of(each)
            key = spelled(value, name, field.spelling) or name
            at = field.at(key, value.get(key))
            if at.value is not None:
                checked = self.check(at, each.type)
                if checked is not msgspec.UNSET:
                    stated[each.encode_name] = checked
            elif each.required:
                self._problems.append(at.problem(describe_type(each.type)))
        return stated

    def _refuse_unknown(
        self, field: Field, value: dict[object, object], kind: inspect.StructType
    ) -> None:
        known = known_keys(kind)
        bound = f"one of {', '.join(known)}"
        for key in value:
            if key not in known:
                self._problems.append(field.unknown_key(key, bound))
                bound = "one of the same keys"  # listed once is enough

    def _mapping(
        self, field: Field, value: dict[object, object], kind: inspect.DictType
    ) -> dict[str, object]:
        if not _within(len(value), kind.min_length, kind.max_length):
            seen = f"a mapping of {len(value)}"
            self._problems.append(field.problem(describe_type(kind), seen))
        stated: dict[str, object] = {}
        for key, each in value.items():
            key_type = annotation_of(kind.key_type)
            if not isinstance(key, str) or _scalar(key_type, key) is msgspec.UNSET:
                self._problems.append(field.unknown_key(key, describe_type(kind.key_type)))
            elif each is not None:
                stated[key] = self.check(field.at(key, each), kind.value_type)
        return stated

    def _pairs(
        self,
        field: Field,
        value: dict[object, object],
        kind: inspect.VarTupleType,
        pair: tuple[inspect.Type, inspect.Type],
    ) -> tuple[tuple[str, object], ...]:
        if not _within(len(value), kind.min_length, kind.max_length):
            self._problems.append(field.problem(describe_bound(kind), f"{len(value)} pairs"))
        return tuple(self._mapping(field, value, inspect.DictType(*pair)).items())

    def _list(
        self, field: Field, value: Sequence[object], kind: inspect.VarTupleType
    ) -> list[object | msgspec.UnsetType]:
        if not _within(len(value), kind.min_length, kind.max_length):
            seen = f"a list of {len(value)}"
            self._problems.append(field.problem(describe_type(kind), seen))
        places = (
            Field(field.source, f"{field.path}[{place}]", each, field.spelling)
            for place, each in enumerate(value)
        )
        return [self.check(each, kind.item_type) for each in places]


def _refusal(field: Field, found: Annotation, info: inspect.Type) -> Problem:
    if isinstance(found.type, inspect.IntType) and _is_beyond(field.value):
        return field.problem(describe_whole(found, found.type))
    return field.problem(describe_type(info), _shown(found, field.value))


def _shown(found: Annotation, value: object) -> str:
    hidden = found.extra.get(HIDDEN)
    if hidden == "" and not isinstance(value, str):
        return "a value that is not shown"
    secret = isinstance(value, str) and hidden is not None and hidden in value
    return _NOT_SHOWN if secret else quoted(value)


def _simple(field: Field, found: Annotation) -> object | msgspec.UnsetType:
    """A scalar, or whatever of a union the value is."""
    if not isinstance(found.type, inspect.UnionType):
        return _scalar(found, field.value)
    for each in stated_types(found.type.types):
        trial: list[Problem] = []
        value = _Checker(trial).check(field, each)
        if not trial:
            return value
    return msgspec.UNSET


def _scalar(found: Annotation, value: object) -> object | msgspec.UnsetType:
    """The plain value, if it is inside its bounds; UNSET where it is not."""
    match found.type:
        case inspect.IntType(ge=low, le=high):
            number = _number(found, value)
            fits = type(number) is int and abs(number) <= LARGEST and _within(number, low, high)
            return number if fits else msgspec.UNSET
        case inspect.FloatType(ge=low, le=high):
            real = _finite(value)
            return msgspec.UNSET if real is None or not _within(real, low, high) else real
        case inspect.StrType() as kind if isinstance(value, str):
            if value == found.extra.get(EMPTY):
                return ""
            good = found.extra.get(CHECK, bool)(value) if CHECK in found.extra else True
            return value if good and _text_fits(kind, value) else msgspec.UNSET
        case inspect.BoolType() if isinstance(value, bool):
            return value
        case inspect.EnumType(cls=cls) if value in [each.value for each in cls]:
            return value
        case inspect.LiteralType(values=values) if value in values:
            return value
        case inspect.AnyType():
            return value
        case _:
            return msgspec.UNSET


def _text_fits(kind: inspect.StrType, value: str) -> bool:
    fits = kind.pattern is None or re.search(kind.pattern, value) is not None
    return fits and _within(len(value), kind.min_length, kind.max_length)


def _number(found: Annotation, value: object) -> object:
    if PARSE in found.extra:
        return found.extra[PARSE](value)
    return _parsed_duration(value) if found.unit is Unit.DURATION else value


def _parsed_duration(value: object) -> Micros | None:
    try:
        return parse_duration(value, "") if isinstance(value, str) else None
    except DurationError:
        return None


def _finite(value: object) -> float | None:
    """NaN passes every comparison that forbids something, and infinity switches a setting off."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _is_beyond(value: object) -> bool:
    """Whether it is a whole number that 64 bits do not hold."""
    if isinstance(value, str):
        return _MANY_DIGITS.fullmatch(value) is not None
    return isinstance(value, int) and abs(value) > LARGEST


def _from_text(info: inspect.Type, text: str) -> object:
    """A flag's or variable's text as a file would state it; as it is where it cannot be that."""
    found = annotation_of(info)
    match found.type:
        case inspect.IntType() if found.unit is not Unit.DURATION and _WHOLE.fullmatch(text):
            return int(text)
        case inspect.FloatType() if _DECIMAL.fullmatch(text):
            return float(text)
        case inspect.BoolType():
            return _BOOLEANS.get(text, text)
        case inspect.VarTupleType():
            return [each.strip() for each in text.split(",")] if text.strip() else []
        case _:
            return text


def _check_pairs_text(
    field: Field,
    text: str,
    info: inspect.Type,
    pair: tuple[inspect.Type, inspect.Type],
    problems: list[Problem],
) -> object | msgspec.UnsetType:
    """NAME=VALUE with commas. A name that is there twice stays so: whoever uses them judges."""
    kinds = annotation_of(pair[0]), annotation_of(pair[1])
    split = [each.partition("=") for each in text.split(",")] if text.strip() else []
    found = tuple((name.strip(), value.strip()) for name, _, value in split)
    checked = [_scalar(*each) for both in found for each in zip(kinds, both, strict=True)]
    if not all(equals for _, equals, _ in split) or msgspec.UNSET in checked:
        bound = f"{describe_bound(info)}, as NAME=VALUE with commas between them"
        problems.append(field.problem(bound, _shown(kinds[1], text)))
        return msgspec.UNSET
    kind = annotation_of(info).type
    if isinstance(kind, inspect.VarTupleType):
        few = _within(len(found), kind.min_length, kind.max_length)
        if not few:
            problems.append(field.problem(describe_bound(info), f"{len(found)} pairs"))
            return msgspec.UNSET
    return found
