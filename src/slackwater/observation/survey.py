"""Closes one snapshot: reads what the enabled policies need, at the level that they need.

Owns the order of reading: the node first and the tiers right after it, so that what is
subtracted from each other was read together. Knobs of pods and containers change rarely: they are
kept and read again in turn. In a cluster, a guard first makes sure that the tree is this node's.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from slackwater.contract.kubernetes_pod import Pod
from slackwater.model.cgroup import CgroupReading, CgroupRef, CpuPressure, Level
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.knob import WEIGHT, KnobKey
from slackwater.model.needs import EACH_TICK, TIERS, Field, Needs
from slackwater.model.snapshot import Freshness, Held, NodeSnapshot, WritePrecision
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import WeightFormula
from slackwater.observation.cgroups.tree import CgroupTree, Depth, Scan
from slackwater.observation.cgroups.weight_formula import FormulaWatch
from slackwater.observation.detection.kubepods import pod_uids_in, trees_below
from slackwater.observation.host import NodeUsageMeter
from slackwater.observation.objects.workload_matching import Matching
from slackwater.observation.rates import Rates

#: A foreign write is noticed within so many ticks.
TURN = 30


class Wanted(msgspec.Struct, frozen=True):
    """One level's fields, apart: those of each tick and those in turn."""

    all: frozenset[Field]
    fast: frozenset[Field]
    slow: frozenset[Field]


def wanted(fields: frozenset[Field]) -> Wanted:
    return Wanted(fields, fields & EACH_TICK, fields - EACH_TICK)


class _Kept(msgspec.Struct, frozen=True):
    fields: frozenset[Field]
    reading: CgroupReading


