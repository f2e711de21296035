"""Which formula turned shares into weights on this node, read from what stands in the tree.

The kubelet writes the weights of tiers and pods, the container runtime those of containers, and
their formulas may differ (model.weight). Owns the choice of evidence; refuses to assume.
"""

from collections.abc import Iterator, Sequence

import msgspec

from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupRef,
    CgroupVersion,
    Level,
    Tier,
)
from slackwater.model.gap import Gap
from slackwater.model.needs import ReadingField
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
from slackwater.observation.cgroups.tree import CgroupTree, Scan

_WEIGHT = frozenset({ReadingField.WEIGHT})
_EVERY = Micros(300_000_000)
_NO_FORMULA = Gap("cgroup v1 has shares, and no formula")
_NOT_SEEN = Gap("no group with a CPU request was seen yet")


class FormulasInForce(msgspec.Struct, frozen=True):
    """`pods` is the kubelet's formula, `containers` the runtime's."""

    pods: WeightFormula | Gap
    containers: WeightFormula | Gap


def formulas_in_force(
    mounts: CgroupMounts, tree: CgroupTree, scan: Scan, cpus: int
) -> FormulasInForce:
    """`cpus`: how many the node has. The kubelet gives kubepods the shares of what is
    allocatable, which is less, but never by the factor of two that tells the formulas apart."""
    cpu = mounts.mount(CgroupController.CPU)
    if isinstance(cpu, Gap) or cpu.version is CgroupVersion.V1:
        return FormulasInForce(_NO_FORMULA, _NO_FORMULA)
    return _formulas(tree, scan.refs, MilliCpu(cpus * 1000))


class FormulaWatch:
    """Keeps the answer, as every group is read for it: it is asked for again every five minutes,
    and when the tree has half as many groups more, or less. What was known stays known."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._found = FormulasInForce(_NOT_SEEN, _NOT_SEEN)
        self._asked: tuple[Micros, int] | None = None

    def formulas(
        self, scan: Scan, allocatable: MilliCpu | Gap, ours: frozenset[int], at: Micros
    ) -> FormulasInForce:
        """`ours` are the groups whose weight we wrote: they say nothing about what others do."""
        if self._tree.version is not CgroupVersion.V2 or isinstance(allocatable, Gap):
            return self._found
        if self._asked is None or _is_due(self._asked, (at, len(scan.refs))):
            self._asked = (at, len(scan.refs))
            refs = tuple(ref for ref in scan.refs if ref.id not in ours)
            now = _formulas(self._tree, refs, allocatable)
            self._found = FormulasInForce(
                self._found.pods if isinstance(now.pods, Gap) else now.pods,
                self._found.containers if isinstance(now.containers, Gap) else now.containers,
            )
        return self._found


def _is_due(asked: tuple[Micros, int], now: tuple[Micros, int]) -> bool:
    (then, known), (at, groups) = asked, now
    return at - then >= _EVERY or abs(groups - known) * 2 > known


def _formulas(
    tree: CgroupTree, refs: Sequence[CgroupRef], allocatable: MilliCpu
) -> FormulasInForce:
    weights = {ref: weight for ref in refs if (weight := _weight(tree, ref)) is not None}
    node = [
        (shares_of(allocatable), weight)
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
    """Pods in which one container has a request: that container has the pod's shares. Best-effort
    pods have no request, and weights only from us (ADR 42)."""
    weights = {ref: weight for ref, weight in weights.items() if ref.tier is not Tier.BESTEFFORT}
    inside: dict[str, list[Weight]] = {}
    for ref, weight in weights.items():
        if ref.level is Level.CONTAINER and weight > SMALLEST_WEIGHT:
            inside.setdefault(ref.path.rpartition("/")[0], []).append(weight)
    for pod, pod_weight in weights.items():
        heavy = inside.get(pod.path, [])
        if pod.level is Level.POD and len(heavy) == 1:
            yield shares_from(pod_weight, pods), heavy[0]


def _weight(tree: CgroupTree, ref: CgroupRef) -> Weight | None:
    weight = tree.read(ref, _WEIGHT, Micros(0)).weight
    return None if isinstance(weight, Gap) else Weight(weight)
