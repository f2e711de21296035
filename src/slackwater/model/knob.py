"""The knob table: every kernel file that we set, as data.

A knob is one setting with a v1 and a v2 face: file, range, encoding, how "no limit" is spelled,
systemd's property for it. How a value becomes text is in knob_text.
"""

import enum

import msgspec

from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.units import SMALLEST_QUOTA, UNLIMITED, Bandwidth, Micros, Unlimited
from slackwater.model.weight import (
    LARGEST_SHARES,
    LARGEST_WEIGHT,
    SMALLEST_SHARES,
    SMALLEST_WEIGHT,
)

#: Bandwidth for quota, bool for idle, CpuSet for cpus; int or Unlimited for all others.
KnobValue = Bandwidth | CpuSet | Unlimited | bool | int

LARGEST_MEMORY = 2**63 - 1
#: max_cfs_runtime in kernel/sched/core.c.
LARGEST_QUOTA = (2**64 - 1) // 2**20 // 1000


class Encoding(enum.Enum):
    """How a value is written as text."""

    NUMBER = "number"
    PAGES = "pages"  # a number of bytes that the kernel rounds down to whole pages
    FLAG = "flag"  # 0 or 1
    BANDWIDTH = "bandwidth"  # v2: "quota period"; v1: quota here, period in a second file
    CPU_LIST = "cpu list"


class Fold(enum.Enum):
    """How several intents about one knob become one value."""

    QUOTA_LAW = "quota law"  # resolution.quota
    SMALLEST = "smallest"
    LARGEST = "largest"
    INTERSECTION = "intersection"


class KnobFile(msgspec.Struct, frozen=True):
    """One version's face of a knob."""

    name: str
    low: int = 0
    high: int = 0
    #: How "no limit" is written; None where the file knows no such thing.
    unlimited: str | None = None
    #: The second file of a v1 bandwidth.
    period: str | None = None
    #: systemd's D-Bus property for the same value, where systemd has one.
    unit_property: str | None = None


class KnobKey:
    """One knob of one cgroup, by the cgroup's id and the knob's name.

    Not a Struct: recordings spell it as a text, "id/knob", also where it is the key of a mapping
    (record.recording has the hooks).
    """

    __slots__ = ("cgroup", "knob")

    def __init__(self, cgroup: int, knob: str) -> None:
        self.cgroup = cgroup
        self.knob = knob

    @classmethod
    def parse(cls, text: str) -> "KnobKey":
        """Raises ValueError."""
        cgroup, slash, knob = text.partition("/")
        if not slash or not cgroup.isascii() or not cgroup.isdigit():
            raise ValueError(f"{text[:80]!r} does not name a knob of a cgroup")
        return cls(int(cgroup), knob)

    def __str__(self) -> str:
        return f"{self.cgroup}/{self.knob}"

    def __repr__(self) -> str:
        return f"KnobKey({self.cgroup}, {self.knob!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnobKey):
            return NotImplemented
        return (self.cgroup, self.knob) == (other.cgroup, other.knob)

    def __hash__(self) -> int:
        return hash((self.cgroup, self.knob))


class Knob(msgspec.Struct, frozen=True):
    """One setting of a cgroup."""

    name: str
    controller: CgroupController
    encoding: Encoding
    fold: Fold
    v1: KnobFile | None
    v2: KnobFile | None
    #: What `doctor --probe` writes to a scratch cgroup: a value that no kernel has by default.
    trial: KnobValue
    #: The value of a new cgroup; None for the knobs that simulation.fake_cgroup models by itself.
    initial: int | Unlimited | None = None
    #: A vendor's kernel only: absent from the mainline kernel.
    vendor: bool = False
    #: The knob that the kernel changes as a side effect of writing this one.
    disturbs: str | None = None

    def file(self, version: CgroupVersion) -> KnobFile | Gap:
        found = self.v1 if version is CgroupVersion.V1 else self.v2
        return found or Gap(f"{self.name} does not exist on cgroup {version.value}")


_TRIAL_MEMORY = 64 * 1024 * 1024

