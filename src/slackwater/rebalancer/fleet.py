"""The pods of one workload at one moment, with what they use and what they ask for.

Owns the values that the pure parts are told; knows no server. What is not known is a Gap.
"""

import enum
from typing import NewType

import msgspec

from slackwater.model.gap import Gap

#: CPU as Prometheus counts it. Averages of averages are formed here, so no whole milli-CPUs.
Cores = NewType("Cores", float)
#: 0 to 100.
PercentOf = NewType("PercentOf", float)
Seconds = NewType("Seconds", float)
#: More CPUs than any machine has: what is above counts something else, such as milliCPU.
MOST_CORES = 10_000.0


class AimKind(enum.Enum):
    """What an HPA's number means: percent of the request, or cores for each pod."""

    UTILIZATION = "Utilization"
    AVERAGE_VALUE = "AverageValue"


class Aim(msgspec.Struct, frozen=True):
    """What the HPA wants: 70 (percent) or 0.7 (cores). `container` is empty for a whole pod's."""

    kind: AimKind
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


class Member(msgspec.Struct, frozen=True):
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


class Fleet(msgspec.Struct, frozen=True):
    """All live pods of one workload. The order of `members` means nothing."""

    workload: WorkloadName
    members: tuple[Member, ...]
    aim: Aim | Gap


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
