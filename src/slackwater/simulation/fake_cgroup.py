"""One cgroup of the fake kernel: settings, tasks, CPU bandwidth, and which values it accepts.

The bandwidth mirrors struct cfs_bandwidth and its period timer (kernel/sched/fair.c); the checks
are those of kernel/sched/core.c and kernel/cgroup/cpuset.c that depend on the rest of the tree.
Ranges and page rounding are in model.knob_text. Time passes in fake_kernel.
"""

import errno
from collections.abc import Iterator

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    KNOBS,
    LARGEST_QUOTA,
    QUOTA,
    WEIGHT,
    Encoding,
    Knob,
    KnobValue,
)
from slackwater.model.units import DEFAULT_PERIOD, UNLIMITED, Bandwidth, Micros, Unlimited
from slackwater.simulation.demand import Demand
from slackwater.simulation.fair_share import Claim

NANOS = 1000
#: scale_load_down(NICE_0_LOAD): a new group's shares, and what one task weighs in its group.
NICE_0_SHARES = 1024
DEFAULT_WEIGHT = {CgroupVersion.V1: NICE_0_SHARES, CgroupVersion.V2: 100}
#: WEIGHT_IDLEPRIO in kernel/sched/sched.h.
IDLE_SHARES = 3
#: What the weight reads while a group is idle: its 3 shares; on v2 as a weight, at least 1 since
#: cgroup_weight_from_shares clamps (6.1 does not, and shows 0).
IDLE_WEIGHT = {CgroupVersion.V1: IDLE_SHARES, CgroupVersion.V2: 1}
INITIAL = {knob.name: knob.initial for knob in KNOBS if knob.initial is not None}
#: min_cfs_quota_period and max_cfs_quota_period.
SHORTEST_PERIOD, LONGEST_PERIOD = Micros(1_000), Micros(1_000_000)
#: BW_SHIFT: the kernel compares quotas as whole 2^20ths of a CPU (to_ratio).
_RATIO_SHIFT = 20


