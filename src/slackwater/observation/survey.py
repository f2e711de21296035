"""Closes one snapshot: reads what the enabled policies need, at the level that they need.

Owns the order of reading: the node first and the tiers right after it, so that what is
subtracted from each other was read together.
"""

from collections.abc import Mapping, Sequence

import msgspec

from slackwater.contract.kubernetes_pod import Pod
from slackwater.model.cgroup import CgroupReading, CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import WEIGHT
from slackwater.model.needs import TIERS, Field, Needs
from slackwater.model.snapshot import Freshness, Held, NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import WeightFormula
from slackwater.observation.cgroup_tree import CgroupTree, Depth, Scan
from slackwater.observation.node_usage import NodeUsageMeter
from slackwater.observation.rates import Rates
from slackwater.observation.slow_readings import TURN, SlowReadings, wanted
from slackwater.observation.weight_formula import FormulaWatch
from slackwater.observation.workloads import Matching

#: What is read of a knob that is ours, whoever needs it.
HELD = frozenset({Field.TIMES, Field.QUOTA})
_DEFAULT = WeightFormula.LINEAR
_SLOW_LEVELS = frozenset({Level.POD, Level.CONTAINER})


class Known(msgspec.Struct, frozen=True):
    """What a snapshot takes from elsewhere: the node's size, its pods, and what is ours; and
    what it is wanted for. `early` is a look before its time, woken by pressure."""

    allocatable: MilliCpu | Gap
    pods: Sequence[Pod] = ()
    held: tuple[Held, ...] = ()
    off: frozenset[str] = frozenset()
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

    def close_snapshot(self, tick: int, at: Micros, known: Known) -> NodeSnapshot | Gap:
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
            held=known.held,
            off=known.off,
            early=known.early,
            version=self._tree.version,
            pod_formula=formulas[0],
            container_formula=formulas[1],
            sources=dict(known.sources),
        )

    def _formulas_of(
        self, at: Micros, known: Known, scan: Scan
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
        self, tick: int, at: Micros, known: Known, scan: Scan
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


def depth_of(known: Known) -> Depth:
    """As far down as somebody needs, and as something of ours is."""
    levels = {each.ref.level for each in known.held} | known.needs.fields.keys()
    if Level.CONTAINER in levels:
        return Depth.CONTAINERS
    return Depth.PODS if Level.POD in levels else Depth.TIERS
