"""What a machine is: its CPUs, what they can do, and how much of them was used."""

import enum

import msgspec

from slackwater.model.cgroup import CpuPressure
from slackwater.model.cpus import CpuSet, Topology
from slackwater.model.gap import Gap
from slackwater.model.units import Micros


class CpuTicks(msgspec.Struct, frozen=True):
    """One cpu line of /proc/stat, in ticks of USER_HZ since boot.

    guest and guest_nice are left out: account_guest_time in kernel/sched/cputime.c has already
    added them to user and nice.
    """

    user: int
    nice: int
    system: int
    idle: int
    iowait: int = 0
    irq: int = 0
    softirq: int = 0
    steal: int = 0

    def busy(self) -> int:
        """Ticks in which this machine ran something. Stolen ticks ran another one's work."""
        return self.user + self.nice + self.system + self.irq + self.softirq


class MachineTicks(msgspec.Struct, frozen=True):
    """/proc/stat: all CPUs together, and each online one by its number."""

    total: CpuTicks
    each: dict[int, CpuTicks]


class NodeUsageSource(enum.Enum):
    """Where a node's usage was read. Two usages compare only if they share their source."""

    ROOT_GROUP = "cpuacct.usage of the root cgroup"
    TOP_GROUPS = "the sum of cpu.stat over the root's child cgroups"
    TICKS = "/proc/stat"


class NodeUsage(msgspec.Struct, frozen=True):
    """CPU time that the whole node has used, and how exactly that is known."""

    usage: Micros
    source: NodeUsageSource

    def exact(self) -> bool:
        """/proc/stat samples at ticks and overstates groups with short quota periods."""
        return self.source is not NodeUsageSource.TICKS


class Processor(msgspec.Struct, frozen=True):
    """What the CPUs call themselves."""

    model: str
    vendor: str


class NumaNode(msgspec.Struct, frozen=True):
    """One NUMA node and its CPUs; a node of memory alone has none."""

    number: int
    cpus: CpuSet


class Machine(msgspec.Struct, frozen=True):
    """One machine, as far as it tells. `smt` and `turbo` are whether it is on right now."""

    cpus: CpuSet | Gap
    topology: Topology | Gap
    model: str | Gap
    vendor: str | Gap
    smt: bool | Gap
    turbo: bool | Gap
    nodes: tuple[NumaNode, ...] | Gap
    psi: CpuPressure | Gap
