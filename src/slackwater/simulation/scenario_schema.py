"""JSON Schema of a scenario's file, for editors. Its entries are scenario_entries' Structs."""

import msgspec

from slackwater.contract.json_schema import Schema, file_schema, struct_schema
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.agent_settings import AgentSettings
from slackwater.settings.setting import API_VERSION
from slackwater.simulation.demand import SHAPES
from slackwater.simulation.scenario_entries import (
    EVENTS,
    JobEntry,
    MetricEntry,
    PodAddedEntry,
    PodEntry,
    SpecEntry,
)
from slackwater.simulation.scenario_file import KIND
from slackwater.simulation.scenario_machine import ScenarioMachine

_DEMAND: Schema = {"$ref": "#/$defs/demand"}
_POD: Schema = {"$ref": "#/$defs/pod"}


def scenario_schema() -> Schema:
    settings = struct_schema(SETTINGS.spec)
    listed: dict[str, type[msgspec.Struct]] = {"metrics": MetricEntry, "jobs": JobEntry}
    spec = struct_schema(
        SpecEntry,
        {
            "machine": struct_schema(ScenarioMachine),
            "period": struct_schema(AgentSettings)["properties"]["period"],
            "settings": settings,
            "system": _DEMAND,
            "objects": {"type": "array", "items": {"type": "object"}},
            "pods": {"type": "array", "items": _POD},
            "events": {"type": "array", "items": {"oneOf": list(map(_event, EVENTS))}},
            **{
                key: {"type": "array", "items": struct_schema(kind, {"series": _DEMAND})}
                for key, kind in listed.items()
            },
        },
    )
    shared = {"demand": _demand(), "pod": struct_schema(PodEntry, {"demand": _DEMAND})}
    return {**file_schema(KIND, API_VERSION, spec, required=True), "$defs": shared}


def _event(name: str) -> Schema:
    kind = EVENTS[name]
    stated: dict[str, Schema] = {"kind": {"const": name}, "settings": {"type": "object"}}
    if kind is PodAddedEntry:
        stated["pod"] = _POD
    return struct_schema(kind, stated)


def _demand() -> Schema:
    """A quantity is steady; a mapping has one key, the shape."""
    quantity = struct_schema(JobEntry)["properties"]["cpu"]
    several = {"type": "array", "items": _DEMAND}
    shapes = {name: struct_schema(kind) for name, kind in SHAPES.items()}
    named = {"steady": quantity, **shapes, "sum": several}
    one = {"minProperties": 1, "maxProperties": 1, "additionalProperties": False}
    return {"anyOf": [quantity, {"type": "object", "properties": named, **one}]}
