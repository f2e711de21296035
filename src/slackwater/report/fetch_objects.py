"""Nodes and pods from the API server, as far as the report needs them. Only reads.

What may not be read is a Gap: the report goes on without it. A server that does not answer raises.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from slackwater.contract.resources import NODES, PODS, Resource
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import ANY_VERSION, Client
from slackwater.model.gap import Gap
from slackwater.model.units import QuantityError, parse_milli_cpu
from slackwater.report.pod_owners import PodWithOwner, read_owned_pod

T = TypeVar("T")
_FORBIDDEN = 403


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Address(msgspec.Struct, frozen=True):
    address: str = ""


class _Status(msgspec.Struct, frozen=True):
    allocatable: dict[str, str | int | float] = {}
    addresses: tuple[_Address, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    status: _Status = _Status()


class ListedNode(msgspec.Struct, frozen=True):
    """`addresses`: by which its exporter may be known. `allocatable` in cores."""

    name: str
    addresses: tuple[str, ...] = ()
    allocatable: float | None = None


class ListedObjects(msgspec.Struct, frozen=True):
    nodes: tuple[ListedNode, ...] | Gap
    pods: tuple[PodWithOwner, ...] | Gap

    def names(self) -> Mapping[str, str]:
        """The node's name by what an instance may be called: its name or one of its addresses."""
        if isinstance(self.nodes, Gap):
            return {}
        addresses = {each: node.name for node in self.nodes for each in node.addresses}
        return addresses | {node.name: node.name for node in self.nodes}


def fetch_objects(client: Client) -> ListedObjects:
    """Raises RequestError."""
    return ListedObjects(
        _list(client, NODES, read_listed_node), _list(client, PODS, read_owned_pod)
    )


def _list(client: Client, kind: Resource, read: Callable[[msgspec.Raw], T]) -> tuple[T, ...] | Gap:
    def attempt(raw: msgspec.Raw) -> T | None:
        try:
            return read(raw)
        except (msgspec.DecodeError, UnicodeError):
            return None

    try:
        found = client.list(kind, attempt, version=ANY_VERSION).items
    except HttpStatusError as error:
        if error.status != _FORBIDDEN:
            raise
        return Gap(str(error))
    return tuple(each for each in found if each is not None)


def read_listed_node(raw: msgspec.Raw) -> ListedNode:
    """Raises msgspec.DecodeError."""
    node = msgspec.json.decode(raw, type=_Node)
    addresses = tuple(each.address for each in node.status.addresses)
    return ListedNode(node.metadata.name, addresses, _cores(node.status.allocatable.get("cpu")))


def _cores(text: str | float | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_milli_cpu(str(text)) / 1000
    except QuantityError:
        return None
