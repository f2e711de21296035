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


class PodUsage(msgspec.Struct, frozen=True):
    """One live pod. `usage`: over the window; a Gap where there is no number that means something
    (no series, NaN, infinite, negative). `request`, `limit`: of the same containers.
    `held_back`: why it must not be rotated (an annotation, a bare pod); empty where it may."""

    name: str
    uid: str
    node: str
    usage: Cores | Gap
    request: Cores | Gap
    limit: Cores | Gap
    age: Seconds
    running: bool = True
    ready: bool = True
    terminating: bool = False
    held_back: str = ""


class WorkloadUsage(msgspec.Struct, frozen=True):
    """All live pods of one workload. The order of `members` means nothing."""

    workload: WorkloadName
    pods: tuple[PodUsage, ...]
    hpa_target: HpaTarget | Gap


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

    at: str
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


class ContainerAmounts(msgspec.Struct, frozen=True):
    """Of the pod's spec: regular containers, and init containers that run on (sidecars)."""

    name: str
    request: Cores | Gap
    limit: Cores | Gap


class LivePod(msgspec.Struct, frozen=True):
    """A pod as the API server has it. `started`: seconds since 1970. `held_back`: an annotation,
    or that nobody would replace it; empty where it may go. `whole`: what the pod states for itself
    as a whole, which the HPA takes before its containers'; None where it states nothing."""

    name: str
    uid: str
    node: str
    started: float
    containers: tuple[ContainerAmounts, ...]
    running: bool = True
    ready: bool = True
    terminating: bool = False
    held_back: str = ""
    whole: ContainerAmounts | None = None


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
    pods: tuple[LivePod, ...]
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
