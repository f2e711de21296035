"""Foreign documents as typed values: a Struct's annotations are the schema.

Owns the way from plain values to a Struct, and what is said when there is none: every bad field
with its path, its value and its bound, read off the annotations. Refuses to convert, as
contract.document does. Null counts as absent and unknown keys are ignored, as in Kubernetes.
"""

import functools
import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import inspect

from slackwater.contract.document import Field
from slackwater.model.problem import InvalidError, Problem, quoted

T = TypeVar("T", bound=msgspec.Struct)

#: Under this key of Meta(extra=...) stands what a person should write, where a bound is a regex.
WANTED = "wanted"
# No kind of ours is nested as deeply; what lies below is not read.
_DEEPEST = 32


def read_typed(field: Field, kind: type[T]) -> T:
    """The value of a field as `kind`; raises InvalidError with all that is wrong."""
    plain = _without_nulls(field.value, {}, _DEEPEST)
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        found = tuple(_flaws(Field(field.source, field.path, plain), _outline(kind)))
        raise InvalidError(*(found or (field.problem(str(error)),))) from None


def decode_typed(content: bytes | msgspec.Raw, kind: type[T], source: str) -> T:
    """JSON as `kind`, at once where nothing is wrong with it; else as read_typed reads it."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError:
        return read_typed(Field(source, "", msgspec.json.decode(content)), kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        seen = bytes(content).decode("utf-8", "replace")
        raise InvalidError(Problem(source, quoted(seen), f"JSON ({error})")) from None


@functools.cache
def _outline(kind: type) -> inspect.Type:
    """What the annotations say. Kept, as an object that is wrong is read at each of its events."""
    return inspect.type_info(kind)


def _without_nulls(value: object, done: dict[int, object], depth: int) -> object:
    """The API server drops nulls. Each node once: YAML aliases make a few bytes a large tree."""
    if not isinstance(value, dict | list) or depth == 0:
        return value
    if id(value) not in done:
        done[id(value)] = value
        done[id(value)] = (
            {k: _without_nulls(v, done, depth - 1) for k, v in value.items() if v is not None}
            if isinstance(value, dict)
            else [_without_nulls(each, done, depth - 1) for each in value]
        )
    return done[id(value)]


def _flaws(field: Field, kind: inspect.Type, wanted: str = "") -> Iterator[Problem]:
    """Every place where the value is not what the type says."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            yield from _flaws(field, inner, (extra or {}).get(WANTED, wanted))
        case inspect.UnionType(types=types):
            yield from _flaws_of_union(field, types, wanted)
        case inspect.StructType(fields=fields) if isinstance(field.value, dict):
            yield from _flaws_of_struct(field, field.value, fields)
        case inspect.DictType() if isinstance(field.value, dict):
            yield from _flaws_of_mapping(field, field.value, kind)
        case inspect.VarTupleType(item_type=inner) if isinstance(field.value, list):
            if not _within(len(field.value), kind.min_length, kind.max_length):
                yield Problem(field.where(), f"a list of {len(field.value)}", words(kind))
            for place, each in enumerate(field.value):
                yield from _flaws(Field(field.source, f"{field.path}[{place}]", each), inner)
        case _:
            if not _holds(field.value, kind):
                yield field.problem(wanted or words(kind))


def _flaws_of_union(
    field: Field, types: tuple[inspect.Type, ...], wanted: str
) -> Iterator[Problem]:
    """One kind or nothing, or a number or a text: the kind that the value looks like decides."""
    kinds = [each for each in types if not isinstance(each, inspect.NoneType)]
    if len(kinds) == 1:
        yield from _flaws(field, kinds[0], wanted)
    elif all(any(_flaws(field, each)) for each in kinds):
        yield field.problem(wanted or " or ".join(words(each) for each in kinds))


def _flaws_of_struct(
    field: Field, value: dict[str, object], fields: tuple[inspect.Field, ...]
) -> Iterator[Problem]:
    for info in fields:
        found = field.at(info.encode_name, value.get(info.encode_name))
        if info.encode_name in value:
            yield from _flaws(found, info.type)
        elif info.required:
            yield found.problem(words(info.type))


def _flaws_of_mapping(
    field: Field, value: dict[object, object], kind: inspect.DictType
) -> Iterator[Problem]:
    if not _within(len(value), kind.min_length, kind.max_length):
        yield Problem(field.where(), f"a mapping of {len(value)}", words(kind))
    for key, each in value.items():
        if isinstance(key, str) and _holds(key, kind.key_type):
            yield from _flaws(field.at(key, each), kind.value_type)
        else:
            yield Problem(f"a key of {field.where()}", quoted(key), words(kind.key_type))


def _holds(value: object, kind: inspect.Type) -> bool:
    """Whether a scalar is inside its bounds; a mapping or list that got here is none."""
    match kind:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType(ge=low, le=high):
            return type(value) is int and _within(value, low, high)
        case inspect.StrType(min_length=low, max_length=high, pattern=pattern):
            return (
                isinstance(value, str)
                and _within(len(value), low, high)
                and (pattern is None or re.search(pattern, value) is not None)
            )
        case inspect.EnumType(cls=cls):
            return value in [each.value for each in cls]
        case inspect.Metadata(type=inner):
            return _holds(value, inner)
        case _:
            return False


def _within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def words(kind: inspect.Type) -> str:
    """What a value of this type must be, for a person."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            return str((extra or {}).get(WANTED, "")) or words(inner)
        case inspect.UnionType(types=types):
            told = [words(each) for each in types if not isinstance(each, inspect.NoneType)]
            return " or ".join(told)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number{_span(low, high)}"
        case inspect.StrType(min_length=low, max_length=high):
            return f"a text{_span(low, high, ' characters')}"
        case inspect.EnumType(cls=cls):
            return f"one of {', '.join(str(each.value) for each in cls)}"
        case inspect.VarTupleType(min_length=low, max_length=high):
            return f"a list{_span(low, high, ' elements')}"
        case inspect.DictType(min_length=low, max_length=high):
            return f"a mapping{_span(low, high, ' keys')}"
        case inspect.StructType():
            return "a mapping"
        case _:
            raise TypeError(f"no words for {kind}")


def _span(low: int | None, high: int | None, unit: str = "") -> str:
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f" of at most {high}{unit}"
        case _, None:
            return f" of at least {low}{unit}"
        case _:
            return f" from {low} to {high}" if not unit else f" of {low} to {high}{unit}"
