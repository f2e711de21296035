"""The kinds of objects that a node's agent has from an API server: how each is read, and what they
say together.

Of each object only what the agent uses is kept: not our own report on the Node, which would make
every write of it a change, nor kubectl's last-applied annotation, which can be larger than the rest
of a pod. What cannot be read is refused with one sentence that names the object; a ConfigMap that
is wrong inside is kept, because an event about it needs its uid.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from slackwater.contract import node_interference, node_offer
from slackwater.contract.crane.ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane.ensurance_set import EnsuranceObjects, join_ensurance
from slackwater.contract.crane.node_forecast import NodePrediction, read_node_prediction
from slackwater.contract.crane.objects import (
    read_avoidance_action,
    read_node_qos,
    read_node_qos_ensurance_policy,
    read_pod_qos,
)
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.document import Field, member
from slackwater.contract.ensurance_metric import EnsuranceMetric, read_ensurance_metric
from slackwater.contract.kubernetes import (
    ConfigMap,
    Node,
    optional_text,
    read_config_map,
    read_node,
)
from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.node_interference import SeenInterference, read_interference
from slackwater.contract.node_offer import SeenOffer, read_seen_offer
from slackwater.contract.node_report import ANNOTATION, NodeStatusPatch, read_status_patch
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    ENSURANCE_METRICS,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    POD_QOS,
    TIME_SERIES_PREDICTIONS,
)
from slackwater.contract.volcano.colocation_config import ColocationConfig
from slackwater.contract.volcano.pod import (
    API_VERSION,
    KIND,
    PodConfiguration,
    read_colocation_configuration,
)
from slackwater.kube.informer import InformerView
from slackwater.model.problem import ConfigurationProblem, DocumentName, InvalidError, Problem
from slackwater.observation.objects.object_set import (
    RELEASE_KEY,
    STAYS,
    Objects,
    colocation_in,
    joined,
    settings_in,
)
from slackwater.observation.objects.pod_decoding import decode_pod
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.agent_document import Settings, SettingsSchema

_SOURCE = "API server"
_LEFT_OUT = (
    "kubectl.kubernetes.io/last-applied-configuration",
    ANNOTATION,
    node_interference.ANNOTATION,
    node_offer.ANNOTATION,
)
#: It is repeated in the Node's report.
_LONGEST_WORD = 64
_Value = TypeVar("_Value")


class SeenNode(msgspec.Struct, frozen=True):
    """The Node without what we wrote there, and that."""

    node: Node
    status_patch: NodeStatusPatch | None
    interference: SeenInterference = SeenInterference()
    offer: SeenOffer = SeenOffer()


class SeenMap(msgspec.Struct, Generic[_Value], frozen=True):
    """What a ConfigMap says, or why that cannot be used."""

    uid: str
    value: _Value | None
    problem: ConfigurationProblem | None = None
    #: The word under RELEASE_KEY, whatever the rest says.
    release: str = ""


def pod_of(raw: msgspec.Raw) -> Pod:
    return decode_pod(raw, _SOURCE)


def node_of(raw: msgspec.Raw) -> SeenNode:
    document = _document(raw, "v1", "Node")
    node = read_node(document, _SOURCE)
    kept = msgspec.structs.replace(node, annotations=_without_noise(node.annotations))
    return SeenNode(
        kept, read_status_patch(document), read_interference(document), read_seen_offer(document)
    )


def pod_configuration_of(raw: msgspec.Raw) -> PodConfiguration:
    return read_colocation_configuration(_document(raw, API_VERSION, KIND), _SOURCE)


def node_qos_of(raw: msgspec.Raw) -> NodeQos:
    return read_node_qos(_document(raw, NODE_QOS.api_version, NODE_QOS.kind), _SOURCE)


def ensurance_policy_of(raw: msgspec.Raw) -> NodeQosEnsurancePolicy:
    kind = NODE_QOS_ENSURANCE_POLICIES
    return read_node_qos_ensurance_policy(_document(raw, kind.api_version, kind.kind), _SOURCE)


def action_of(raw: msgspec.Raw) -> AvoidanceAction:
    kind = AVOIDANCE_ACTIONS
    return read_avoidance_action(_document(raw, kind.api_version, kind.kind), _SOURCE)


def pod_qos_of(raw: msgspec.Raw) -> PodQos:
    return read_pod_qos(_document(raw, POD_QOS.api_version, POD_QOS.kind), _SOURCE)


def metric_of(raw: msgspec.Raw) -> EnsuranceMetric:
    kind = ENSURANCE_METRICS
    return read_ensurance_metric(_document(raw, kind.api_version, kind.kind), _SOURCE)


def prediction_of(raw: msgspec.Raw, namespace: str = "") -> NodePrediction | None:
    """`namespace` is our own."""
    kind = TIME_SERIES_PREDICTIONS
    return read_node_prediction(_document(raw, kind.api_version, kind.kind), _SOURCE, namespace)


def colocation_of(raw: msgspec.Raw) -> SeenMap[ColocationConfig]:
    return _map(raw, colocation_in)


def settings_of(raw: msgspec.Raw, schema: SettingsSchema = SETTINGS) -> SeenMap[Settings]:
    return _map(raw, partial(settings_in, schema=schema))


def _map(raw: msgspec.Raw, read: Callable[[ConfigMap, DocumentName], _Value]) -> SeenMap[_Value]:
    document = _document(raw, "v1", "ConfigMap")
    config_map = read_config_map(document, _SOURCE)
    uid = _uid(document)
    name = DocumentName("", "ConfigMap", config_map.namespace, config_map.name)
    release = config_map.data.get(RELEASE_KEY, "").strip()[:_LONGEST_WORD]
    try:
        return SeenMap(uid, read(config_map, name), release=release)
    except InvalidError as error:
        problem = ConfigurationProblem(problems=error.problems, about=name)
        return SeenMap(uid, None, problem, release)


def _uid(document: object) -> str:
    metadata = member(Field(_SOURCE, "", document), "metadata")
    return "" if metadata is None else optional_text(member(metadata, "uid"))


def _without_noise(annotations: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if key not in _LEFT_OUT}


def _document(raw: msgspec.Raw, api_version: str, kind: str) -> object:
    """The items of a list do not say what they are."""
    found: Any = msgspec.json.decode(raw)
    if not isinstance(found, dict):
        raise InvalidError(Problem(_SOURCE, "no object", f"a {kind}"))
    return {"apiVersion": api_version, "kind": kind, **found}


#: The objects that each source has.
_KINDS = {
    "pods": "Pod",
    "node": "Node",
    "colocation": "ConfigMap",
    "settings": "ConfigMap",
    "pod_configurations": KIND,
    "node_qos": NODE_QOS.kind,
    "ensurance_policies": NODE_QOS_ENSURANCE_POLICIES.kind,
    "actions": AVOIDANCE_ACTIONS.kind,
    "pod_qos": POD_QOS.kind,
    "metrics": ENSURANCE_METRICS.kind,
    "predictions": TIME_SERIES_PREDICTIONS.kind,
}
#: Without these there is nothing to decide. An agent that may not list another kind, because its
#: role is older than itself, goes on without it.
_NEEDED = frozenset({"pods", "node", "colocation", "settings"})


class Feed(Protocol[_Value]):
    """An informer, as far as it is used here."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def view(self) -> InformerView[_Value]: ...


