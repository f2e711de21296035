"""The order in which the kernel accepts changes.

Puts a plan's changes in sequence and splits a cpuset that moves. It knows what the kernel forbids
on the way from one valid state to another; it does not judge values.

The rules (kernel/sched/core.c and kernel/cgroup/cpuset.c, cgroup v1; v2 is laxer, and the same
order suits it): a child's quota is at most its parent's (tg_cfs_schedulable_down), a burst at
most its quota (tg_set_cfs_bandwidth), a child's cpuset within its parent's (validate_change).
An idle group takes no weight, and leaving idle resets the weight (sched_group_set_idle).

Not promised: periods on v1. Quota and period are two files there, and between the two writes a
mixture stands that may be below a child's quota or above a parent's. The writer tries both; a
group between a parent and a child that are as tight as itself has no way, and is refused.
"""

import enum
from collections.abc import Iterable, Iterator

from slackwater.model.cpus import CpuSet
from slackwater.model.knob import BURST, IDLE, KNOBS, Encoding, KnobValue
from slackwater.model.plan import Change
from slackwater.model.units import Bandwidth, Unlimited


class ChangePhase(enum.IntEnum):
    """When a change is due; within WIDEN parents go first, within NARROW children."""

    #: Idle off and, group by group, at once the weight: the kernel's default of 1024 shares in
    #: between would let best-effort work loose.
    SHARE = 0
    #: Ahead of WIDEN: a burst may always fall, and a quota that widens by a shorter period
    #: falls in microseconds, which is what a burst is compared with.
    LOWER_BURST = 1
    WIDEN = 2
    NARROW = 3
    RAISE_BURST = 4
    IDLE_ON = 5


#: Idle ahead of the weight, which the kernel resets when a group leaves idle.
_KNOB_ORDER = [IDLE.name, *(knob.name for knob in KNOBS if knob is not IDLE)]
_LIMITS = (Encoding.BANDWIDTH, Encoding.CPU_LIST, Encoding.PAGES)


def order_for_kernel(changes: Iterable[Change]) -> list[Change]:
    """The same changes in an order that never breaks a rule of the kernel on the way.

    The order of the input does not matter; it holds at most one change for each knob of a group.
    """
    return sorted((part for change in changes for part in _steps(change)), key=_sort_key)


def _steps(change: Change) -> Iterator[Change]:
    """A cpuset that moves is widened to the union first, so that it nests at every step."""
    old, new = change.old, change.new
    if isinstance(old, CpuSet) and isinstance(new, CpuSet):
        union = old | new
        if union not in (old, new):
            yield Change(change.ref, change.knob, old, union)
            yield Change(change.ref, change.knob, union, new)
            return
    yield change


def _sort_key(change: Change) -> tuple[int, int, str, int, int]:
    phase, depth = phase_of(change), change.ref.depth()
    downward = -depth if phase is ChangePhase.NARROW else depth
    return phase, downward, change.ref.path, change.ref.id, _KNOB_ORDER.index(change.knob.name)


def phase_of(change: Change) -> ChangePhase:
    knob = change.knob.name
    if knob == IDLE.name:
        return ChangePhase.IDLE_ON if change.new else ChangePhase.SHARE
    if knob == BURST.name:
        return (
            ChangePhase.RAISE_BURST if _wider(change.new, change.old) else ChangePhase.LOWER_BURST
        )
    if change.knob.encoding in _LIMITS:
        return ChangePhase.NARROW if _wider(change.old, change.new) else ChangePhase.WIDEN
    return ChangePhase.SHARE


def _wider(one: KnobValue, other: KnobValue) -> bool:
    """Whether `one` lets more through than `other`."""
    match one, other:
        case Bandwidth(), Bandwidth():
            return one.exceeds(other)
        case CpuSet(), CpuSet():
            return one != other and other.within(one)
        case Unlimited(), _:
            return not isinstance(other, Unlimited)
        case int(), int():
            return one > other
    return False
