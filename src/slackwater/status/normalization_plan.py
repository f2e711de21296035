"""What CPU normalization would do to a cluster: the ratios of its nodes, the quotas of their pods.

The ratios are decided by what decides them in the manager, and the quotas by the arithmetic of the
agent's quota law. Pure: the objects come from a folder or from a cluster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from slackwater.contract.crane.cpu_policy import cpu_policy
from slackwater.contract.koordinator.node_ratios import (
    CPU,
    MEMORY,
    Amounts,
    NodeFacts,
    NodeRatios,
    decide_ratios,
    raw_allocatable,
)
from slackwater.contract.koordinator.normalization import (
    ONE,
    CpuBasicInfo,
    Hundredths,
    format_ratio,
)
from slackwater.contract.koordinator.pod import bound_cpus
from slackwater.contract.koordinator.slo_config import SloConfig
from slackwater.contract.kubernetes import Node
from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.pod_resources import Container, ContainerKind, pod_requests
from slackwater.model.cpus import CpuPolicy
from slackwater.model.elastic import BATCH_CPU, ELASTIC_CPU
from slackwater.model.gap import Gap
from slackwater.model.units import (
    SMALLEST_QUOTA,
    MilliCpu,
    Ratio,
    Unlimited,
    bandwidth,
)

#: The kernel's spelling on cgroup v1.
UNLIMITED_QUOTA = -1
#: Names of elastic CPU, all in milliCPU here.
_ELASTIC = (ELASTIC_CPU, BATCH_CPU)
_ONE_CPU, _KIBI = 1000, 1024


class PlannedQuota(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """The CPU quota of one container for each 100 ms, in microseconds; -1 is unlimited."""

    pod: str
    container: str
    before: int
    after: int
    because: str


class PlannedAllocatable(msgspec.Struct, frozen=True):
    """Kubernetes quantities by resource: as the kubelet offers them, and as pods would see them."""

    raw: Mapping[str, str] = {}
    amplified: Mapping[str, str] = {}


class PlannedNode(msgspec.Struct, frozen=True, rename="camel"):
    """One node. Of its CPUs null is not known. `ratio` is the annotation's text; null where there
    is none and none can be chosen. `problem` is empty where there is none."""

    node: str
    cpu_model: str | None
    hyper_thread: bool | None
    turbo: bool | None
    enabled: bool | None
    ratio: str | None
    source: str
    problem: str
    amplification: Mapping[str, float]
    allocatable: PlannedAllocatable
    pods: tuple[PlannedQuota, ...] = ()


class PlanObjects(msgspec.Struct, frozen=True):
    """What a plan is made of. `topologies` are by node."""

    config: SloConfig
    nodes: Sequence[Node]
    topologies: Mapping[str, CpuBasicInfo | Gap] = {}
    pods: Sequence[Pod] = ()


def plan_nodes(objects: PlanObjects) -> tuple[PlannedNode, ...]:
    """By name."""
    pods: dict[str, list[Pod]] = {}
    for pod in objects.pods:
        if not pod.is_finished():
            pods.setdefault(pod.node_name, []).append(pod)
    return tuple(
        _plan(objects, node, pods.get(node.name, []))
        for node in sorted(objects.nodes, key=lambda node: node.name)
    )


def missing_topology(node: str) -> Gap:
    return Gap(f"there is no NodeResourceTopology {node}")


def _plan(objects: PlanObjects, node: Node, pods: Sequence[Pod]) -> PlannedNode:
    info = objects.topologies.get(node.name, missing_topology(node.name))
    facts = _facts(node, info)
    ratios = decide_ratios(objects.config, facts, lambda: _requested(pods))
    known = None if isinstance(info, Gap) else info
    return PlannedNode(
        node.name,
        None if known is None else known.cpu_model,
        None if known is None else known.hyper_thread_enabled,
        None if known is None else known.turbo_enabled,
        ratios.enabled,
        None if ratios.ratio is None else format_ratio(ratios.ratio),
        ratios.source,
        _problem(ratios, raw_allocatable(facts)),
        {name: ratio / 100 for name, ratio in ratios.amplification.items()},
        PlannedAllocatable(_quantities(ratios.raw), _quantities(ratios.amplified)),
        tuple(_quotas(pods, ratios)),
    )


def _problem(ratios: NodeRatios, raw: Amounts | Gap) -> str:
    """The manager writes ratios without the raw amounts; here they would be missing."""
    if not isinstance(raw, Gap) or raw.reason in ratios.problem:
        return ratios.problem
    return "; ".join(filter(None, (ratios.problem, raw.reason)))


def _facts(node: Node, info: CpuBasicInfo | Gap) -> NodeFacts:
    stated = {CPU: node.allocatable_cpu, MEMORY: node.allocatable_memory}
    amounts = {name: amount for name, amount in stated.items() if not isinstance(amount, Gap)}
    return NodeFacts(node.name, node.labels, node.annotations, amounts, info)


def _requested(pods: Iterable[Pod]) -> Amounts:
    asked = [pod_requests(pod.resources) for pod in pods]
    return {CPU: sum(each.cpu for each in asked), MEMORY: sum(each.memory for each in asked)}


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {name: _quantity(name, amount) for name, amount in amounts.items()}


def _quantity(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount}m" if amount % _ONE_CPU else str(amount // _ONE_CPU)
    return str(amount) if amount % _KIBI else f"{amount // _KIBI}Ki"


def _quotas(pods: Iterable[Pod], ratios: NodeRatios) -> Iterator[PlannedQuota]:
    ratio = ONE if ratios.ratio is None else ratios.ratio
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        bound = bound_cpus(pod.labels, pod.annotations)
        for each in pod.resources.containers:
            if each.kind is not ContainerKind.EPHEMERAL:
                yield _quota(pod, each, ratio, bound or _pinned(pod, each))


def _pinned(pod: Pod, container: Container) -> str:
    """What Crane's annotation asks for is given to containers with whole CPUs."""
    limit = container.limits.cpu
    whole = not isinstance(limit, Unlimited) and limit and limit % _ONE_CPU == 0
    asked = cpu_policy(pod.annotations)
    if asked not in (CpuPolicy.EXCLUSIVE, CpuPolicy.SHARE) or not whole:
        return ""
    if limit != container.requests.cpu:
        return ""
    return "its annotation asks for CPUs of its own, which core_pinning gives"


