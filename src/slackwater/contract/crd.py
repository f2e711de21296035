"""CustomResourceDefinitions of the kinds that we define, generated from the contract's types.

A Struct's annotations become a structural OpenAPI schema: types, bounds, defaults and descriptions
are stated there and nowhere else; rules between fields are in crd_rules. A default that is Go's
zero value is omitted, because absent means the same. A regex that has a description for people
becomes a CEL rule with that description as its message; the API server prints a bare pattern.
tools/definitions.py writes the chart's files with it.
"""

import enum
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from slackwater.contract import resources
from slackwater.contract.crane.ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.crane.prediction import TimeSeriesPrediction
from slackwater.contract.crd_rules import RULES, CelRule, saying
from slackwater.contract.ensurance_metric import EnsuranceMetric
from slackwater.contract.resources import Resource
from slackwater.contract.schema import BOUND
from slackwater.contract.topology import CraneTopology, NodeTopology, NodeTopologyV1Alpha1

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


Manifest = dict[str, Any]


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; with `wide`, only of `kubectl get -o wide`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False


class Version(msgspec.Struct, frozen=True):
    """One version of a kind. The first of a kind's versions is the stored one."""

    name: str
    type: type


class Definition(msgspec.Struct, frozen=True):
    """One kind. With `has_status`, only the status subresource writes its status."""

    kind: Resource
    versions: tuple[Version, ...]
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    has_status: bool = True
    annotations: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"{self.kind.plural}.{self.kind.group}"

    @property
    def file_name(self) -> str:
        return f"{self.kind.group}_{self.kind.plural}.yaml"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_SUMMARY = Column("Does", ".status.summary", description="What it does, in a sentence.")
_NODES = Column("Nodes", ".status.nodes", "integer", "How many nodes it is for.")


def _condition(name: str, description: str) -> Column:
    path = f".status.conditions[?(@.type=='{name}')].status"
    return Column(name, path, description=description)


_VALID = _condition("Valid", "Whether nothing in it is wrong or missing.")
_ENFORCED = _condition("Enforced", "Whether nodes follow it.")
_TRIGGERED = _condition("Triggered", "Whether one of its rules is triggered on a node.")
_JUDGED = (_VALID, _ENFORCED, _AGE)
_FOLLOWED = (_VALID, _ENFORCED, _TRIGGERED, _AGE)
#: Groups below k8s.io need it; the pull request is where this one was approved.
_APPROVED = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        resources.AVOIDANCE_ACTIONS,
        (Version("v1alpha1", AvoidanceAction),),
        ("avoid",),
        (
            _SUMMARY,
            Column("Cool-down", ".spec.coolDownSeconds", "integer", "Seconds.", wide=True),
            Column("Description", ".spec.description", wide=True),
            *_JUDGED,
        ),
    ),
    Definition(
        resources.NODE_QOS,
        (Version("v1alpha1", NodeQos),),
        ("nq",),
        (
            _SUMMARY,
            Column("First-metric", ".spec.rules[0].metricRule.name", wide=True),
            Column("First-action", ".spec.rules[0].actionName", wide=True),
            _NODES,
            *_FOLLOWED,
        ),
    ),
    Definition(
        resources.NODE_QOS_ENSURANCE_POLICIES,
        (Version("v1alpha1", NodeQosEnsurancePolicy),),
        ("nep",),
        (
            _SUMMARY,
            Column("First-metric", ".spec.objectiveEnsurances[0].metricRule.name", wide=True),
            Column("First-action", ".spec.objectiveEnsurances[0].actionName", wide=True),
            _NODES,
            *_FOLLOWED,
        ),
    ),
    Definition(
        resources.POD_QOS,
        (Version("v1alpha1", PodQos),),
        ("pq",),
        (_SUMMARY, Column("Allows", ".spec.allowedActions", wide=True), *_JUDGED),
    ),
    Definition(
        resources.ENSURANCE_METRICS,
        (Version("v1alpha1", EnsuranceMetric),),
        ("em",),
        (
            _SUMMARY,
            Column("Priority", ".spec.actionPriority", "integer", wide=True),
            Column("Description", ".spec.description", wide=True),
            *_JUDGED,
        ),
    ),
    Definition(
        resources.TIME_SERIES_PREDICTIONS,
        (Version("v1alpha1", TimeSeriesPrediction),),
        ("tsp",),
        (
            Column("TargetRefName", ".spec.targetRef.name"),
            Column("TargetRefKind", ".spec.targetRef.kind"),
            Column("PredictionWindowSeconds", ".spec.predictionWindowSeconds", "integer"),
            _condition("Ready", "Whether every metric could be predicted."),
            _AGE,
        ),
    ),
    Definition(
        resources.CRANE_TOPOLOGIES,
        (Version("v1alpha1", CraneTopology),),
        ("nrt",),
        (
            Column("CPU-manager", ".craneManagerPolicy.cpuManagerPolicy"),
            Column("Topology-manager", ".craneManagerPolicy.topologyManagerPolicy"),
            _AGE,
        ),
        has_status=False,
    ),
    Definition(
        resources.NODE_TOPOLOGIES,
        (Version("v1alpha2", NodeTopology), Version("v1alpha1", NodeTopologyV1Alpha1)),
        ("node-res-topo", "nrt"),
        (Column("Policies", ".topologyPolicies"), Column("Zones", ".zones[*].name"), _AGE),
        has_status=False,
        annotations=_APPROVED,
    ),
)


def manifests() -> dict[str, Manifest]:
    """Every definition, by the name of its file."""
    return {each.file_name: manifest(each) for each in DEFINITIONS}


def manifest(definition: Definition) -> Manifest:
    kind = definition.kind
    metadata: Manifest = {"name": definition.name}
    if definition.annotations:
        metadata["annotations"] = dict(definition.annotations)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": list(definition.short_names),
                "categories": ["slackwater"],
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                _version(definition, version, stored=version is definition.versions[0])
                for version in definition.versions
            ],
        },
    }


def _version(definition: Definition, version: Version, *, stored: bool) -> Manifest:
    told: Manifest = {
        "name": version.name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema_of(version.type)},
        "additionalPrinterColumns": [_column(each) for each in definition.columns],
    }
    if definition.has_status:
        told["subresources"] = {"status": {}}
    return told


def _column(column: Column) -> Manifest:
    told: Manifest = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        told["description"] = column.description
    if column.wide:
        told["priority"] = 1
    return told
