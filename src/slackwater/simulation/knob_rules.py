"""What the kernel answers to a value: taken, or which error.

Owns the rules of kernel/sched/core.c and kernel/cgroup/cpuset.c that depend on the state of the
tree. Refuses to change it. Ranges and page rounding are knob_text's.
"""

import errno

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    LARGEST_QUOTA,
    WEIGHT,
    Encoding,
    Knob,
    KnobValue,
)
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, Unlimited
from slackwater.simulation.group import Group

#: min_cfs_quota_period and max_cfs_quota_period.
SHORTEST_PERIOD, LONGEST_PERIOD = Micros(1_000), Micros(1_000_000)
#: BW_SHIFT: the kernel compares quotas as whole 2^20ths of a CPU (to_ratio).
_RATIO_SHIFT = 20


def error_of(group: Group, knob: Knob, value: KnobValue) -> int:
    """The error number for this write now, or 0."""
    if group.parent is None:
        return errno.EINVAL  # the root group has no limits, and its files say so
    match value:
        case Bandwidth():
            return _bandwidth_error(group, value, group.burst)
        case CpuSet():
            return _cpus_error(group, value)
        case int() if knob == WEIGHT:
            return errno.EINVAL if group.idle else 0
        case int() if knob.encoding is Encoding.NUMBER:
            return _bandwidth_error(group, group.quota, value)
    return 0


def ways_to(group: Group, value: KnobValue) -> tuple[tuple[KnobValue, ...], ...]:
    """The values that stand there one after the other until `value` does; a second way follows
    where there is one, for when the first is refused.

    A v1 bandwidth is two files: execution.knob_file goes by the lower of the two mixtures, or
    else by the higher.
    """
    old = group.quota
    if group.version is CgroupVersion.V2 or not isinstance(value, Bandwidth):
        return ((value,),)
    if old.limit == value.limit or old.period == value.period:
        return ((value,),)
    period_first = (Bandwidth(old.limit, value.period), value)
    quota_first = (Bandwidth(value.limit, old.period), value)
    if quota_first[0].exceeds(period_first[0]):
        return period_first, quota_first
    return quota_first, period_first


def _bandwidth_error(group: Group, quota: Bandwidth, burst: int) -> int:
    """tg_set_cfs_bandwidth."""
    if not SHORTEST_PERIOD <= quota.period <= LONGEST_PERIOD:
        return errno.EINVAL
    limit = quota.limit
    if not isinstance(limit, Unlimited) and burst > min(limit, LARGEST_QUOTA - limit):
        return errno.EINVAL
    if group.version is CgroupVersion.V2:
        return 0  # a child may have more than its parent; it just never gets it
    ceiling = _inherited(group.parent)
    return errno.EINVAL if _exceeds(group, quota, ceiling) else 0


def _ratio(quota: Bandwidth) -> int | Unlimited:
    if isinstance(quota.limit, Unlimited):
        return UNLIMITED
    return (quota.limit << _RATIO_SHIFT) // quota.period


def _inherited(group: Group | None) -> int | Unlimited:
    """A group without a quota has its parent's (hierarchical_quota)."""
    if group is None:
        return UNLIMITED
    own = _ratio(group.quota)
    return _inherited(group.parent) if isinstance(own, Unlimited) else own


def _exceeds(group: Group, quota: Bandwidth, ceiling: int | Unlimited) -> bool:
    """tg_cfs_schedulable_down: whether this quota, or one below it, is above what is above it."""
    own = _ratio(quota)
    if isinstance(own, Unlimited):
        own = ceiling
    elif not isinstance(ceiling, Unlimited) and own > ceiling:
        return True
    return any(_exceeds(child, child.quota, own) for child in group.children.values())


def _cpus_error(group: Group, cpus: CpuSet) -> int:
    """update_cpumask and validate_change."""
    root = group
    while root.parent is not None:
        root = root.parent
    if not cpus.within(root.cpus):
        return errno.EINVAL
    if group.version is CgroupVersion.V1:
        if any(not child.cpus.within(cpus) for child in group.children.values()):
            return errno.EBUSY
        if group.parent is not None and not cpus.within(group.parent.cpus):
            return errno.EACCES
    return errno.ENOSPC if not cpus and group.is_populated() else 0
