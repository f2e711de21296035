"""The same phases on the simulated kernel, for machines whose cgroups cannot be written.

Owns a scenario for each phase: a larger service on four CPUs, so that it can lose some. What it
shows instead of latency is CPU time that the service wanted and did not get; the agent is real.
"""

from pathlib import Path

from slackwater.demo.measurements import CpuUse, Glimpse, Line, Measured, Sample, Watch
from slackwater.demo.plan import CALM, THRESHOLD, Hold, Phase
from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Percent, Unlimited
from slackwater.observation.objects.object_set import Objects
from slackwater.policies import best_effort_share
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.record.journal import Entry, TickRecord
from slackwater.settings.document import Settings
from slackwater.simulation.demand import Spike, Steady
from slackwater.simulation.scenario import Scenario, ScenarioPod
from slackwater.simulation.simulation_run import Simulation

CPUS = 4
_CALM, _BUSY, _REQUEST = MilliCpu(800), MilliCpu(3000), MilliCpu(3000)
_DEFAULT_SHARES = 1024
_MICROS = 1_000_000


def run_simulated(phase: Phase, seconds: float, folder: Path, watch: Watch) -> Measured:
    """One phase of so many simulated seconds; it takes a blink."""
    state = folder / phase.name
    state.mkdir(parents=True)
    simulation = Simulation(scenario(phase, seconds), str(state))
    try:
        if phase.hold is Hold.DEFAULT_WEIGHT:
            for ref in simulation.node.tiers.values():
                simulation.node.put(ref, WEIGHT, _DEFAULT_SHARES)
        return _Watching(simulation, phase, seconds, watch).run()
    finally:
        simulation.release()
        simulation.close()


def scenario(phase: Phase, seconds: float) -> Scenario:
    length = Micros(round(seconds * _MICROS))
    busy_from = Micros(round(length * CALM.share))
    demand = Spike(busy_from, _BUSY, Micros(length - busy_from), _CALM)
    pods = [ScenarioPod("service", Tier.BURSTABLE, demand, _REQUEST)]
    if phase.hold is not Hold.ABSENT:
        pods.append(ScenarioPod("hog", Tier.BESTEFFORT, Steady(MilliCpu(1000 * CPUS))))
    share = BestEffortShareSettings(
        enabled=phase.hold is Hold.SLACKWATER, threshold=Percent(THRESHOLD)
    )
    return Scenario(
        phase.name, CgroupVersion.V1, CPUS, length, tuple(pods),
        objects=Objects(settings=Settings(policies={best_effort_share.NAME: share})),
    )  # fmt: skip


class _Watching:
    """Guards the counters before the present look."""

    def __init__(self, simulation: Simulation, phase: Phase, seconds: float, watch: Watch) -> None:
        self._life = simulation
        self._phase = phase
        self._seconds = seconds
        self._watch = watch
        self._before = self._look()
        self._standing = self._quota()
        self._samples: list[Sample] = []
        self._lines: list[Line] = []

    def run(self) -> Measured:
        self._life.run(self._see)
        self._sample()
        first = Micros(0), 0.0, 0.0, 0.0
        return Measured(
            self._phase, self._seconds, self._use(first, self._before), tuple(self._samples),
            lines=tuple(self._lines),
        )  # fmt: skip

    def _see(self, at: Micros, done: TickRecord | Gap) -> None:
        self._sample()
        if isinstance(done, TickRecord):
            self._lines += [_line(entry, at) for entry in done.entries if entry.event is None]
        self._watch(
            Glimpse(
                self._phase, at / _MICROS, self._seconds,
                sample=self._samples[-1] if self._samples else None, lines=tuple(self._lines),
                unit="simulated s",
            )
        )  # fmt: skip

    def _sample(self) -> None:
        now = self._look()
        before, self._before = self._before, now
        # What a tick just wrote binds what comes after it.
        quota, self._standing = self._standing, self._quota()
        length = (now[0] - before[0]) / _MICROS
        if length <= 0:
            return
        use, lost = self._use(before, now), (now[3] - before[3]) / length
        at, until = before[0] / _MICROS, now[0] / _MICROS
        self._samples.append(Sample(at, until, use, quota, round(lost, 4)))

    def _look(self) -> tuple[Micros, float, float, float]:
        """The time; service and hog, and what the service lost, in CPU seconds so far."""
        tiers, kernel = self._life.node.tiers, self._life.kernel
        lost = kernel.lost(tiers[Tier.BURSTABLE])
        return (
            kernel.now,
            self._used(tiers[Tier.BURSTABLE]),
            self._used(tiers[Tier.BESTEFFORT]),
            0.0 if isinstance(lost, Gap) else lost / _MICROS,
        )

    def _used(self, ref: CgroupRef) -> float:
        times = self._life.kernel.times(ref)
        return times.usage / _MICROS if isinstance(times, CpuTimes) else 0.0

    def _use(
        self, before: tuple[Micros, float, float, float], now: tuple[Micros, float, float, float]
    ) -> CpuUse:
        length = max(now[0] - before[0], 1) / _MICROS
        service, hog = (now[1] - before[1]) / length, (now[2] - before[2]) / length
        return CpuUse(
            round(service, 4), round(hog, 4), 0.0, round(max(CPUS - service - hog, 0.0), 4)
        )

    def _quota(self) -> float | None:
        found = self._life.kernel.read(self._life.node.tiers[Tier.BESTEFFORT], QUOTA)
        milli = found.milli() if isinstance(found, Bandwidth) else None
        return None if milli is None or isinstance(milli, Unlimited) else milli / 1000


def _line(entry: Entry, at: Micros) -> Line:
    return Line(at / _MICROS, entry.what, entry.before, entry.after, entry.because)
