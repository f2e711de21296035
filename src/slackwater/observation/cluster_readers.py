"""One object of the API server, as JSON, into what the agent keeps of it. For informers.

Owns what is left out: our own report on the Node, which would make every write of it news, and
what kubectl leaves in an annotation, which can be larger than the rest of a pod.
Refuses with one sentence that names the object; a ConfigMap that is wrong inside is no refusal,
as its uid is needed to complain about it.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from slackwater.contract.document import Field, member
from slackwater.contract.kubernetes import (
    ConfigMap,
    Node,
    optional_text,
    read_config_map,
    read_node,
)
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.contract.node_condition import NodeStatusPatch, read_status_patch
from slackwater.contract.node_report import ANNOTATION
from slackwater.contract.volcano_document import ColocationConfig
from slackwater.contract.volcano_memory_ratios import (
    API_VERSION,
    KIND,
    PodConfiguration,
    read_colocation_configuration,
)
from slackwater.model.problem import InvalidError, Problem
from slackwater.observation.objects import colocation_in, settings_in
from slackwater.settings.document import Settings

_SOURCE = "API server"
_LEFT_OUT = ("kubectl.kubernetes.io/last-applied-configuration", ANNOTATION)
_Value = TypeVar("_Value")


class SeenNode(msgspec.Struct, frozen=True):
    """The Node without what we wrote there, and that."""

    node: Node
    status_patch: NodeStatusPatch | None


class SeenMap(msgspec.Struct, Generic[_Value], frozen=True):
    """What a ConfigMap says, or one sentence about why that cannot be used."""

    uid: str
    value: _Value | None
    problem: str = ""


def pod_of(raw: msgspec.Raw) -> Pod:
    pod = read_pod(_document(raw, "v1", "Pod"), _SOURCE)
    return msgspec.structs.replace(pod, annotations=_kept(pod.annotations))


def node_of(raw: msgspec.Raw) -> SeenNode:
    document = _document(raw, "v1", "Node")
    node = read_node(document, _SOURCE)
    kept = msgspec.structs.replace(node, annotations=_kept(node.annotations))
    return SeenNode(kept, read_status_patch(document))


def pod_configuration_of(raw: msgspec.Raw) -> PodConfiguration:
    return read_colocation_configuration(_document(raw, API_VERSION, KIND), _SOURCE)


def colocation_of(raw: msgspec.Raw) -> SeenMap[ColocationConfig]:
    return _map(raw, colocation_in)


def settings_of(raw: msgspec.Raw) -> SeenMap[Settings]:
    return _map(raw, settings_in)


def _map(raw: msgspec.Raw, read: Callable[[ConfigMap, str], _Value]) -> SeenMap[_Value]:
    document = _document(raw, "v1", "ConfigMap")
    config_map = read_config_map(document, _SOURCE)
    uid = _uid(document)
    try:
        return SeenMap(uid, read(config_map, map_title(config_map.namespace, config_map.name)))
    except InvalidError as error:
        return SeenMap(uid, None, str(error))


def map_title(namespace: str, name: str) -> str:
    """How sentences about a ConfigMap begin."""
    return f"ConfigMap {namespace}/{name}"


def _uid(document: object) -> str:
    metadata = member(Field(_SOURCE, "", document), "metadata")
    return "" if metadata is None else optional_text(member(metadata, "uid"))


def _kept(annotations: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if key not in _LEFT_OUT}


def _document(raw: msgspec.Raw, api_version: str, kind: str) -> object:
    """The items of a list do not say what they are."""
    found: Any = msgspec.json.decode(raw)
    if not isinstance(found, dict):
        raise InvalidError(Problem(_SOURCE, "no object", f"a {kind}"))
    return {"apiVersion": api_version, "kind": kind, **found}
