"""One moment of a node: everything that a policy may know, closed before any policy runs."""

from collections.abc import Mapping
from itertools import compress
from operator import is_not

import msgspec

from slackwater.model.cgroup import (
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuPressure,
    Tier,
)
from slackwater.model.cpus import CpuSet, KubeletCpus, Topology
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import Knob, KnobKey, KnobValue
from slackwater.model.knob_text import COMMON_PAGE, settle_in_file
from slackwater.model.metric import MetricKey, Sample
from slackwater.model.node_resource import NodeForecast, NodeResources
from slackwater.model.plan import CommandProgress
from slackwater.model.unit_property import is_unit, settle_in_unit
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import WeightFormula
from slackwater.model.workload import Workload


class Rate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a cgroup did between two readings: CPU in milliCPU, and the time that its own quota
    held it back, over all its CPUs, in thousandths of the interval. `throttled_periods` is how many
    thousandths of the periods in which it wanted CPU those were in which it was held back."""

    usage: MilliCpu
    throttled: int
    throttled_periods: int = 0


class Held(msgspec.Struct, frozen=True):
    """A knob that is ours at this moment: its baseline, what we wrote last, and since when."""

    ref: CgroupRef
    knob: str
    baseline: KnobValue
    ours: KnobValue
    since: Micros


class WritePrecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """How exactly values can be written here: memory in whole pages; through a systemd unit, where
    one owns the cgroup and has a property for the knob (`unit_knobs`), a quota in whole percents
    of a CPU."""

    page_size: int = COMMON_PAGE
    unit_knobs: frozenset[str] = frozenset()

    def settle(self, ref: CgroupRef, knob: Knob, value: KnobValue) -> KnobValue:
        """What a value becomes once it is written."""
        if knob.name in self.unit_knobs and is_unit(ref):
            value = settle_in_unit(knob, value)
        return settle_in_file(knob, value, self.page_size)


class Freshness(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long ago the API server was last heard about one kind of object; `problem` is why it
    cannot be heard now. A stream that works is heard about once a minute."""

    age: Micros
    problem: str = ""


class NodeSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at` and `elapsed` are of a clock that only goes forward. `readings` and `rates` are keyed
    by cgroup id; `off` names the knobs that cannot be written here. `early` is a
    look before its time, woken by pressure: cuts are made, raises wait for the regular tick."""

    tick: int
    at: Micros
    elapsed: Micros
    allocatable: MilliCpu | Gap
    usage: MilliCpu | Gap
    kubepods: CgroupRef
    tiers: dict[Tier, CgroupRef]
    workloads: tuple[Workload, ...] = ()
    readings: dict[int, CgroupReading] = {}
    rates: dict[int, Rate] = {}
    pressure: CpuPressure | Gap = NOT_ASKED
    held: tuple[Held, ...] = ()
    off: frozenset[KnobKey] = frozenset()
    early: bool = False
    version: CgroupVersion | None = None
    #: None in recordings from before it was noted.
    precision: WritePrecision | None = None
    #: How the kubelet, and the container runtime, turn shares into weights on cgroup v2.
    pod_formula: WeightFormula = WeightFormula.LINEAR
    container_formula: WeightFormula = WeightFormula.LINEAR
    #: In a cluster, by source. None is known of a folder, which is read at each tick.
    sources: dict[str, Freshness] = {}
    #: What policies asked for, by MetricKey.title().
    metrics: dict[str, tuple[Sample, ...] | Gap] = {}
    #: Commands that were taken up and are not finished: an evicted pod that is still there.
    in_flight: tuple[CommandProgress, ...] = ()
    #: Seconds since the epoch: pods say in these when they started. 0 where nobody asked.
    wall_time: int = 0
    #: The online CPUs, those that no container may hold alone, and the kubelet's CPU manager; where
    #: a policy asked for them (Needs.topology).
    topology: Topology | Gap = NOT_ASKED
    reserved_cpus: CpuSet = CpuSet()
    kubelet_cpus: KubeletCpus | Gap = NOT_ASKED
    #: By cgroup id, why the last attempt to write its CPUs failed.
    refused_cpus: dict[int, str] = {}
    #: What the Node object says besides its CPU, and what is predicted of its use.
    node_resources: NodeResources = NodeResources()
    forecast: NodeForecast = NodeForecast()

    def usage_of(self, ref: CgroupRef) -> MilliCpu | Gap:
        rate = self.rates.get(ref.id)
        if rate:
            return rate.usage
        reading = self.readings.get(ref.id)
        times = reading.times if reading else NOT_ASKED
        if isinstance(times, Gap) and times != NOT_ASKED:
            return Gap(f"the usage of {ref.path} cannot be read: {times.reason}")
        return Gap(f"the usage of {ref.path} is not known yet")

    def metric(self, key: MetricKey) -> tuple[Sample, ...] | Gap:
        return self.metrics.get(key.title(), NOT_ASKED)

    def has_own_cpus(self, ref: CgroupRef) -> bool:
        """Whether a container is bound to CPUs of its own, with others or alone. Nobody gets a
        reserved CPU as its own, and every other set has one of them."""
        reading = self.readings.get(ref.id)
        if reading is None or not isinstance(reading.cpus, CpuSet) or not self.reserved_cpus:
            return False
        return bool(reading.cpus) and not reading.cpus & self.reserved_cpus

    def can_write(self, ref: CgroupRef, knob: str) -> bool:
        return KnobKey(ref.id, knob) not in self.off


def find_changed_knobs(
    one: Mapping[int, CgroupReading], other: Mapping[int, CgroupReading]
) -> set[int] | None:
    """The groups whose knobs read otherwise, whatever their counters. None where there are other
    groups, or in another order. Readings that say the same are mostly the same object."""
    if len(one) != len(other):
        return None
    found: set[int] = set()
    before, now = one.values(), other.values()
    for old, new in compress(zip(before, now, strict=True), map(is_not, before, now)):
        if old.ref != new.ref:
            return None
        if not _same_knobs(old, new):
            found.add(new.ref.id)
    return found


def find_changed_held(one: tuple[Held, ...], other: tuple[Held, ...]) -> set[int] | None:
    """The groups of which something of ours is another value. None where other knobs are ours."""
    if one is other:
        return set()
    if len(one) != len(other):
        return None
    found: set[int] = set()
    for old, new in compress(zip(one, other, strict=True), map(is_not, one, other)):
        if (old.ref, old.knob) != (new.ref, new.knob):
            return None
        found.add(new.ref.id)
    return found


def _same_knobs(one: CgroupReading, other: CgroupReading) -> bool:
    return (
        one.quota == other.quota
        and one.burst == other.burst
        and one.weight == other.weight
        and one.idle == other.idle
        and one.cpus == other.cpus
        and one.others == other.others
    )
