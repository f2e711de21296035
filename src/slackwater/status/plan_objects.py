"""The objects of which a normalization plan is made: from a folder of files, or from a cluster."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from slackwater.contract.koordinator.normalization import CpuBasicInfo, read_basic_info
from slackwater.contract.koordinator.slo_config import SloConfigName, read_slo_config
from slackwater.contract.kubernetes import (
    ConfigMap,
    Node,
    kind_of,
    objects_in,
    read_config_map,
    read_head,
    read_node,
)
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.contract.resources import CONFIG_MAPS, NODE_TOPOLOGIES, NODES, PODS, Resource
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, Problem, ProblemCode, quoted
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.status.normalization_plan import PlanObjects

_ENDINGS = (".yaml", ".yml", ".json")
_CLUSTER = "the cluster"
_NOT_FOUND = "NotFound"
#: A pod that was written by hand may have no uid, and a plan needs none.
_NO_UID = "not-known"


class FoundObjects:
    """Guards the objects while they are collected."""

    def __init__(self, source: SloConfigName) -> None:
        self._source = source
        self.config_map: ConfigMap | None = None
        self.nodes: list[Node] = []
        self.topologies: dict[str, CpuBasicInfo | Gap] = {}
        self.pods: list[Pod] = []
        #: Where each object stands of which there may be one alone.
        self._places: dict[tuple[str, str], str] = {}

    def take(self, document: object, where: str) -> None:
        """Raises InvalidError. Kinds that are not needed are passed over."""
        match kind_of(document, where):
            case CONFIG_MAPS.kind:
                self._take_config_map(read_config_map(document, where), where)
            case NODES.kind:
                node = read_node(document, where)
                self._note(NODES.kind, node.name, where)
                self.nodes.append(node)
            case PODS.kind:
                self.pods.append(read_pod(_with_uid(document), where))
            case NODE_TOPOLOGIES.kind if _is_ours(document):
                head, _ = read_head(document, where)
                self._note(NODE_TOPOLOGIES.kind, head.name, where)
                self.topologies[head.name] = read_basic_info(head.annotations, head.name)

    def _note(self, kind: str, name: str, where: str) -> None:
        """A plan of whichever came last would be a plan of another cluster."""
        key = kind, name
        if key in self._places:
            wanted = f"there once: {self._places[key]} has it too"
            raise InvalidError(
                Problem(f"{where}: {kind}", quoted(name), wanted, ProblemCode.CONFLICT)
            )
        self._places[key] = where

    def _take_config_map(self, found: ConfigMap, where: str) -> None:
        """A file may leave the namespace out."""
        if found.name == self._source.name and found.namespace in ("", self._source.namespace):
            self._note(CONFIG_MAPS.kind, found.name, where)
            self.config_map = ConfigMap(self._source.namespace, found.name, found.data)

    def objects(self) -> PlanObjects:
        config = read_slo_config(self.config_map, self._source)
        return PlanObjects(config, self.nodes, self.topologies, self.pods)


def _is_ours(document: object) -> bool:
    """Crane has a kind of the same name in another group."""
    stated = document.get("apiVersion", "") if isinstance(document, dict) else ""
    return str(stated).startswith(f"{NODE_TOPOLOGIES.group}/")


def _with_uid(document: object) -> object:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(metadata, dict) or metadata.get("uid"):
        return document
    return {**document, "metadata": {**metadata, "uid": _NO_UID}}


def objects_in_folder(folder: str, source: SloConfigName) -> PlanObjects:
    """Raises OSError, and InvalidError for a file or an object that cannot be read."""
    found = FoundObjects(source)
    for name in sorted(name for name in os.listdir(folder) if name.endswith(_ENDINGS)):
        for document in documents_in(file_text(os.path.join(folder, name), name), name):
            for each in () if document is None else objects_in(document, name):
                found.take(each, name)
    return found.objects()


def objects_in_cluster(client: Client, source: SloConfigName) -> PlanObjects:
    """Raises RequestError, and InvalidError for an object that cannot be read."""
    found = FoundObjects(source)
    for document in _config_map(client, source):
        found.take(document, _CLUSTER)
    for resource in (NODES, NODE_TOPOLOGIES, PODS):
        for document in _listed(client, resource):
            found.take(document, _CLUSTER)
    return found.objects()


def _config_map(client: Client, source: SloConfigName) -> Iterator[object]:
    try:
        yield msgspec.json.decode(client.get(CONFIG_MAPS, source.name, source.namespace))
    except HttpStatusError as error:
        if error.reason != _NOT_FOUND:
            raise


def _listed(client: Client, resource: Resource) -> list[dict[str, Any]]:
    """A list's items do not name their kind. A kind that is not installed has none."""
    named = {"apiVersion": resource.api_version, "kind": resource.kind}
    try:
        found = client.list(resource, msgspec.json.decode).items
    except HttpStatusError as error:
        if error.reason != _NOT_FOUND or resource is not NODE_TOPOLOGIES:
            raise
        return []
    return [{**each, **named} for each in found]
