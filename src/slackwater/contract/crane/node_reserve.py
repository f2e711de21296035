"""Crane's node annotations that keep a share of the node from being sold: "10%"."""

import re
from collections.abc import Mapping

from slackwater.contract.document import Field
from slackwater.contract.kubernetes import Node
from slackwater.model.gap import Gap
from slackwater.model.node_resource import NodeResources
from slackwater.model.units import Ratio, parse_quantity

#: By the resource that they are about.
ANNOTATIONS: Mapping[str, str] = {
    "cpu": "reserve.node.gocrane.io/cpu",
    "memory": "reserve.node.gocrane.io/memory",
}
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%", re.ASCII)
_WANTED = "a share from 0% to 100%, such as 10%"
_WHOLE = 100
_SAME_WORTH = Ratio(1)


def read_reserve(annotations: Mapping[str, str]) -> dict[str, Ratio | Gap]:
    """The annotations that are there; a bad one is a Gap with a sentence."""
    return {
        resource: _share(name, annotations[name])
        for resource, name in ANNOTATIONS.items()
        if name in annotations
    }


def resources_of(
    node: Node | None, declared: Node | None = None, cpu_worth: Ratio | Gap = _SAME_WORTH
) -> NodeResources:
    """`declared` is the Node as pods see it, `node` the same in the machine's own units."""
    if node is None:
        return NodeResources()
    reserve = read_reserve(node.annotations)
    offered = declared.allocatable_cpu if declared else node.allocatable_cpu
    amplified = offered if offered != node.allocatable_cpu and isinstance(offered, int) else None
    return NodeResources(
        node.allocatable_memory, node.allocatable_extended, reserve, amplified, cpu_worth
    )


def _share(name: str, text: str) -> Ratio | Gap:
    match = _SHARE.fullmatch(text.strip())
    if match:
        exact = parse_quantity(match[1])
        if exact.numerator <= _WHOLE * exact.denominator:
            return Ratio(exact.numerator, exact.denominator * _WHOLE)
    return Gap(Field("Node", f"metadata.annotations[{name}]", text).problem(_WANTED).sentence())