class Feeds(msgspec.Struct, frozen=True):
    """Each is a source by this name."""

    pods: Feed[Pod]
    node: Feed[SeenNode]
    colocation: Feed[SeenMap[ColocationConfig]]
    settings: Feed[SeenMap[Settings]]
    pod_configurations: Feed[PodConfiguration]
    node_qos: Feed[NodeQos]
    ensurance_policies: Feed[NodeQosEnsurancePolicy]
    actions: Feed[AvoidanceAction]
    pod_qos: Feed[PodQos]
    metrics: Feed[EnsuranceMetric]
    predictions: Feed[NodePrediction | None]


#: What each informer has at one moment, by the source's name.
Views = Mapping[str, InformerView[Any]]


def is_left_out(name: str, view: InformerView[Any]) -> bool:
    """Whether the server never let us list it, and the agent goes on without it."""
    return name not in _NEEDED and view.forbidden and not view.synced


def join_views(views: Views, known: Objects, node_name: str) -> Objects:
    """All objects together; what cannot be used stays as it is known."""
    node = views["node"].items.get(node_name)
    found = Objects(
        pods=tuple(views["pods"].items.values()),
        nodes=(node.node,) if node else known.nodes,
        colocation=_good(views["colocation"].items, known.colocation),
        settings=_good(views["settings"].items, known.settings),
        pod_configurations=_of_kind(views["pod_configurations"]),
        ensurance=join_ensurance((_ensurance(views),)),
        predictions=tuple(filter(None, _of_kind(views["predictions"]))),
    )
    return joined((found,), _problems(views, known, node_name), node_name)


def _problems(views: Views, known: Objects, node_name: str) -> dict[str, ConfigurationProblem]:
    """By what they are about."""
    found: dict[str, ConfigurationProblem] = {}
    for name, view in views.items():
        for key, reason in view.unreadable.items():
            about = DocumentName(_SOURCE, _KINDS[name], *_split_key(key))
            found[f"{name} {key}"] = ConfigurationProblem(reason, about=about)
        if is_left_out(name, view):
            without = f"the agent goes on without any {_KINDS[name]}, and asks again"
            found[name] = ConfigurationProblem(view.problem, consequence=without)
    for name, before in (("colocation", known.colocation), ("settings", known.settings)):
        for each in wrong_in(views[name]):
            stays = STAYS if before else ""
            found[f"{name} {each.sentence()}"] = msgspec.structs.replace(each, consequence=stays)
    if node_name not in views["node"].items:
        gone = f"the Node {node_name} is gone"
        found["node"] = ConfigurationProblem(gone, consequence=STAYS)
    return found


def _of_kind(view: InformerView[_Value]) -> tuple[_Value, ...]:
    """None where the server does not know the kind any more: its objects went with it."""
    return () if view.unknown_kind else tuple(view.items.values())


def _ensurance(views: Views) -> EnsuranceObjects:
    return EnsuranceObjects(
        _of_kind(views["node_qos"]),
        _of_kind(views["ensurance_policies"]),
        _of_kind(views["actions"]),
        _of_kind(views["pod_qos"]),
        _of_kind(views["metrics"]),
    )


def _split_key(key: str) -> tuple[str, str]:
    """Namespace and name of an informer's key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def wrong_in(view: InformerView[SeenMap[Any]]) -> tuple[ConfigurationProblem, ...]:
    return tuple(each.problem for each in view.items.values() if each.problem)


def _good(maps: Mapping[str, SeenMap[_Value]], before: _Value | None) -> _Value | None:
    """A map that is gone says nothing; one that is wrong says what it said before."""
    seen = next(iter(maps.values()), None)
    if seen is None:
        return None
    return before if seen.problem else seen.value