class CfsBandwidth:
    """The CPU bandwidth of one cgroup."""

    __slots__ = (
        "_idle",
        "_snap",
        "_throttled",
        "_ticking",
        "burst",
        "burst_time",
        "bursts",
        "left",
        "period",
        "periods",
        "quota",
        "throttled_periods",
        "throttled_time",
    )

    def __init__(self) -> None:
        self.quota: int | Unlimited = UNLIMITED
        self.period = DEFAULT_PERIOD
        self.burst = 0
        self.left = 0
        self.periods = self.throttled_periods = self.throttled_time = 0
        self.bursts = self.burst_time = 0
        self._snap = 0
        #: Whether the period timer runs, and whether nothing was used since it last rang.
        self._ticking = False
        self._idle = False
        self._throttled = False

    def set(self, bandwidth: Bandwidth, burst: Micros) -> None:
        """tg_set_cfs_bandwidth: a new budget at once, and no throttling until it is used up."""
        self.quota = UNLIMITED
        self.period, self.burst = bandwidth.period, burst * NANOS
        if not isinstance(bandwidth.limit, Unlimited):
            self.quota = bandwidth.limit * NANOS
            self._refill(self.quota)
            self._ticking = True
        self._throttled = False

    def spend(self, used: int, asked: int, duration: int) -> None:
        """What an interval of `duration` took, of the time that the group below could have used.

        Throttled time is counted for each CPU that it would have been on (throttled_clock of
        each cfs_rq): they run side by side until the budget is gone, and then stand.
        """
        self.left -= used
        if used:
            self._ticking, self._idle = True, False
        if asked > used and not self.left:
            self._throttled = True
            cpus = -(-asked // duration)
            self.throttled_time += cpus * duration * (asked - used) // asked

    def end_period(self) -> None:
        """do_sched_cfs_period_timer: counts, refills, and stops after a period without use."""
        if isinstance(self.quota, Unlimited):
            return
        self.periods += self._ticking
        self.throttled_periods += self._throttled
        if not self._throttled:
            self._ticking = self._ticking and not self._idle
            self._idle = True
        self._throttled = False
        self._refill(self.quota)

    def _refill(self, quota: int) -> None:
        """__refill_cfs_bandwidth_runtime: what is left stays, up to the burst.

        It takes a budget that was lowered for a burst as well (nr_bursts rises without any
        burst being set): so does this.
        """
        self.left += quota
        if self._snap > self.left:
            self.bursts += 1
            self.burst_time += self._snap - self.left
        self.left = self._snap = min(self.left, quota + self.burst)

    def state(self) -> tuple[int, int, bool, bool, bool]:
        """Everything that decides the next periods, besides the demand."""
        return self.left, self._snap, self._ticking, self._idle, self._throttled

    def counters(self) -> tuple[int, ...]:
        return (
            self.periods,
            self.throttled_periods,
            self.throttled_time,
            self.bursts,
            self.burst_time,
        )

    def repeat(self, before: tuple[int, ...], times: int) -> None:
        """Adds the counts since `before` that many times more."""
        now = self.counters()
        (
            self.periods,
            self.throttled_periods,
            self.throttled_time,
            self.bursts,
            self.burst_time,
        ) = (new + times * (new - old) for old, new in zip(before, now, strict=True))


class SimulatedTask(msgspec.Struct, frozen=True):
    """Threads with a common demand, on at most as many CPUs as there are threads."""

    name: str
    demand: Demand
    threads: int = 1

    def level(self, at: Micros) -> int:
        """milliCPU wanted, at most one CPU per thread."""
        return min(max(self.demand(at), 0), 1000 * self.threads)


class FakeCgroup:
    """The state of one cgroup."""

    def __init__(self, ref: CgroupRef, parent: "FakeCgroup | None", version: CgroupVersion) -> None:
        self.ref = ref
        self.parent = parent
        self.version = version
        self.children: dict[str, FakeCgroup] = {}
        self.tasks: dict[str, SimulatedTask] = {}
        self.weight = DEFAULT_WEIGHT[version]
        self.quota = Bandwidth(UNLIMITED)
        self.burst = Micros(0)
        self.idle = False
        #: Empty means none on v1, and the parent's on v2.
        self.cpus = CpuSet()
        #: Of the root: its CPUs that are offline.
        self.offline = CpuSet()
        self.memory = dict(INITIAL)
        self.runtime = CfsBandwidth()
        self.claim = Claim(NICE_0_SHARES, 0)
        #: Nanoseconds of CPU time: used, and wanted but not got, with all groups below.
        self.used = 0
        self.lost = 0

    def value(self, knob: Knob) -> KnobValue:
        """The current value. Only for the knobs of a mainline kernel."""
        match knob.name:
            case QUOTA.name:
                return self.quota
            case BURST.name:
                return self.burst
            case WEIGHT.name:
                return self.weight
            case IDLE.name:
                return self.idle
            case CPUS.name:
                return self.cpus
            case name:
                return self.memory[name]

    def take(self, knob: Knob, value: KnobValue) -> None:
        """Sets a value that was checked, with the kernel's side effects."""
        match knob.name, value:
            case QUOTA.name, Bandwidth():
                self.quota = value
                self.runtime.set(self.quota, self.burst)
            case BURST.name, int():
                self.burst = Micros(value)
                self.runtime.set(self.quota, self.burst)
            case IDLE.name, bool():
                self.idle = value
                self.weight = (IDLE_WEIGHT if value else DEFAULT_WEIGHT)[self.version]
            case WEIGHT.name, int():
                self.weight = value
            case CPUS.name, CpuSet():
                self.cpus = value
            case name, int() | Unlimited():
                self.memory[name] = value

    def shares(self) -> int:
        """The scheduler's shares: v2 weights are scaled (sched_weight_from_cgroup)."""
        if self.idle:
            return IDLE_SHARES
        if self.version is CgroupVersion.V1:
            return self.weight
        return (self.weight * NICE_0_SHARES + 50) // 100

    def effective_cpus(self) -> CpuSet:
        """cpuset.cpus.effective: nothing in common with the parent's means the parent's."""
        if self.parent is None:
            return self.cpus
        above = self.parent.effective_cpus()
        return CpuSet(self.cpus.mask & above.mask or above.mask)

    def lose_offline_cpus(self) -> None:
        """cpuset_hotplug_workfn on v1: sets shrink for good, and who has none left sees its tasks
        move up. On v2 only the effective CPUs change."""
        above = self.parent
        if above is None or self.version is CgroupVersion.V2:
            return
        self.cpus = CpuSet(self.cpus.mask & above.cpus.mask)
        nearest = above
        while nearest.parent is not None and not nearest.cpus:
            nearest = nearest.parent
        if not self.cpus:
            nearest.tasks |= {f"{self.ref.path}/{name}": t for name, t in self.tasks.items()}
            self.tasks = {}

    def below(self) -> Iterator["FakeCgroup"]:
        """This group and all below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.below()

    def is_populated(self) -> bool:
        """Whether there are tasks in it or below it."""
        return any(group.tasks for group in self.below())

    def times(self) -> CpuTimes:
        runtime = self.runtime
        return CpuTimes(
            usage=Micros(self.used // NANOS),
            periods=runtime.periods,
            throttled_periods=runtime.throttled_periods,
            throttled=Micros(runtime.throttled_time // NANOS),
            bursts=runtime.bursts,
            burst_time=Micros(runtime.burst_time // NANOS),
        )


def check_value(group: FakeCgroup, knob: Knob, value: KnobValue) -> int:
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


def write_sequences(group: FakeCgroup, value: KnobValue) -> tuple[tuple[KnobValue, ...], ...]:
    """The intermediate values on the way to `value`; a second sequence follows if there is one, for
    when the first is refused.

    A v1 bandwidth is two files: execution.cgroup_writer goes by the lower of the two mixtures, or
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


def _bandwidth_error(group: FakeCgroup, quota: Bandwidth, burst: int) -> int:
    """tg_set_cfs_bandwidth."""
    if not SHORTEST_PERIOD <= quota.period <= LONGEST_PERIOD:
        return errno.EINVAL
    limit = quota.limit
    if not isinstance(limit, Unlimited) and burst > min(limit, LARGEST_QUOTA - limit):
        return errno.EINVAL
    if group.version is CgroupVersion.V2:
        return 0  # a child may have more than its parent; it just never gets it
    ceiling = _inherited_ratio(group.parent)
    return errno.EINVAL if _exceeds(group, quota, ceiling) else 0


def _to_ratio(quota: Bandwidth) -> int | Unlimited:
    if isinstance(quota.limit, Unlimited):
        return UNLIMITED
    return (quota.limit << _RATIO_SHIFT) // quota.period


def _inherited_ratio(group: FakeCgroup | None) -> int | Unlimited:
    """A group without a quota has its parent's (hierarchical_quota)."""
    if group is None:
        return UNLIMITED
    own = _to_ratio(group.quota)
    return _inherited_ratio(group.parent) if isinstance(own, Unlimited) else own


def _exceeds(group: FakeCgroup, quota: Bandwidth, ceiling: int | Unlimited) -> bool:
    """tg_cfs_schedulable_down: whether this quota, or one below it, exceeds its parent's."""
    own = _to_ratio(quota)
    if isinstance(own, Unlimited):
        own = ceiling
    elif not isinstance(ceiling, Unlimited) and own > ceiling:
        return True
    return any(_exceeds(child, child.quota, own) for child in group.children.values())


def _cpus_error(group: FakeCgroup, cpus: CpuSet) -> int:
    """update_cpumask and validate_change."""
    root = group
    while root.parent is not None:
        root = root.parent
    # top_cpuset.cpus_allowed: those online on v1, every possible one on v2
    offline = root.offline if group.version is CgroupVersion.V2 else CpuSet()
    if not cpus.within(root.cpus | offline):
        return errno.EINVAL
    if group.version is CgroupVersion.V1:
        if any(not child.cpus.within(cpus) for child in group.children.values()):
            return errno.EBUSY
        if group.parent is not None and not cpus.within(group.parent.cpus):
            return errno.EACCES
    return errno.ENOSPC if not cpus and group.is_populated() else 0