class SlowReadings:
    """Guards the last reading of each group's knobs."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._kept: dict[int, _Kept] = {}

    def read(self, ref: CgroupRef, wants: Wanted, at: Micros, due: bool) -> CgroupReading:
        """Counters of now, knobs of now or of a while ago."""
        kept = self._kept.get(ref.id)
        if wants.slow and (due or kept is None or not wants.slow <= kept.fields):
            reading = self._tree.read(ref, wants.all, at)
            self._kept[ref.id] = _Kept(wants.slow, reading)
            return reading
        quota = kept.reading.quota if kept is not None else NOT_ASKED
        times, pressure = self._tree.counters(ref, wants.fast, quota)
        if kept is None or not wants.slow or times is VANISHED:
            return CgroupReading(ref, at, times, pressure=pressure)
        old = kept.reading
        return CgroupReading(
            ref, at, times, old.quota, old.burst, old.weight, old.idle, old.cpus,
            pressure, old.others,
        )  # fmt: skip

    def keep(self, living: frozenset[int]) -> None:
        """Forgets all other groups."""
        for gone in self._kept.keys() - living:
            del self._kept[gone]


#: What is read of a knob that is ours, whoever needs it.
HELD = frozenset({Field.TIMES, Field.QUOTA})
_DEFAULT = WeightFormula.LINEAR
_SLOW_LEVELS = frozenset({Level.POD, Level.CONTAINER})


class SnapshotInputs(msgspec.Struct, frozen=True):
    """What a snapshot takes from elsewhere: the node's size, its pods, and what is ours; and
    what it is wanted for. `early` is a look before its time, woken by pressure."""

    allocatable: MilliCpu | Gap
    pods: Sequence[Pod] = ()
    held: tuple[Held, ...] = ()
    off: frozenset[KnobKey] = frozenset()
    precision: WritePrecision = WritePrecision()
    needs: Needs = TIERS
    early: bool = False
    #: Groups that we wrote since the last snapshot.
    written: frozenset[int] = frozenset()
    #: How fresh what comes from a cluster is.
    sources: Mapping[str, Freshness] = {}


class Surveyor:
    """Guards the tree, the meter and the readings before."""

    def __init__(self, tree: CgroupTree, meter: NodeUsageMeter) -> None:
        self._tree = tree
        self._meter = meter
        self._slow = SlowReadings(tree)
        self._formulas = FormulaWatch(tree)
        self._matching = Matching()
        self._scan: Scan | None = None
        self._rates = Rates()
        self._before: Micros | None = None

    def close_snapshot(self, tick: int, at: Micros, known: SnapshotInputs) -> NodeSnapshot | Gap:
        """A Gap where the tree itself is gone."""
        self._tree.look_to(depth_of(known))
        usage = self._meter.read()
        scan = self._tree.refresh()
        kubepods = next((ref for ref in scan.refs if ref.level is Level.NODE), None)
        if kubepods is None:
            return Gap("the kubelet's tree is gone")
        readings = self._readings(tick, at, known, scan)
        formulas = self._formulas_of(at, known, scan)
        elapsed = Micros(at - self._before) if self._before is not None else Micros(0)
        self._before = at
        return NodeSnapshot(
            tick=tick,
            at=at,
            elapsed=elapsed,
            allocatable=known.allocatable,
            usage=self._rates.of_node(usage, at),
            kubepods=kubepods,
            tiers={ref.tier: ref for ref in scan.refs if ref.level is Level.TIER},
            workloads=self._matching.match(known.pods, scan.refs),
            readings=readings,
            rates=self._rates.of_groups(readings.values()),
            pressure=self._pressure(known.needs),
            held=known.held,
            off=known.off,
            precision=known.precision,
            early=known.early,
            version=self._tree.version,
            pod_formula=formulas[0],
            container_formula=formulas[1],
            sources=dict(known.sources),
        )

    def _pressure(self, needs: Needs) -> CpuPressure | Gap:
        asked = Field.PRESSURE in needs.at(Level.NODE)
        return self._meter.read_pressure() if asked else NOT_ASKED

    def _formulas_of(
        self, at: Micros, known: SnapshotInputs, scan: Scan
    ) -> tuple[WeightFormula, WeightFormula]:
        """Of pods and of containers, where somebody needs weights; the kubelet's own formula
        until there is evidence."""
        if not any(Field.WEIGHT in known.needs.at(level) for level in _SLOW_LEVELS):
            return _DEFAULT, _DEFAULT
        ours = frozenset(each.ref.id for each in known.held if each.knob == WEIGHT.name)
        found = self._formulas.formulas(scan, known.allocatable, ours, at)
        pods = _DEFAULT if isinstance(found.pods, Gap) else found.pods
        return pods, _DEFAULT if isinstance(found.containers, Gap) else found.containers

    def _readings(
        self, tick: int, at: Micros, known: SnapshotInputs, scan: Scan
    ) -> dict[int, CgroupReading]:
        """Tiers whole at each tick; below them the knobs in turn."""
        if scan is not self._scan:
            self._scan = scan
            self._slow.keep(frozenset(ref.id for ref in scan.refs))
        held, turn = {each.ref.id for each in known.held}, tick % TURN
        plain = {level: wanted(known.needs.at(level)) for level in Level}
        ours = {level: wanted(known.needs.at(level) | HELD) for level in Level}
        found: dict[int, CgroupReading] = {}
        for place, ref in enumerate(scan.refs):
            wants = (ours if ref.id in held else plain)[ref.level]
            if not wants.all:
                continue
            due = place % TURN == turn or ref.level not in _SLOW_LEVELS or ref.id in known.written
            found[ref.id] = self._slow.read(ref, wants, at, due)
        return found

    def protected(self) -> tuple[CgroupRef, ...]:
        """The groups that best-effort work must not hurt, as of the last snapshot."""
        return self._tree.protected()

    def close(self) -> None:
        self._tree.close()
        self._meter.close()


def depth_of(known: SnapshotInputs) -> Depth:
    """As far down as somebody needs, and as something of ours is."""
    levels = {each.ref.level for each in known.held} | known.needs.fields.keys()
    if Level.CONTAINER in levels:
        return Depth.CONTAINERS
    return Depth.PODS if Level.POD in levels else Depth.TIERS


class SnapshotReader(Protocol):
    """Closes snapshots: the surveyor, a guard around it, or a simulation."""

    def close_snapshot(
        self, tick: int, at: Micros, known: SnapshotInputs
    ) -> NodeSnapshot | Gap: ...

    def close(self) -> None: ...


class TreeGuard:
    """Stands before a sight. Sees nothing while another tree has this node's pods and the one that
    was taken has none; once it had one it is right for good: uids are nobody else's."""

    def __init__(self, sight: SnapshotReader, top: str, taken: str) -> None:
        self._sight = sight
        self._top = top
        self._taken = taken
        self._sure = False

    def close_snapshot(self, tick: int, at: Micros, known: SnapshotInputs) -> NodeSnapshot | Gap:
        doubt = None if self._sure else self._doubt(known.pods)
        return doubt or self._sight.close_snapshot(tick, at, known)

    def close(self) -> None:
        self._sight.close()

    def _doubt(self, pods: Sequence[Pod]) -> Gap | None:
        uids = {pod.cgroup_uid for pod in pods}
        if not uids:
            return None
        if uids & pod_uids_in(f"{self._top}/{self._taken}"):
            self._sure = True
            return None
        for path in trees_below(self._top):
            count = len(uids & pod_uids_in(f"{self._top}/{path}"))
            if path != self._taken and count:
                return Gap(
                    f"{self._taken} has none of this node's {len(uids)} pods, and {path} has "
                    f"{count}: nothing is written; name the right tree with --kubepods "
                    "(in the chart agent.paths.kubepods)"
                )
        return None
