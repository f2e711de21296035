"""A Struct's annotations as a structural OpenAPI schema, the dialect of CustomResourceDefinitions.

Owns that translation. Nothing is stated twice: types, bounds, defaults and descriptions are the
Struct's, and the rules between fields are contract.definition_rules'. A default that is Go's zero
is not written: absent means it anyway. A regex with words for a person becomes a rule in CEL,
whose message those words are, as the API server shows a bare pattern otherwise.
"""

import enum
from collections.abc import Mapping
from typing import Any

from msgspec import inspect

from slackwater.contract.definition_rules import RULES, CelRule, saying
from slackwater.contract.schema import BOUND

Schema = dict[str, Any]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1


def schema_of(kind: type) -> Schema:
    """The schema of a whole object: its own fields beside those of every object."""
    (info,) = inspect.multi_type_info([kind])
    schema = _schema(info)
    # A rule may blame metadata.name only where the schema has it.
    metadata = {"properties": {"name": {"type": "string"}}} if kind in RULES else {}
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", **metadata},
    }
    return schema


def _struct(info: inspect.StructType) -> Schema:
    schema: Schema = {
        "type": "object",
        "description": _prose(info.cls),
        "properties": {each.encode_name: _field(each) for each in info.fields},
    }
    # The API server itself wants metadata.
    wanted = (each.encode_name for each in info.fields if each.required)
    required = sorted(name for name in wanted if name != "metadata")
    if required:
        schema["required"] = required
    rules = RULES.get(info.cls, ())
    if rules:
        schema["x-kubernetes-validations"] = [_cel(rule) for rule in rules]
    return schema


def _prose(cls: type) -> str:
    return " ".join((cls.__doc__ or "").split())


def _field(info: inspect.Field) -> Schema:
    schema = _schema(info.type)
    default = info.default.value if isinstance(info.default, enum.Enum) else info.default
    if isinstance(default, str | int) and default:
        schema["default"] = default
    return schema


def _schema(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=stated, extra=extra):
            return _annotated(_schema(inner), stated or {}, (extra or {}).get(BOUND, ""))
        case inspect.UnionType():
            return _union(kind)
        case inspect.StructType():
            return _struct(kind)
        case inspect.DictType(value_type=value):
            bounds = {"maxProperties": kind.max_length}
            return {"type": "object", "additionalProperties": _schema(value), **_stated(bounds)}
        case inspect.VarTupleType(item_type=item):
            bounds = {"minItems": kind.min_length, "maxItems": kind.max_length}
            return {
                "type": "array",
                "items": _schema(item),
                "x-kubernetes-list-type": "atomic",
                **_stated(bounds),
            }
        case _:
            return _scalar(kind)


def _scalar(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.EnumType(cls=cls):
            return {"type": "string", "enum": [each.value for each in cls]}
        case inspect.IntType(ge=low, le=high):
            return {"type": "integer", **_range(low, high)}
        case inspect.StrType(min_length=low, max_length=high, pattern=pattern):
            bounds = {"minLength": low, "maxLength": high, "pattern": _go(pattern)}
            return {"type": "string", **_stated(bounds)}
        case _:
            raise TypeError(f"no schema for {kind}")


def _range(low: int | None, high: int | None) -> Schema:
    """Bounds; those of 64 bits are the API server's own."""
    width = "int32" if high is not None and high <= _INT32 else "int64"
    bounds = {
        "minimum": None if low == -_INT64 - 1 else low,
        "maximum": None if high == _INT64 else high,
    }
    return {"format": width, **_stated(bounds)}


def _union(kind: inspect.UnionType) -> Schema:
    """One kind or nothing; or a number or a text, which Kubernetes has a word for."""
    kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if len(kinds) == 1:
        return _schema(kinds[0])
    parts: Schema = {}
    for each in kinds:
        parts |= {k: v for k, v in _schema(each).items() if k not in ("type", "format")}
    return {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        **parts,
    }


def _annotated(schema: Schema, stated: Mapping[str, Any], wanted: str) -> Schema:
    """What an annotation says more: prose before that of the type, and words for a regex."""
    merged = {**schema, **stated}
    if wanted and "pattern" in merged and merged.get("type") == "string":
        # A raw text in CEL: a backslash is one.
        rule = saying("self", f"self.matches(r'{merged.pop('pattern')}')", wanted)
        merged["x-kubernetes-validations"] = [_cel(rule)]
    return merged


def _cel(rule: CelRule) -> Schema:
    told = {
        "rule": rule.rule,
        "message": rule.message,
        "messageExpression": rule.expression or None,
        "fieldPath": rule.field_path or None,
    }
    return _stated(told)


def _stated(bounds: Mapping[str, Any]) -> Schema:
    return {name: value for name, value in bounds.items() if value is not None}


def _go(pattern: str | None) -> str | None:
    return None if pattern is None else pattern.replace(r"\Z", "$")