WEIGHT = Knob(
    "weight",
    CgroupController.CPU,
    Encoding.NUMBER,
    Fold.SMALLEST,
    KnobFile("cpu.shares", SMALLEST_SHARES, LARGEST_SHARES, unit_property="CPUShares"),
    KnobFile("cpu.weight", SMALLEST_WEIGHT, LARGEST_WEIGHT, unit_property="CPUWeight"),
    trial=50,
)
QUOTA = Knob(
    "quota",
    CgroupController.CPU,
    Encoding.BANDWIDTH,
    Fold.QUOTA_LAW,
    KnobFile(
        "cpu.cfs_quota_us",
        SMALLEST_QUOTA,
        LARGEST_QUOTA,
        unlimited="-1",
        period="cpu.cfs_period_us",
        unit_property="CPUQuotaPerSecUSec",
    ),
    KnobFile(
        "cpu.max",
        SMALLEST_QUOTA,
        LARGEST_QUOTA,
        unlimited="max",
        unit_property="CPUQuotaPerSecUSec",
    ),
    trial=Bandwidth(Micros(50_000)),
)
BURST = Knob(
    "burst",
    CgroupController.CPU,
    Encoding.NUMBER,
    Fold.SMALLEST,
    KnobFile("cpu.cfs_burst_us", 0, LARGEST_QUOTA),
    KnobFile("cpu.max.burst", 0, LARGEST_QUOTA),
    trial=10_000,
)
# cpu.idle=1 makes weight read 0, 1 or 3 and refuses writes to it; cpu.idle=0 puts the kernel's
# default there, not the earlier weight (sched_group_set_idle, measured: real kernels differ).
IDLE = Knob(
    "idle",
    CgroupController.CPU,
    Encoding.FLAG,
    Fold.LARGEST,
    KnobFile("cpu.idle", 0, 1),
    KnobFile("cpu.idle", 0, 1),
    trial=True,
    disturbs="weight",
)
CPUS = Knob(
    "cpus",
    CgroupController.CPUSET,
    Encoding.CPU_LIST,
    Fold.INTERSECTION,
    KnobFile("cpuset.cpus"),
    KnobFile("cpuset.cpus", unit_property="AllowedCPUs"),
    #: The machine decides which CPU: the probe takes the first that is online.
    trial=CpuSet.of([0]),
)
MEMORY_MAX = Knob(
    "memory-max",
    CgroupController.MEMORY,
    Encoding.PAGES,
    Fold.SMALLEST,
    KnobFile(
        "memory.limit_in_bytes", 0, LARGEST_MEMORY, unlimited="-1", unit_property="MemoryLimit"
    ),
    KnobFile("memory.max", 0, LARGEST_MEMORY, unlimited="max", unit_property="MemoryMax"),
    trial=_TRIAL_MEMORY,
    initial=UNLIMITED,
)
MEMORY_HIGH = Knob(
    "memory-high",
    CgroupController.MEMORY,
    Encoding.PAGES,
    Fold.SMALLEST,
    None,
    KnobFile("memory.high", 0, LARGEST_MEMORY, unlimited="max", unit_property="MemoryHigh"),
    trial=_TRIAL_MEMORY,
    initial=UNLIMITED,
)
MEMORY_LOW = Knob(
    "memory-low",
    CgroupController.MEMORY,
    Encoding.PAGES,
    Fold.LARGEST,
    None,
    KnobFile("memory.low", 0, LARGEST_MEMORY, unlimited="max", unit_property="MemoryLow"),
    trial=_TRIAL_MEMORY,
    initial=0,
)
MEMORY_MIN = Knob(
    "memory-min",
    CgroupController.MEMORY,
    Encoding.PAGES,
    Fold.LARGEST,
    None,
    KnobFile("memory.min", 0, LARGEST_MEMORY, unlimited="max", unit_property="MemoryMin"),
    trial=_TRIAL_MEMORY,
    initial=0,
)
CPU_QOS_LEVEL = Knob(
    "cpu-qos-level",
    CgroupController.CPU,
    Encoding.NUMBER,
    Fold.SMALLEST,
    KnobFile("cpu.qos_level", -1, 2),
    KnobFile("cpu.qos_level", -1, 2),
    trial=-1,
    vendor=True,
)
MEMORY_QOS_LEVEL = Knob(
    "memory-qos-level",
    CgroupController.MEMORY,
    Encoding.NUMBER,
    Fold.SMALLEST,
    KnobFile("memory.qos_level", -1, 0),
    KnobFile("memory.qos_level", -1, 0),
    trial=-1,
    vendor=True,
)

KNOBS: tuple[Knob, ...] = (
    WEIGHT,
    QUOTA,
    BURST,
    IDLE,
    CPUS,
    MEMORY_MAX,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MIN,
    CPU_QOS_LEVEL,
    MEMORY_QOS_LEVEL,
)
#: By name, as grants and the ledger know them.
KNOB = {knob.name: knob for knob in KNOBS}
