"""What the readers bring: objects of the API server, and numbers of Prometheus or metrics.k8s.io.

Owns these values; the readers make them, the pure parts take them. A reader that cannot say
something brings a Problem with its one sentence, never a guess.
"""

import enum
from typing import NewType

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.reason import Reason

#: CPU as Prometheus counts it. Averages of averages are formed here, so no whole milli-CPUs.
Cores = NewType("Cores", float)
#: 0 to 100.
PercentOf = NewType("PercentOf", float)
Seconds = NewType("Seconds", float)
#: More CPUs than any machine has: what is above counts something else, such as milliCPU.
MOST_CORES = 10_000.0


_NOT_MERGED = Gap("not merged with usage yet")


class HpaTargetKind(enum.Enum):
    """What an HPA's number means: percent of the request, or cores for each pod."""

    UTILIZATION = "Utilization"
    AVERAGE_VALUE = "AverageValue"


class HpaTarget(msgspec.Struct, frozen=True):
    """What the HPA wants: 70 (percent) or 0.7 (cores). `container` is empty for a whole pod's."""

    kind: HpaTargetKind
    value: float
    hpa: str
    container: str = ""


class WorkloadName(msgspec.Struct, frozen=True, order=True):
    """`kind` is Deployment, StatefulSet or whatever else the HPA scales."""

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
    order of `pods` has no meaning."""

    workload: WorkloadName
    pods: tuple[PodUsage, ...]
    hpa_target: HpaTarget | Gap
    at: float

    def age(self, pod: PodUsage) -> Seconds:
        """Never negative: clocks differ."""
        return Seconds(max(self.at - pod.started, 0.0))


class Scaling(msgspec.Struct, frozen=True):
    """Whether something else is changing the workload now."""

    desired: int
    current: int
    #: Why a rollout is in flight, as a sentence; empty where none is.
    rollout: str = ""


class LastRotation(msgspec.Struct, frozen=True, rename="camel"):
    """What the workload's annotation keeps of the last rotation. `top`, `mean`: the averages of
    the hot pods and of all pods then, in cores; `improvement`: percent, predicted; `pods`: how many
    were rotated, `hot`: how many of them were hot. `misses`: rotations in a row that did not bring
    what was predicted; `realised`: what this one brought, in percent, once it is `judged`."""

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
    """Why a workload cannot be judged: the word, and the sentence for people."""

    reason: Reason
    because: str


class NoAutoscaler(Unavailable, frozen=True):
    """No HPA scales it: neither a target nor a wanted number of pods is known."""


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget: how many more of these pods may go now."""

    name: str
    allowed: int
    pods: frozenset[str]


class ObservedWorkload(msgspec.Struct, frozen=True):
    """One workload and its pods, by the owner chain. `opted_out`: which annotation of the workload
    says so, or what else makes a rotation useless; empty where it may be rotated. `last` is a Gap
    where the annotation cannot be read: it was rotated, nobody knows when, so it cools down.
    `budgets`: those that cover some of its pods; a Gap where they may not be seen."""

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
    """By (pod, container). `usage`: a Gap where the number means nothing. `requests`: empty where
    the source has none, as metrics.k8s.io. `notes`: sentences for people about an answer that
    counts all the same (a warning of Prometheus, series that were left out)."""

    usage: dict[tuple[str, str], Cores | Gap]
    requests: dict[tuple[str, str], Cores]
    notes: tuple[str, ...] = ()


class Lag(msgspec.Struct, frozen=True):
    """Of a consumer group, as one number, and how it was found. `unsettled`: why the number does
    not count now (the group hands its partitions out anew); empty where it does.
    `static_members`: consumers with a name of their own (group.instance.id), as far as is known."""

    messages: int
    source: str
    unsettled: str = ""
    static_members: int = 0
