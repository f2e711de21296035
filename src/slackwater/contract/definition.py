"""CustomResourceDefinitions of the kinds that we define, made from the contract's types.

Owns names, short names and columns. Refuses to state a field: that is the types' (the schema) and
definition_rules' (what two fields say together). No program at run time needs this module;
tools/definitions.py writes the chart's files with it.
"""

from typing import Any

import msgspec

from slackwater.contract import crane_kinds as kinds
from slackwater.contract.crane_ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane_kinds import KindName
from slackwater.contract.crane_pod_qos import PodQos
from slackwater.contract.crane_prediction import TimeSeriesPrediction
from slackwater.contract.crane_topology import CraneTopology
from slackwater.contract.definition_schema import schema_of
from slackwater.contract.topology import NodeTopology, NodeTopologyV1Alpha1

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

    kind: KindName
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
_ENFORCED = _condition("Enforced", "Whether it is acted on.")
_JUDGED = (_VALID, _ENFORCED, _AGE)
#: Groups below k8s.io need it; the pull request is where this one was approved.
_APPROVED = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        kinds.AVOIDANCE_ACTION,
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
        kinds.NODE_QOS,
        (Version("v1alpha1", NodeQos),),
        ("nq",),
        (
            _SUMMARY,
            Column("First-metric", ".spec.rules[0].metricRule.name", wide=True),
            Column("First-action", ".spec.rules[0].actionName", wide=True),
            _NODES,
            *_JUDGED,
        ),
    ),
    Definition(
        kinds.NODE_QOS_ENSURANCE_POLICY,
        (Version("v1alpha1", NodeQosEnsurancePolicy),),
        ("nep",),
        (
            _SUMMARY,
            Column("First-metric", ".spec.objectiveEnsurances[0].metricRule.name", wide=True),
            Column("First-action", ".spec.objectiveEnsurances[0].actionName", wide=True),
            _NODES,
            *_JUDGED,
        ),
    ),
    Definition(
        kinds.POD_QOS,
        (Version("v1alpha1", PodQos),),
        ("pq",),
        (_SUMMARY, Column("Allows", ".spec.allowedActions", wide=True), *_JUDGED),
    ),
    Definition(
        kinds.TIME_SERIES_PREDICTION,
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
        kinds.CRANE_TOPOLOGY,
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
        kinds.NODE_TOPOLOGY,
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