def _quota(pod: Pod, container: Container, ratio: Hundredths, bound: str) -> PlannedQuota:
    title = f"{pod.namespace}/{pod.name}"
    limit, what = _limit(pod, container)
    base = bandwidth(MilliCpu(limit)).limit
    if isinstance(base, Unlimited):
        because = "it has no CPU limit, and stays unlimited"
        return PlannedQuota(title, container.name, UNLIMITED_QUOTA, UNLIMITED_QUOTA, because)
    if bound:
        return PlannedQuota(title, container.name, base, base, f"not divided: {bound}")
    scaled = max(Ratio(ONE, ratio).of(base), SMALLEST_QUOTA)
    because = f"{what} {limit}m / {format_ratio(ratio)}"
    return PlannedQuota(title, container.name, base, scaled, because)


def _limit(pod: Pod, container: Container) -> tuple[int, str]:
    """milliCPU, 0 without one, and what it is. The kubelet starts a container that states none with
    the pod's own."""
    if not isinstance(container.limits.cpu, Unlimited):
        return container.limits.cpu, "limit"
    for name in _ELASTIC:
        amount = container.extended_limits.get(name)
        if isinstance(amount, int):
            return amount, name
    own = pod.resources.own_limits.cpu
    return (0, "") if isinstance(own, Unlimited) else (own, "the pod's limit")
