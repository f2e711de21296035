"""JSON Schema of documents that people write, made of the annotations that read them.

What an annotation says becomes a keyword where JSON Schema has one (2020-12), and prose where it
has not: rules between fields are the reader's own. So what is invalid here is refused there, but
for null, which readers take for a key that is absent, and keys of earlier versions.
"""

import enum
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from slackwater.contract.schema import (
    BOUND,
    INLINE,
    PARSE,
    Annotation,
    SettingsStruct,
    Unit,
    annotation_of,
    describe_type,
    key_of,
    pair_types,
    stated_types,
    struct_type,
)
from slackwater.model.units import Micros, format_duration

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: As model.units reads it: 500ms, 1s, 1m30s.
_DURATION = r"^([0-9]+(\.[0-9]+)?(h|ms|m|s|us))+$"
#: As Kubernetes writes amounts: 2, 1500m, 0.5.
_QUANTITY: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {
            "type": "string",
            "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$",
        },
    ]
}


def file_schema(kind: str, api_version: str, spec: Schema, required: bool) -> Schema:
    """A whole file with what stands around its spec."""
    return {
        "$schema": DIALECT,
        "title": kind,
        "type": "object",
        "properties": {
            "apiVersion": {"const": api_version},
            "kind": {"const": kind},
            "metadata": {"type": "object"},
            "spec": spec,
        },
        "required": ["apiVersion", "kind", *(["spec"] if required else [])],
        "additionalProperties": False,
    }


def struct_schema(kind: type[msgspec.Struct], stated: Mapping[str, Schema] | None = None) -> Schema:
    """Of a Struct; `stated` are the schemas of keys whose type says nothing."""
    return _struct(struct_type(kind), stated or {})


def type_schema(info: inspect.Type) -> Schema:
    found = annotation_of(info)
    told = _keywords(found)
    prose = [found.description, f"Must be {describe_type(info)}." if _says_more(found) else ""]
    if any(prose):
        told["description"] = " ".join(filter(None, prose))
    return told


def _says_more(found: Annotation) -> bool:
    return BOUND in found.extra or found.unit not in (None, Unit.COUNT)


def _keywords(found: Annotation) -> Schema:
    if PARSE in found.extra:
        return dict(_QUANTITY)
    match found.type:
        case inspect.IntType() if found.unit is Unit.DURATION:
            return {"type": "string", "pattern": _DURATION}
        case inspect.IntType(ge=low, le=high) | inspect.FloatType(ge=low, le=high):
            kind = "integer" if isinstance(found.type, inspect.IntType) else "number"
            return {"type": kind, **_present(minimum=low, maximum=high)}
        case inspect.StrType(min_length=low, max_length=high, pattern=pattern):
            regex = pattern and pattern.replace(r"\Z", "$").replace("(?a:", "(?:")
            return {"type": "string", **_present(minLength=low, maxLength=high, pattern=regex)}
        case inspect.EnumType(cls=cls):
            return {"enum": [each.value for each in cls]}
        case inspect.LiteralType(values=values):
            return {"enum": list(values)}
        case inspect.UnionType(types=types):
            return {"anyOf": [type_schema(each) for each in stated_types(types)]}
        case _:
            return _containers(found.type)


def _containers(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.StructType():
            return _struct(kind, {})
        case inspect.VarTupleType(max_length=most) if pair := pair_types(kind):
            values = type_schema(pair[1])
            return {
                "type": "object",
                "additionalProperties": values,
                **_present(maxProperties=most),
            }
        case inspect.VarTupleType(item_type=item, min_length=low, max_length=high):
            return {
                "type": "array",
                "items": type_schema(item),
                **_present(minItems=low, maxItems=high),
            }
        case inspect.DictType(value_type=value):
            return {"type": "object", "additionalProperties": type_schema(value)}
        case inspect.AnyType():
            return {}
        case _:
            raise TypeError(f"no schema for {kind}")


def _present(**bounds: object) -> Schema:
    return {key: value for key, value in bounds.items() if value is not None}


def _struct(kind: inspect.StructType, stated: Mapping[str, Schema]) -> Schema:
    properties: Schema = {}
    required: list[str] = []
    for each in kind.fields:
        found = annotation_of(each.type)
        if INLINE in found.extra and isinstance(found.type, inspect.StructType):
            properties |= _struct(found.type, {})["properties"]
            continue
        key = key_of(each)
        properties[key] = {**stated.get(key, type_schema(each.type)), **_default(each)}
        required += [key] if each.required else []
    told: Schema = {"type": "object", "properties": properties}
    if required:
        told["required"] = required
    # Elsewhere unknown keys are passed over, as an API server does.
    if issubclass(kind.cls, SettingsStruct):
        told["additionalProperties"] = False
    return told


def _default(field: inspect.Field) -> Schema:
    """As a person would write it; nothing where a value must be computed."""
    found = annotation_of(field.type)
    match field.default:
        case enum.Enum() as word:
            return {"default": word.value}
        case int() as micros if found.unit is Unit.DURATION:
            return {"default": format_duration(Micros(micros))}
        case bool() | int() | float() | str() as plain if PARSE not in found.extra and plain != "":
            return {"default": plain}
        case _:
            return {}
