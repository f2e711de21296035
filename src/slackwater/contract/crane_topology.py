"""Crane's own NodeResourceTopology, of topology.crane.io. Its fields have no spec around them."""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.crane_values import LongNumber, Metadata, Number, Quantity, Text
from slackwater.contract.decoding import read_struct
from slackwater.contract.kubernetes import read_head

_ATTRIBUTES = Annotated[dict[str, Text], Meta(max_length=256)]
_AMOUNTS = Annotated[dict[str, Quantity], Meta(max_length=256)]


class CpuManagerPolicy(enum.Enum):
    NONE = "None"
    STATIC = "Static"


class TopologyManagerPolicy(enum.Enum):
    NONE = "None"
    SINGLE_NUMA_NODE = "SingleNUMANodePodLevel"


class ZoneType(enum.Enum):
    NODE = "Node"
    SOCKET = "Socket"
    CORE = "Core"


class ManagerPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """Who assigns CPUs on this node, and how."""

    cpu_manager_policy: Annotated[
        CpuManagerPolicy, Meta(description="Static where Crane's agent assigns CPUs.")
    ]
    topology_manager_policy: Annotated[
        TopologyManagerPolicy, Meta(description="Whether a pod must fit into one NUMA node.")
    ] = TopologyManagerPolicy.SINGLE_NUMA_NODE


class ZoneCost(msgspec.Struct, frozen=True):
    """The distance to another zone."""

    name: Annotated[Text, Meta(description="The other zone.")]
    value: Annotated[LongNumber, Meta(description="The distance; 10 is the zone itself.")]


class ZoneResources(msgspec.Struct, frozen=True):
    """What the zone holds."""

    capacity: Annotated[_AMOUNTS, Meta(description="What is there.")] = {}
    allocatable: Annotated[_AMOUNTS, Meta(description="What pods may have of it.")] = {}
    reserved_cpus: Annotated[
        Number | None, Meta(description="CPUs that are kept for the system.")
    ] = field(default=None, name="reservedCPUNums")


class CraneZone(msgspec.Struct, frozen=True):
    """A part of the node with its own CPUs and memory."""

    name: Annotated[Text, Meta(description="Its name, such as node0.")]
    type: Annotated[ZoneType, Meta(description="What it is; Node is a NUMA node.")]
    parent: Annotated[Text, Meta(description="The zone that it is in.")] = ""
    costs: Annotated[tuple[ZoneCost, ...], Meta(description="Distances to the zones.")] = ()
    attributes: Annotated[_ATTRIBUTES, Meta(description="What else is known of it.")] = {}
    resources: ZoneResources | None = None


class CraneTopology(msgspec.Struct, frozen=True, rename="camel"):
    """A node's zones and what they hold, as Crane writes it. The object has its node's name."""

    metadata: Metadata
    crane_manager_policy: ManagerPolicy
    reserved: Annotated[_AMOUNTS, Meta(description="What is kept for the system.")] = {}
    attributes: Annotated[_ATTRIBUTES, Meta(description="What else is known of the node.")] = {}
    zones: Annotated[tuple[CraneZone, ...], Meta(description="The zones of the node.")] = ()


def read_crane_topology(document: object, source: str) -> CraneTopology:
    _, named = read_head(document, source)
    return read_struct(named, CraneTopology)
