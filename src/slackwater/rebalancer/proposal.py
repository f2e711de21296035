"""What the pure parts answer: who is hot, who is cold, what it would bring, and who said no.

Owns these values.
"""

import enum

import msgspec

from slackwater.rebalancer.fleet import Cores, PercentOf
from slackwater.rebalancer.reason import Reason


class Group(enum.Enum):
    """Where a pod stands in the decision. YOUNG, UNREADY, HELD_BACK, UNKNOWN are no candidates."""

    TOP = "top"
    BOTTOM = "bottom"
    REST = "rest"
    YOUNG = "young"
    UNREADY = "unready"
    HELD_BACK = "held_back"
    UNKNOWN = "unknown"


class Candidate(msgspec.Struct, frozen=True):
    """A pod to rotate, with what it uses."""

    name: str
    uid: str
    node: str
    usage: Cores
    group: Group


class Guard(msgspec.Struct, frozen=True):
    """One check that may forbid a rotation. `because` is one sentence with the numbers. `passed` is
    None where it cannot be said, which happens only where something else forbids it already."""

    guard: str
    passed: bool | None
    because: str
    reason: Reason | None = None


class Numbers(msgspec.Struct, frozen=True):
    """`target`: what the HPA wants of a pod; `threshold`: target x tolerance. `average`: of the
    filtered top; `predicted`: of top and bottom together; `improvement` of the first by the
    second. The last three are None where no pod is above the threshold."""

    target: Cores
    threshold: Cores
    request: Cores | None
    average: Cores | None = None
    predicted: Cores | None = None
    improvement: PercentOf | None = None


class Proposal(msgspec.Struct, frozen=True):
    """`rotate`: hottest first, then coldest first; empty where nothing is to be done. `reason` is
    None where rotation is proposed; `because` is the sentence for people in either case.
    `groups`: of every pod, by name."""

    rotate: tuple[Candidate, ...]
    reason: Reason | None
    because: str
    groups: dict[str, Group]
    numbers: Numbers | None = None
