"""One cgroup of the fake kernel: its settings, tasks, place in the tree and counters.

Owns a group's state and the kernel's defaults for a new one. Refuses to judge a value (that is
knob_rules) and to let time pass (that is the scheduler).
"""

from collections.abc import Iterator

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, Unlimited
from slackwater.simulation.fair_share import Claim
from slackwater.simulation.runtime import NANOS, Runtime
from slackwater.simulation.workloads import Demand

#: scale_load_down(NICE_0_LOAD): a new group's shares, and what one task weighs in its group.
NICE_0_SHARES = 1024
DEFAULT_WEIGHT = {CgroupVersion.V1: NICE_0_SHARES, CgroupVersion.V2: 100}
#: WEIGHT_IDLEPRIO in kernel/sched/sched.h.
IDLE_SHARES = 3
#: What the weight reads while a group is idle: its 3 shares; on v2 as a weight, at least 1 since
#: cgroup_weight_from_shares clamps (6.1 does not, and shows 0).
IDLE_WEIGHT = {CgroupVersion.V1: IDLE_SHARES, CgroupVersion.V2: 1}


DEFAULT_MEMORY: dict[str, int | Unlimited] = {
    MEMORY_MAX.name: UNLIMITED,
    MEMORY_HIGH.name: UNLIMITED,
    MEMORY_LOW.name: 0,
    MEMORY_MIN.name: 0,
}


class Task(msgspec.Struct, frozen=True):
    """Some threads that want CPU time together, and no more CPUs than there are threads."""

    name: str
    demand: Demand
    threads: int = 1

    def level(self, at: Micros) -> int:
        """milliCPU wanted and possible."""
        return min(max(self.demand(at), 0), 1000 * self.threads)


class Group:
    """Guards one cgroup."""

    def __init__(self, ref: CgroupRef, parent: "Group | None", version: CgroupVersion) -> None:
        self.ref = ref
        self.parent = parent
        self.version = version
        self.children: dict[str, Group] = {}
        self.tasks: dict[str, Task] = {}
        self.weight = DEFAULT_WEIGHT[version]
        self.quota = Bandwidth(UNLIMITED)
        self.burst = Micros(0)
        self.idle = False
        #: Empty means none on v1, and the parent's on v2.
        self.cpus = CpuSet()
        self.memory = dict(DEFAULT_MEMORY)
        self.runtime = Runtime()
        self.claim = Claim(NICE_0_SHARES, 0)
        #: Nanoseconds of CPU time: used, and wanted but not got, with all groups below.
        self.used = 0
        self.lost = 0

    def value(self, knob: Knob) -> KnobValue:
        """What stands there. Only for the knobs of a mainline kernel."""
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
        """A value that the rules allow, with what the kernel does beside."""
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
        """What the scheduler reckons with: v2 weights are scaled (sched_weight_from_cgroup)."""
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

    def below(self) -> Iterator["Group"]:
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
