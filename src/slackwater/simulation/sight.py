"""Closes snapshots of a simulated node, by the rules of observation.survey.

Owns what a surveyor has on a real node: the readings before. Reads what is asked for and leaves
the rest as gaps, so that a policy that forgot to ask fails here as it would there.
"""

from slackwater.model.cgroup import CgroupReading, CgroupRef, Level
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import BURST, CPUS, IDLE, KNOBS, QUOTA, WEIGHT
from slackwater.model.machine import NodeUsage
from slackwater.model.needs import Field
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, Unlimited
from slackwater.observation.cgroups.tree import Depth
from slackwater.observation.objects.workload_matching import Matching
from slackwater.observation.rates import Rates
from slackwater.observation.survey import HELD, Known, depth_of
from slackwater.simulation.fake_kernel import FakeKernel

_BLIND = Gap("the scenario hides the node's usage")
#: Knobs without a field of their own in a reading.
_OTHERS = {
    Field(knob.name): knob for knob in KNOBS if knob not in (QUOTA, BURST, WEIGHT, IDLE, CPUS)
}
_NOTHING: frozenset[Field] = frozenset()


class KernelSight:
    """Guards the readings before. One that was made anew has seen nothing yet."""

    def __init__(self, kernel: FakeKernel, kubepods: CgroupRef) -> None:
        self._kernel = kernel
        self._kubepods = kubepods
        self._rates = Rates()
        self._before: Micros | None = None
        self._listed: tuple[CgroupRef, ...] = ()
        self._shown: dict[Depth, tuple[CgroupRef, ...]] = {}
        self._matching = Matching()
        #: Until then the node's usage cannot be read.
        self.blind_until = Micros(0)

    def close_snapshot(self, tick: int, at: Micros, known: Known) -> NodeSnapshot | Gap:
        if not self._kernel.lives(self._kubepods):
            return Gap("the kubelet's tree is gone")
        refs = self._refs(depth_of(known))
        held = {each.ref.id for each in known.held}
        readings = {
            ref.id: self._read(ref, wants, at)
            for ref in refs
            if (wants := known.needs.at(ref.level) | (HELD if ref.id in held else _NOTHING))
        }
        elapsed = Micros(0 if self._before is None else at - self._before)
        self._before = at
        return NodeSnapshot(
            tick=tick,
            at=at,
            elapsed=elapsed,
            allocatable=known.allocatable,
            usage=self._rates.of_node(self._usage(at), at),
            kubepods=self._kubepods,
            tiers={ref.tier: ref for ref in refs if ref.level is Level.TIER},
            workloads=self._matching.match(known.pods, refs),
            readings=readings,
            rates=self._rates.of_groups(readings.values()),
            held=known.held,
            off=known.off,
            precision=known.precision,
            early=known.early,
            version=self._kernel.version(QUOTA),
        )

    def close(self) -> None:
        """Nothing is open."""

    def _usage(self, at: Micros) -> NodeUsage | Gap:
        return _BLIND if at < self.blind_until else self._kernel.node_usage()

    def _refs(self, depth: Depth) -> tuple[CgroupRef, ...]:
        """The kubelet's tree as far down as that; kept while it does not change."""
        listed = self._kernel.refs()
        if listed is not self._listed:
            self._listed, self._shown = listed, {}
        if depth not in self._shown:
            inside = f"{self._kubepods.path}/"
            below = (ref for ref in listed if ref.path.startswith(inside) and depth.shows(ref))
            self._shown[depth] = (self._kubepods, *below)
        return self._shown[depth]

    def _read(self, ref: CgroupRef, wants: frozenset[Field], at: Micros) -> CgroupReading:
        full = self._kernel.reading(ref, at)
        if isinstance(full, Gap):
            return CgroupReading(ref, at, full, full, full, full, full, full, full)
        return CgroupReading(
            ref=ref,
            at=at,
            times=full.times if Field.TIMES in wants else NOT_ASKED,
            quota=full.quota if Field.QUOTA in wants else NOT_ASKED,
            burst=full.burst if Field.BURST in wants else NOT_ASKED,
            weight=full.weight if Field.WEIGHT in wants else NOT_ASKED,
            idle=full.idle if Field.IDLE in wants else NOT_ASKED,
            cpus=full.cpus if Field.CPUS in wants else NOT_ASKED,
            pressure=full.pressure if Field.PRESSURE in wants else NOT_ASKED,
            others=self._others(ref, wants) if not wants.isdisjoint(_OTHERS) else {},
        )

    def _others(self, ref: CgroupRef, wants: frozenset[Field]) -> dict[str, int | Unlimited | Gap]:
        values = {k.name: self._kernel.read(ref, k) for f, k in _OTHERS.items() if f in wants}
        return {
            name: value
            if isinstance(value, int | Unlimited | Gap)
            else Gap(f"{value} is no number")
            for name, value in values.items()
        }
