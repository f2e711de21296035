"""Closes one snapshot: reads what the enabled policies need, at the level that they need.

Owns the order of reading: the node first and the tiers right after it, so that what is
subtracted from each other was read together. Knobs of pods and containers change rarely: they are
kept and read again in turn. In a cluster, a guard first makes sure that the tree is this node's.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from slackwater.contract.crane.ensurance_set import NO_OBJECTS, EnsuranceObjects
from slackwater.contract.crane.node_forecast import NodePrediction, forecast_at
from slackwater.contract.kubernetes_pod import Pod
from slackwater.model.cgroup import CgroupReading, CgroupRef, CpuPressure, CpuTimes, Level, Tier
from slackwater.model.cpus import KubeletCpus
from slackwater.model.decision import CpuPlacement
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.knob import CPUS, WEIGHT, KnobKey
from slackwater.model.metric import Samples
from slackwater.model.needs import EACH_TICK, TIERS, Needs, ReadingField
from slackwater.model.node_resource import NodeResources
from slackwater.model.plan import CommandProgress
from slackwater.model.snapshot import (
    Freshness,
    Held,
    NodeSnapshot,
    WritePrecision,
    find_changed_held,
)
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import WeightFormula
from slackwater.observation.cgroups.tree import CgroupTree, Depth, Scan
from slackwater.observation.cgroups.weight_formula import FormulaWatch
from slackwater.observation.cpu_inventory import CpuInventory
from slackwater.observation.detection.kubepods import pod_uids_in, trees_below
from slackwater.observation.host import NodeUsageMeter
from slackwater.observation.kubelet_pins import find_pinned
from slackwater.observation.metrics.collector import MetricCollector
from slackwater.observation.metrics.exclusive_cpus import find_sets_held_alone
from slackwater.observation.metrics.tick_view import view_of
from slackwater.observation.objects.workload_matching import Matching
from slackwater.observation.probes.object_sources import ObjectSources
from slackwater.observation.rates import Rates

#: A foreign write is noticed within so many ticks.
TURN = 30


class Wanted(msgspec.Struct, frozen=True):
    """One level's fields, apart: those of each tick and those in turn."""

    all: frozenset[ReadingField]
    fast: frozenset[ReadingField]
    slow: frozenset[ReadingField]


def wanted(fields: frozenset[ReadingField]) -> Wanted:
    return Wanted(fields, fields & EACH_TICK, fields - EACH_TICK)


