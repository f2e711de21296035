"""NodeResourceTopology of topology.node.k8s.io, as Koordinator, NFD and the scheduler plugins
write it: a node's zones and what each of them holds.

Owns its fields, which have no spec around them, in both versions that are about: v1alpha1 wants
topologyPolicies, v1alpha2 may have attributes instead. One type reads both.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane_values import LongNumber, Metadata, Quantity
from slackwater.contract.decoding import read_struct
from slackwater.contract.kubernetes import read_head

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


class NodeTopologyV1Alpha1(msgspec.Struct, frozen=True, rename="camel"):
    """A node's zones and what they hold. The object has its node's name."""

    metadata: Metadata
    topology_policies: Annotated[
        tuple[_TEXT, ...], Meta(description="The kubelet's topology manager's policies.")
    ]
    zones: _ZONES
    attributes: Annotated[
        tuple[Attribute, ...], Meta(description="What else is known of the node.")
    ] = ()


class NodeTopology(msgspec.Struct, frozen=True, rename="camel"):
    """A node's zones and what they hold. The object has its node's name."""

    metadata: Metadata
    zones: _ZONES
    topology_policies: Annotated[
        tuple[_TEXT, ...], Meta(description="The kubelet's topology manager's policies.")
    ] = ()
    attributes: Annotated[
        tuple[Attribute, ...], Meta(description="What else is known of the node.")
    ] = ()


def read_node_topology(document: object, source: str) -> NodeTopology:
    """An object of either version."""
    _, field = read_head(document, source)
    return read_struct(field, NodeTopology)
