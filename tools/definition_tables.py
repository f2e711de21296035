"""Tables of the fields of our objects, for docs/reference/objects.md, from their definitions."""

from collections.abc import Iterator
from typing import Any

from slackwater.contract.definition import DEFINITIONS, Definition, manifest

Schema = dict[str, Any]

_HEAD = "| field | must be | default | means |\n|---|---|---|---|\n"
_EVERY_OBJECT = ("apiVersion", "kind", "metadata")
_WORDS = {"boolean": "true or false", "object": "a mapping", "array": "a list"}


def tables() -> str:
    """A heading and a table for each kind."""
    return "\n".join(f"{_heading(each)}\n{_HEAD}{_rows(each)}" for each in DEFINITIONS)


def _heading(definition: Definition) -> str:
    kind = definition.kind
    scope = "in a namespace" if kind.namespaced else "for the whole cluster"
    names = ", ".join(f"`{name}`" for name in (kind.kind.lower(), *definition.short_names))
    versions = " and ".join(version.name for version in definition.versions)
    return f"### {kind.kind} ({kind.group}/{versions})\n\n{scope}; kubectl: {names}\n"


def _rows(definition: Definition) -> str:
    schema = manifest(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = {k: v for k, v in schema["properties"].items() if k not in _EVERY_OBJECT}
    found = _fields({**schema, "properties": properties}, "")
    return "".join(f"{_row(path, each, needed)}\n" for path, each, needed in found)


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, Schema, bool]]:
    for name, each in schema.get("properties", {}).items():
        yield f"{path}{name}", each, name in schema.get("required", ())
        yield from _fields(each, f"{path}{name}.")
    if "items" in schema:
        yield from _fields(schema["items"], f"{path[:-1]}[].")
    if "additionalProperties" in schema:
        yield from _fields(schema["additionalProperties"], f"{path}*.")


def _row(path: str, schema: Schema, needed: bool) -> str:
    wanted = f"{_must_be(schema)}{', required' if needed else ''}"
    default = f"`{schema['default']}`" if "default" in schema else ""
    return f"| `{path}` | {wanted} | {default} | {_cell(schema.get('description', ''))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _must_be(schema: Schema) -> str:
    if "x-kubernetes-int-or-string" in schema:
        return "a number or a text"
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    rules = schema.get("x-kubernetes-validations", ())
    match schema["type"]:
        case "string" if rules:
            return _cell(str(rules[0]["message"]).removeprefix("must be "))
        case "string":
            return f"a text{_span(schema.get('minLength'), schema.get('maxLength'), ' characters')}"
        case "integer":
            return f"a whole number{_span(schema.get('minimum'), schema.get('maximum'))}"
        case "array":
            return f"a list{_span(schema.get('minItems'), schema.get('maxItems'))}"
        case kind:
            return _WORDS[kind]


def _span(low: int | None, high: int | None, unit: str = "") -> str:
    """Bounds that are only those of a number's width go without saying."""
    low = None if low == -(2**31) else low
    high = None if high == 2**31 - 1 else high
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f", at most {high}{unit}"
        case _, None:
            return f", at least {low}{unit}"
        case _:
            return f", {low} to {high}{unit}"
