"""What a cgroup is: where it lives, which one it is, and what was read from it."""

import enum
from collections.abc import Mapping

import msgspec

from slackwater.model.cpus import CpuSet
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.units import Bandwidth, Micros, Unlimited


class CgroupVersion(enum.Enum):
    V1 = "v1"
    V2 = "v2"


class Driver(enum.Enum):
    """How the kubelet's tree is laid out: plain directories, or systemd slices and scopes."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class CgroupController(enum.Enum):
    """The kernel controllers whose files we read or write."""

    CPU = "cpu"
    CPUACCT = "cpuacct"
    CPUSET = "cpuset"
    MEMORY = "memory"


class Level(enum.Enum):
    """Where in the kubepods tree a cgroup sits; NODE is the root of that tree."""

    NODE = "node"
    TIER = "tier"
    POD = "pod"
    CONTAINER = "container"

    # Enum's own is a Python function that hashes the name: it is asked for each group in each tick.
    __hash__ = object.__hash__


class Tier(enum.Enum):
    """The kubelet's QoS classes. Guaranteed pods sit directly below the root of the tree."""

    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BESTEFFORT = "besteffort"


class Mount(msgspec.Struct, frozen=True):
    """One mounted hierarchy."""

    version: CgroupVersion
    directory: str


class CgroupMounts(msgspec.Struct, frozen=True):
    """Where each controller is mounted. A hybrid host mixes versions, by controller."""

    by_controller: dict[CgroupController, Mount]

    def mount(self, controller: CgroupController) -> Mount | Gap:
        found = self.by_controller.get(controller)
        return found or Gap(f"the {controller.value} controller is mounted nowhere")

    def directory(self, controller: CgroupController, path: str) -> str | Gap:
        """The absolute directory of a cgroup in this controller's hierarchy."""
        match self.mount(controller):
            case Gap() as gap:
                return gap
            case mount:
                return f"{mount.directory}/{path}" if path else mount.directory

    def identity(self) -> Mount | Gap:
        """The hierarchy whose directory inode is a cgroup's id: the cpu controller's.

        On v1 every hierarchy numbers its groups on its own; one of them has to speak for all.
        """
        return self.mount(CgroupController.CPU)


class CgroupRef(msgspec.Struct, frozen=True, gc=False, tag="cgroup", omit_defaults=True):
    """One cgroup. `id` says which one it is; `path` only where it was found.

    `path` is relative to its hierarchy's mount, without slashes at either end. `id` is the
    inode number of its directory, which the kernel never hands out again before a reboot
    (kernfs_node.id, 64 bits with a generation). `owner` is the pod's uid, or empty.
    """

    path: str
    id: int
    level: Level
    tier: Tier = Tier.GUARANTEED
    owner: str = ""

    def depth(self) -> int:
        return self.path.count("/") + 1 if self.path else 0

    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class PressureLine(msgspec.Struct, frozen=True, gc=False):
    """One line of a PSI file: share of time stalled, in hundredths of a percent, and in total."""

    avg10: int
    avg60: int
    avg300: int
    total: Micros


class CpuPressure(msgspec.Struct, frozen=True, gc=False, tag="pressure", omit_defaults=True):
    """A PSI file. The `full` line of cpu.pressure exists below the root only, from Linux 5.13."""

    some: PressureLine
    full: PressureLine | None = None


class CpuTimes(msgspec.Struct, frozen=True, gc=False, tag="times", omit_defaults=True):
    """The counters of one cgroup, all since its creation."""

    usage: Micros
    periods: int = 0
    throttled_periods: int = 0
    throttled: Micros = Micros(0)
    bursts: int = 0
    burst_time: Micros = Micros(0)


class CgroupReading(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What was read from one cgroup at one time. A field that was not asked for is a Gap."""

    ref: CgroupRef
    at: Micros
    times: CpuTimes | Gap = NOT_ASKED
    quota: Bandwidth | Gap = NOT_ASKED
    burst: Micros | Gap = NOT_ASKED
    weight: int | Gap = NOT_ASKED
    idle: bool | Gap = NOT_ASKED
    cpus: CpuSet | Gap = NOT_ASKED
    pressure: CpuPressure | Gap = NOT_ASKED
    #: Of the other knobs, memory and vendors', by name.
    others: Mapping[str, int | Unlimited | Gap] = {}

    def value(self, knob: str) -> "Bandwidth | CpuSet | Unlimited | bool | int | Gap":
        """What this knob reads."""
        return getattr(self, knob) if knob in _OWN_FIELDS else self.others.get(knob, NOT_ASKED)

    def hides(self, knob: str) -> bool:
        """An idle group shows no weight of its own and takes none (sched_group_set_idle)."""
        return knob == "weight" and self.idle is True


#: Knobs that a reading has a field for, by the same name.
_OWN_FIELDS = frozenset({"quota", "burst", "weight", "idle", "cpus"})
