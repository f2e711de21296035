"""NodeResourceTopology of topology.node.k8s.io, as Koordinator, NFD and the scheduler plugins
write it: a node's zones and what each of them holds.

The fields stand at the top level, without a spec. There are two versions: v1alpha1 requires
topologyPolicies, v1alpha2 may have attributes instead; one type reads both. Crane's own kind of the
same name, of topology.crane.io, is here too.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.crane.fields import LongNumber, Number, Quantity, Text
from slackwater.contract.decoding import read_struct
from slackwater.contract.kubernetes import KubernetesObject, read_head

_TEXT = Annotated[str, Meta(max_length=4096)]


class Attribute(msgspec.Struct, frozen=True):
    """A name and a value."""

    name: Annotated[_TEXT, Meta(description="The attribute's name.")]
    value: Annotated[_TEXT, Meta(description="The attribute's value.")]


class Cost(msgspec.Struct, frozen=True):
    """The distance to another zone."""

    name: Annotated[_TEXT, Meta(description="The other zone.")]
    value: Annotated[LongNumber, Meta(description="The distance; 10 is the zone itself.")]


class ZoneResource(msgspec.Struct, frozen=True):
    """How much of a resource the zone has."""

    name: Annotated[_TEXT, Meta(description="The resource, such as cpu.")]
    capacity: Annotated[Quantity, Meta(description="What is there.")]
    allocatable: Annotated[Quantity, Meta(description="What pods may have of it.")]
    available: Annotated[Quantity, Meta(description="What no pod has asked for yet.")]


class Zone(msgspec.Struct, frozen=True):
    """A part of the node with its own CPUs and memory."""

    name: Annotated[_TEXT, Meta(description="Its name, such as node-0.")]
    type: Annotated[_TEXT, Meta(description="What it is, such as Node for a NUMA node.")]
    parent: Annotated[_TEXT, Meta(description="The zone that it is in.")] = ""
    costs: Annotated[tuple[Cost, ...], Meta(description="Distances to the zones.")] = ()
    attributes: Annotated[tuple[Attribute, ...], Meta(description="What else is known of it.")] = ()
    resources: Annotated[tuple[ZoneResource, ...], Meta(description="What it holds.")] = ()


_ZONES = Annotated[tuple[Zone, ...], Meta(description="The zones of the node.")]
_POLICIES = Annotated[
    tuple[_TEXT, ...], Meta(description="The kubelet's topology manager's policies.")
]
_NODE_ATTRIBUTES = Annotated[
    tuple[Attribute, ...], Meta(description="What else is known of the node.")
]


class NodeTopologyV1Alpha1(KubernetesObject, frozen=True, rename="camel"):
    """A node's zones and what they hold. The object has its node's name."""

    topology_policies: _POLICIES
    zones: _ZONES
    attributes: _NODE_ATTRIBUTES = ()


class NodeTopology(KubernetesObject, frozen=True, rename="camel"):
    """A node's zones and what they hold. The object has its node's name."""

    zones: _ZONES
    topology_policies: _POLICIES = ()
    attributes: _NODE_ATTRIBUTES = ()


def read_node_topology(document: object, source: str) -> NodeTopology:
    """An object of either version."""
    _, field = read_head(document, source)
    return read_struct(field, NodeTopology)


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


class CraneTopology(KubernetesObject, frozen=True, rename="camel"):
    """A node's zones and what they hold, as Crane writes it. The object has its node's name."""

    crane_manager_policy: ManagerPolicy
    reserved: Annotated[_AMOUNTS, Meta(description="What is kept for the system.")] = field(
        default_factory=dict
    )
    attributes: Annotated[_ATTRIBUTES, Meta(description="What else is known of the node.")] = field(
        default_factory=dict
    )
    zones: Annotated[tuple[CraneZone, ...], Meta(description="The zones of the node.")] = ()


def read_crane_topology(document: object, source: str) -> CraneTopology:
    _, named = read_head(document, source)
    return read_struct(named, CraneTopology)
