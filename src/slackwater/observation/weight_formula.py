"""Which formula turned shares into weights on this node, read from what stands in the tree.

The kubelet writes the weights of tiers and pods, the container runtime those of containers, and
their formulas may differ (model.weight). Owns the choice of evidence; refuses to assume.
"""

from collections.abc import Iterator

import msgspec

from slackwater.model.cgroup import CgroupMounts, CgroupRef, CgroupVersion, Controller, Level
from slackwater.model.gap import Gap
from slackwater.model.needs import Field
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import (
    SMALLEST_WEIGHT,
    Shares,
    Weight,
    WeightFormula,
    evidence,
    shares_from,
    shares_of,
)
from slackwater.observation.cgroup_tree import CgroupTree, Scan

_WEIGHT = frozenset({Field.WEIGHT})


class FormulasInForce(msgspec.Struct, frozen=True):
    """`pods` is the kubelet's formula, `containers` the runtime's."""

    pods: WeightFormula | Gap
    containers: WeightFormula | Gap


def formulas_in_force(
    mounts: CgroupMounts, tree: CgroupTree, scan: Scan, cpus: int
) -> FormulasInForce:
    """`cpus`: how many the node has. The kubelet gives kubepods the shares of what is
    allocatable, which is less, but never by the factor of two that tells the formulas apart."""
    cpu = mounts.mount(Controller.CPU)
    if isinstance(cpu, Gap) or cpu.version is CgroupVersion.V1:
        gap = Gap("cgroup v1 has shares, and no formula")
        return FormulasInForce(gap, gap)
    weights = {ref: weight for ref in scan.refs if (weight := _weight(tree, ref)) is not None}
    node = [
        (shares_of(MilliCpu(cpus * 1000)), weight)
        for ref, weight in weights.items()
        if ref.level is Level.NODE
    ]
    pods = evidence(node)
    if isinstance(pods, Gap):
        return FormulasInForce(pods, pods)
    return FormulasInForce(pods, evidence(_container_samples(weights, pods)))


def _container_samples(
    weights: dict[CgroupRef, Weight], pods: WeightFormula
) -> Iterator[tuple[Shares, Weight]]:
    """Pods in which one container has a request: that container has the pod's shares."""
    for pod, pod_weight in weights.items():
        if pod.level is not Level.POD:
            continue
        heavy = [
            weight
            for ref, weight in weights.items()
            if ref.level is Level.CONTAINER
            and ref.path.startswith(f"{pod.path}/")
            and weight > SMALLEST_WEIGHT
        ]
        if len(heavy) == 1:
            yield shares_from(pod_weight, pods), heavy[0]


def _weight(tree: CgroupTree, ref: CgroupRef) -> Weight | None:
    weight = tree.read(ref, _WEIGHT, Micros(0)).weight
    return None if isinstance(weight, Gap) else Weight(weight)