class SlowReadings:
    """Guards the last reading of each group. A group that reads as before has the same reading
    object again, so that whoever compares by identity need not look at it."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._last: dict[int, CgroupReading] = {}
        #: The knobs that were read, by group; none where only counters were.
        self._fields: dict[int, frozenset[ReadingField]] = {}

    def read(self, ref: CgroupRef, wants: Wanted, at: Micros, due: bool) -> CgroupReading:
        """Counters of now, knobs of now or of a while ago."""
        last = self._last.get(ref.id)
        if last is None or (wants.slow and (due or not wants.slow <= self._fields[ref.id])):
            found = self._tree.read(ref, wants.all, at)
            self._fields[ref.id] = wants.slow
            if last is not None and _says_the_same(last, found):
                return last
        elif not wants.fast:
            if last.times is NOT_ASKED and last.pressure is NOT_ASKED:
                return last
            # Those of the last reading are of another time, and nobody asks for them now.
            found = _with_counters(last, at, NOT_ASKED, NOT_ASKED, knobs=True)
        else:
            times, pressure = self._tree.counters(ref, wants.fast, last.quota)
            knobs = bool(wants.slow) and times is not VANISHED
            same = times is last.times and pressure == last.pressure
            if same and (knobs or not self._fields[ref.id]):
                return last
            found = _with_counters(last, at, times, pressure, knobs=knobs)
            if not knobs:  # they are read anew when they are asked for
                self._fields[ref.id] = frozenset()
        self._last[ref.id] = found
        return found

    def keep(self, living: frozenset[int]) -> None:
        """Forgets all other groups."""
        for gone in self._last.keys() - living:
            del self._last[gone], self._fields[gone]


def _with_counters(
    last: CgroupReading,
    at: Micros,
    times: CpuTimes | Gap,
    pressure: CpuPressure | Gap,
    *,
    knobs: bool,
) -> CgroupReading:
    """`knobs`: whether those of the last reading still count."""
    if not knobs:
        return CgroupReading(last.ref, at, times, pressure=pressure)
    return CgroupReading(
        last.ref, at, times, last.quota, last.burst, last.weight, last.idle, last.cpus,
        pressure, last.others,
    )  # fmt: skip


def _says_the_same(one: CgroupReading, other: CgroupReading) -> bool:
    """Whatever the time of the reading."""
    return one is other or (
        one.times == other.times
        and one.quota == other.quota
        and one.burst == other.burst
        and one.weight == other.weight
        and one.idle == other.idle
        and one.cpus == other.cpus
        and one.pressure == other.pressure
        and one.others == other.others
    )


#: What is read of a group with a knob of ours, whoever needs it.
_HELD_ABOVE = frozenset({ReadingField.TIMES, ReadingField.QUOTA})
_HELD_BELOW = frozenset({ReadingField.QUOTA})
_TIMES = frozenset({ReadingField.TIMES})
_DEFAULT = WeightFormula.LINEAR
_UNMEASURED = Gap("metrics are not measured here")
_NO_CPUS = Gap("the machine's CPUs are not looked at here")
_SLOW_LEVELS = frozenset({Level.POD, Level.CONTAINER})


def read_of_held(level: Level) -> frozenset[ReadingField]:
    """Of a pod or a container only its quota, in turn: what it uses is read for whoever needs it,
    and that it is gone shows by its directory."""
    return _HELD_BELOW if level in _SLOW_LEVELS else _HELD_ABOVE


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
    in_flight: tuple[CommandProgress, ...] = ()
    #: What the Node object says besides its CPU, and the predictions of its use.
    node_resources: NodeResources = NodeResources()
    predictions: tuple[NodePrediction, ...] = ()
    #: What describes the sources of metrics that have to be asked.
    ensurance: EnsuranceObjects = NO_OBJECTS
    #: Who got which CPUs in the last tick.
    placement: CpuPlacement | Gap | None = None
    #: By cgroup id, why its CPUs could not be written.
    refused_cpus: Mapping[int, str] = {}


class _ReadingPlan(msgspec.Struct, frozen=True):
    """What is read of which group, worked out once: it depends on nothing but these three, and on
    the third only by which knobs are ours."""

    scan: Scan
    needs: Needs
    held: tuple[Held, ...]
    #: Groups that are read at each tick.
    each_tick: tuple[tuple[CgroupRef, Wanted], ...]
    #: Groups of which only knobs are read, by the tick of the turn in which they are due.
    in_turn: tuple[tuple[tuple[CgroupRef, Wanted], ...], ...]
    #: The latter by id.
    slow: dict[int, tuple[CgroupRef, Wanted]]
    #: The turn of the groups with counters, by id, in which their knobs are due.
    turns: dict[int, int]
    tiers: dict[Tier, CgroupRef]
    weights_held: frozenset[int]
    counts_containers: bool
    #: Whether CPUs of a group are ours: then nothing may start unseen.
    binds_cpus: bool


def _plan_readings(scan: Scan, needs: Needs, held: tuple[Held, ...]) -> _ReadingPlan:
    ours_ids = {each.ref.id for each in held}
    plain = {level: wanted(needs.at(level)) for level in Level}
    ours = {level: wanted(needs.at(level) | read_of_held(level)) for level in Level}
    each_tick: list[tuple[CgroupRef, Wanted]] = []
    in_turn: list[list[tuple[CgroupRef, Wanted]]] = [[] for _ in range(TURN)]
    turns: dict[int, int] = {}
    for place, ref in enumerate(scan.refs):
        wants = (ours if ref.id in ours_ids else plain)[ref.level]
        if not wants.all:
            continue
        if wants.fast or ref.level not in _SLOW_LEVELS:
            each_tick.append((ref, wants))
            turns[ref.id] = place % TURN
        else:
            in_turn[place % TURN].append((ref, wants))
    return _ReadingPlan(
        scan,
        needs,
        held,
        tuple(each_tick),
        tuple(map(tuple, in_turn)),
        {ref.id: (ref, wants) for row in in_turn for ref, wants in row},
        turns,
        {ref.tier: ref for ref in scan.refs if ref.level is Level.TIER},
        frozenset(each.ref.id for each in held if each.knob == WEIGHT.name),
        ReadingField.TIMES in needs.at(Level.CONTAINER),
        any(each.knob == CPUS.name for each in held),
    )


class Surveyor:
    """Guards the tree, the meter and the readings before."""

    def __init__(
        self,
        tree: CgroupTree,
        meter: NodeUsageMeter,
        collector: MetricCollector | None = None,
        wall_clock: Callable[[], float] = time.time,
        sources: ObjectSources | None = None,
        cpus: CpuInventory | None = None,
    ) -> None:
        """Without a collector metrics that somebody asks for are Gaps, and so is the topology
        without an inventory. `sources` are those that the collector asks."""
        self._tree = tree
        self._meter = meter
        self._collector = collector
        self._sources = sources
        self._cpus = cpus
        self._wall_clock = wall_clock
        self._slow = SlowReadings(tree)
        self._formulas = FormulaWatch(tree)
        self._matching = Matching()
        self._plan: _ReadingPlan | None = None
        self._readings_before: dict[int, CgroupReading] = {}
        self._depth: tuple[tuple[Held, ...], Needs, Depth] | None = None
        self._rates = Rates()
        self._before: Micros | None = None

    def close_snapshot(self, tick: int, at: Micros, known: SnapshotInputs) -> NodeSnapshot | Gap:
        """A Gap where the tree itself is gone."""
        self._tree.look_to(self._depth_of(known))
        usage = self._meter.read()
        self._look_around()
        scan = self._tree.refresh()
        kubepods = next((ref for ref in scan.refs if ref.level is Level.NODE), None)
        if kubepods is None:
            return Gap("the kubelet's tree is gone")
        plan, readings = self._read(tick, at, known, scan)
        formulas = self._formulas_of(at, known, plan)
        elapsed = Micros(at - self._before) if self._before is not None else Micros(0)
        self._before = at
        snapshot = NodeSnapshot(
            tick=tick,
            at=at,
            elapsed=elapsed,
            allocatable=known.allocatable,
            usage=self._rates.of_node(usage, at),
            kubepods=kubepods,
            tiers=plan.tiers,
            workloads=self._matching.match(known.pods, scan.refs),
            readings=readings,
            rates=self._rates.of_groups(readings, at),
            pressure=self._pressure(known.needs),
            held=known.held,
            off=known.off,
            precision=known.precision,
            early=known.early,
            version=self._tree.version,
            pod_formula=formulas[0],
            container_formula=formulas[1],
            sources=dict(known.sources),
            in_flight=known.in_flight,
            node_resources=known.node_resources,
            refused_cpus={id_: why for id_, why in known.refused_cpus.items() if id_ in readings},
        )
        return self._with_metrics(self._with_cpus(snapshot, known.needs), known)

    def _look_around(self) -> None:
        """What the link counts of pods, in turns, do not show."""
        plan = self._plan
        if plan is not None and plan.binds_cpus:
            self._tree.look_at_everything()
        elif plan is not None and not plan.counts_containers:
            self._tree.look_at_containers()

    def _with_cpus(self, seen: NodeSnapshot, needs: Needs) -> NodeSnapshot:
        """The same snapshot where nobody asks for them."""
        if not needs.topology:
            return seen
        if self._cpus is None:
            return msgspec.structs.replace(seen, topology=_NO_CPUS, kubelet_cpus=_NO_CPUS)
        found = self._cpus.read(seen.at)
        kubelet = found.kubelet
        if isinstance(kubelet, KubeletCpus) and not found.knows_assigned():
            kubelet = KubeletCpus(kubelet.policy, find_pinned(seen.workloads, seen.readings))
        return msgspec.structs.replace(
            seen,
            topology=found.topology,
            reserved_cpus=found.reserved,
            kubelet_cpus=kubelet,
        )

    def _with_metrics(self, seen: NodeSnapshot, known: SnapshotInputs) -> NodeSnapshot:
        """The same snapshot where nobody asks for any."""
        requests = known.needs.metrics
        if self._collector is None:
            gaps: dict[str, Samples | Gap] = {each.key.title(): _UNMEASURED for each in requests}
            return msgspec.structs.replace(seen, metrics=gaps) if gaps else seen
        if not requests:
            self._collector.close()
            return seen
        if self._sources is not None:
            self._sources.update(known.ensurance, seen.workloads)
        view = view_of(seen, find_sets_held_alone(seen, known.placement))
        wall_time = int(self._wall_clock())
        return msgspec.structs.replace(
            seen,
            metrics=self._collector.collect(seen.at, requests, view),
            wall_time=wall_time,
            forecast=forecast_at(known.predictions, wall_time),
        )

    def _depth_of(self, known: SnapshotInputs) -> Depth:
        """Worked out again where what is ours, or needed, changed: hundreds of knobs may be."""
        kept = self._depth
        same = kept is not None and find_changed_held(kept[0], known.held) is not None
        depth = kept[2] if kept and same and kept[1] == known.needs else depth_of(known)
        self._depth = (known.held, known.needs, depth)
        return depth

    def _pressure(self, needs: Needs) -> CpuPressure | Gap:
        asked = ReadingField.PRESSURE in needs.at(Level.NODE)
        return self._meter.read_pressure() if asked else NOT_ASKED

    def _formulas_of(
        self, at: Micros, known: SnapshotInputs, plan: _ReadingPlan
    ) -> tuple[WeightFormula, WeightFormula]:
        """Of pods and of containers, where somebody needs weights; the kubelet's own formula
        until there is evidence."""
        if not any(ReadingField.WEIGHT in known.needs.at(level) for level in _SLOW_LEVELS):
            return _DEFAULT, _DEFAULT
        found = self._formulas.formulas(plan.scan, known.allocatable, plan.weights_held, at)
        pods = _DEFAULT if isinstance(found.pods, Gap) else found.pods
        return pods, _DEFAULT if isinstance(found.containers, Gap) else found.containers

    def _read(
        self, tick: int, at: Micros, known: SnapshotInputs, scan: Scan
    ) -> tuple[_ReadingPlan, dict[int, CgroupReading]]:
        """Tiers whole at each tick; below them the knobs in turn. Under the plan of the tick before
        only what is due is looked at: everything else is as it was then."""
        plan, turn = self._plan, tick % TURN
        found: dict[int, CgroupReading] = {}
        if (
            plan is not None
            and plan.scan is scan
            and plan.needs == known.needs
            and find_changed_held(plan.held, known.held) is not None
        ):
            self._plan = plan = msgspec.structs.replace(plan, held=known.held)
            found = self._readings_before.copy()
            due = [*plan.in_turn[turn], *(plan.slow[i] for i in known.written if i in plan.slow)]
        else:
            if plan is None or plan.scan is not scan:
                self._slow.keep(frozenset(ref.id for ref in scan.refs))
            self._plan = plan = _plan_readings(scan, known.needs, known.held)
            counted = (ref.id for ref, wants in plan.each_tick if wants.fast)
            self._tree.keep_counters(frozenset(counted))
            due = list(plan.slow.values())
        for ref, wants in plan.each_tick:
            now = (
                plan.turns[ref.id] == turn
                or ref.level not in _SLOW_LEVELS
                or ref.id in known.written
            )
            found[ref.id] = self._slow.read(ref, wants, at, now)
        in_turn = {ref.id for ref, _ in plan.in_turn[turn]}
        for ref, wants in due:
            now = ref.id in in_turn or ref.id in known.written
            found[ref.id] = self._slow.read(ref, wants, at, now)
        self._readings_before = found
        return plan, found

    def start_counters(self, at: Micros, needs: Needs) -> None:
        """Reads the counters that will be asked for and have not been so far, so that the next
        snapshot has rates of them."""
        if self._plan is None:
            return
        started: dict[int, CpuTimes] = {}
        for ref in self._plan.scan.refs:
            known = self._readings_before.get(ref.id)
            if ReadingField.TIMES in needs.at(ref.level) and (
                known is None or known.times is NOT_ASKED
            ):
                times, _ = self._tree.counters(ref, _TIMES, NOT_ASKED)
                if not isinstance(times, Gap):
                    started[ref.id] = times
        self._rates.start(started, at)

    def protected(self) -> tuple[CgroupRef, ...]:
        """The groups that best-effort work must not hurt, as of the last snapshot."""
        return self._tree.protected()

    def close(self) -> None:
        self._tree.close()
        self._meter.close()
        if self._collector is not None:
            self._collector.close()


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

    def start_counters(self, at: Micros, needs: Needs) -> None: ...

    def close(self) -> None: ...


class TreeGuard:
    """Stands before a sight. Sees nothing while another tree has this node's pods and the one that
    was taken has none; once it had one it is right for good: uids are nobody else's."""

    def __init__(self, snapshot_reader: SnapshotReader, top: str, taken: str) -> None:
        self._sight = snapshot_reader
        self._top = top
        self._taken = taken
        self._sure = False

    def close_snapshot(self, tick: int, at: Micros, known: SnapshotInputs) -> NodeSnapshot | Gap:
        doubt = None if self._sure else self._doubt(known.pods)
        return doubt or self._sight.close_snapshot(tick, at, known)

    def start_counters(self, at: Micros, needs: Needs) -> None:
        self._sight.start_counters(at, needs)

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
