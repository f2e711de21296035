"""What is read of workloads: objects of the API server, usage from Prometheus or metrics.k8s.io,
and Kafka lag.

The sources make these values, and the pure modules work with them. What could not be read is
Unavailable, with a reason and a sentence; a single number that is missing is a Gap.
"""

import enum
import math
from collections.abc import Iterable
from typing import NewType

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.reason import Reason
from slackwater.settings.rebalancer import LagSum

#: CPU as Prometheus counts it. Averages are computed with it, so it is not whole milli-CPUs.
Cores = NewType("Cores", float)
#: 0 to 100.
PercentOf = NewType("PercentOf", float)
Seconds = NewType("Seconds", float)
#: More CPUs than any machine has; a larger number is in another unit, such as milliCPU.
MOST_CORES = 10_000.0


_NOT_MERGED = Gap("not merged with usage yet")


class HpaTargetKind(enum.Enum):
    """What an HPA's number means: percent of the request, or cores for each pod."""

    UTILIZATION = "Utilization"
    AVERAGE_VALUE = "AverageValue"


class HpaTarget(msgspec.Struct, frozen=True):
    """What the HPA wants: 70 (percent) or 0.7 (cores). `container` is empty if it is for whole
    pods. `hpa` is the name of the HPA."""

    kind: HpaTargetKind
    value: float
    hpa: str
    container: str = ""


class WorkloadName(msgspec.Struct, frozen=True, order=True):
    """`kind` is Deployment, StatefulSet or another kind that the HPA scales."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class ContainerAmounts(msgspec.Struct, frozen=True):
    """CPU request and limit from the pod's spec, of a regular container or a sidecar (an init
    container that keeps running)."""

    name: str
    request: Cores | Gap
    limit: Cores | Gap


class PodUsage(msgspec.Struct, frozen=True):
    """A live pod as the API server reports it, and its CPU usage once `merge_usage` has added it.

    `started`: seconds since 1970. `pod_level`: requests and limits that the spec states for the pod
    as a whole, which the HPA prefers to its containers'. `held_back`: why it must not be rotated
    (an annotation, a static pod); empty if it may be. `usage`: average over the window; a Gap if
    there is no usable number (no series, NaN, infinite, negative). `request` and `limit` are of the
    containers that `usage` counts.
    """

    name: str
    uid: str
    node: str
    started: float
    containers: tuple[ContainerAmounts, ...]
    running: bool = True
    ready: bool = True
    terminating: bool = False
    held_back: str = ""
    pod_level: ContainerAmounts | None = None
    usage: Cores | Gap = _NOT_MERGED
    request: Cores | Gap = _NOT_MERGED
    limit: Cores | Gap = _NOT_MERGED

    @property
    def cores(self) -> Cores:
        """The usage of a pod that was selected, which is always known."""
        if isinstance(self.usage, Gap):
            raise ValueError(f"the usage of pod {self.name} is not known: {self.usage.reason}")
        return self.usage

    @property
    def serves(self) -> bool:
        """Whether it carries load now and is going to stay."""
        return self.running and self.ready and not self.terminating


class WorkloadUsage(msgspec.Struct, frozen=True):
    """All live pods of one workload with their usage `at` one time, in seconds since 1970. The
    order of `pods` has no meaning. `container`: whose usage counts; empty: that of all.
    `left_out`: the other containers, and the most that one of each uses; a Gap if that is not known
    of any."""

    workload: WorkloadName
    pods: tuple[PodUsage, ...]
    hpa_target: HpaTarget | Gap
    at: float
    container: str = ""
    left_out: dict[str, Cores | Gap] = {}

    def age(self, pod: PodUsage) -> Seconds:
        """Never negative: clocks differ."""
        return Seconds(max(self.at - pod.started, 0.0))


class Scaling(msgspec.Struct, frozen=True):
    """Replicas that are wanted and that there are. `rollout`: a sentence about the rollout in
    progress; empty if there is none."""

    desired: int
    current: int
    rollout: str = ""


class LastRotation(msgspec.Struct, frozen=True, rename="camel"):
    """What the workload's annotation keeps of the last rotation. `at`: seconds since 1970. `top`,
    `mean`: of the hot pods and of all pods then, in cores; `improvement`: predicted, in percent;
    `pods`: how many were rotated, `hot`: how many of these were hot. `misses`: rotations in a row
    that did not bring what was predicted; `realised`: what this one brought, in percent, once it is
    `judged`."""

    at: float
    top: Cores
    mean: Cores
    improvement: PercentOf
    pods: int
    misses: int = 0
    judged: bool = False
    hot: int = 1
    realised: PercentOf | None = None


class Unavailable(msgspec.Struct, frozen=True):
    """Why something could not be read: `because` is a sentence."""

    reason: Reason
    because: str


class NoAutoscaler(Unavailable, frozen=True):
    """No HPA scales the workload, so neither its target nor its wanted replicas are known."""


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget: how many more of these pods may be evicted now."""

    name: str
    allowed: int
    pods: frozenset[str]


class ObservedWorkload(msgspec.Struct, frozen=True):
    """A workload and its pods, found by owner references. `opted_out`: which annotation forbids
    rotation, as a clause; empty if none does. `last` is a Gap if the annotation cannot be read: the
    workload was rotated at an unknown time, so it cools down. `budgets`: those that cover some of
    its pods; a Gap if they may not be listed."""

    workload: WorkloadName
    api_version: str
    uid: str
    resource_version: str
    pods: tuple[PodUsage, ...]
    hpa_target: HpaTarget | Unavailable
    scaling: Scaling
    opted_out: str = ""
    last: LastRotation | Gap | None = None
    budgets: tuple[Budget, ...] | Gap = ()


class NamespaceUsage(msgspec.Struct, frozen=True):
    """By (pod, container). `usage`: a Gap if the number is not usable. `requests`: empty if the
    source has none, like metrics.k8s.io. `notes`: sentences about an answer that is used all the
    same (a warning of Prometheus, series that were left out)."""

    usage: dict[tuple[str, str], Cores | Gap]
    requests: dict[tuple[str, str], Cores]
    notes: tuple[str, ...] = ()


class Lag(msgspec.Struct, frozen=True):
    """Lag of a consumer group as one number, and where it is from. `unsettled`: why the number is
    not valid now (the group is rebalancing); empty if it is. `static_members`: consumers with a
    group.instance.id, as far as known."""

    messages: int
    source: str
    unsettled: str = ""
    static_members: int = 0


def partition_lag(committed: int | None, begin: int, end: int) -> int:
    """Messages that are still to be read. If nothing was committed, or the log does not contain the
    committed offset (after retention, or a topic that was created again), all that there are."""
    if committed is None or not begin <= committed <= end:
        return end - begin
    return end - committed


def aggregate_lag(partitions: Iterable[float], aggregate: LagSum) -> int:
    """Rounded up, so that 1000.5 is above 1000. At least one partition is needed."""
    fold = max if aggregate is LagSum.MAX else math.fsum
    return math.ceil(fold(partitions))
