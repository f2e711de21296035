"""The same phases on the simulated kernel, for machines whose cgroups cannot be written.

Each phase is a scenario with a larger service on four CPUs, so that it can lose some. Instead of
latency it measures CPU time that the service wanted and did not get. The agent is the real one.
"""

from pathlib import Path

from slackwater.demo.demo_plan import CALM, THRESHOLD, BatchControl, DemoPhase
from slackwater.demo.measurements import (
    AgentEntry,
    CpuUse,
    PhaseMeasurement,
    PhaseProgress,
    PhaseSample,
    ProgressObserver,
)
from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Percent, Unlimited
from slackwater.observation.objects.object_set import Objects
from slackwater.policies import best_effort_share
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.record.journal import JournalEntry, TickRecord
from slackwater.settings.agent_document import Settings
from slackwater.simulation.demand import Spike, Steady
from slackwater.simulation.scenario import Scenario, ScenarioPod
from slackwater.simulation.simulation_run import Simulation

CPUS = 4
_CALM, _BUSY, _REQUEST = MilliCpu(800), MilliCpu(3000), MilliCpu(3000)
_DEFAULT_SHARES = 1024
_MICROS = 1_000_000


def run_simulated(
    phase: DemoPhase, seconds: float, folder: Path, watch: ProgressObserver
) -> PhaseMeasurement:
    """One phase; `seconds` are simulated, and pass in an instant."""
    state = folder / phase.name
    state.mkdir(parents=True)
    simulation = Simulation(make_scenario(phase, seconds), str(state))
    try:
        if phase.control is BatchControl.DEFAULT_WEIGHT:
            for ref in simulation.node.tiers.values():
                simulation.node.put(ref, WEIGHT, _DEFAULT_SHARES)
        return _SimulatedPhase(simulation, phase, seconds, watch).run()
    finally:
        simulation.release()
        simulation.close()


def make_scenario(phase: DemoPhase, seconds: float) -> Scenario:
    length = Micros(round(seconds * _MICROS))
    busy_from = Micros(round(length * CALM.share))
    demand = Spike(busy_from, _BUSY, Micros(length - busy_from), _CALM)
    pods = [ScenarioPod("service", Tier.BURSTABLE, demand, _REQUEST)]
    if phase.control is not BatchControl.ABSENT:
        pods.append(ScenarioPod("hog", Tier.BESTEFFORT, Steady(MilliCpu(1000 * CPUS))))
    share = BestEffortShareSettings(
        enabled=phase.control is BatchControl.BEST_EFFORT_SHARE, threshold=Percent(THRESHOLD)
    )
    return Scenario(
        phase.name, CgroupVersion.V1, CPUS, length, tuple(pods),
        objects=Objects(settings=Settings(policies={best_effort_share.NAME: share})),
    )  # fmt: skip


class _SimulatedPhase:
    """A phase that runs: its samples, and the counters at the last one."""

    def __init__(
        self, simulation: Simulation, phase: DemoPhase, seconds: float, watch: ProgressObserver
    ) -> None:
        self._simulation = simulation
        self._phase = phase
        self._seconds = seconds
        self._watch = watch
        self._before = self._read_counters()
        self._last_quota = self._quota()
        self._samples: list[PhaseSample] = []
        self._lines: list[AgentEntry] = []

    def run(self) -> PhaseMeasurement:
        self._simulation.run(self._on_round)
        self._sample()
        first = Micros(0), 0.0, 0.0, 0.0
        return PhaseMeasurement(
            self._phase, self._seconds, self._use(first, self._before), tuple(self._samples),
            lines=tuple(self._lines),
        )  # fmt: skip

    def _on_round(self, at: Micros, done: TickRecord | Gap) -> None:
        self._sample()
        if isinstance(done, TickRecord):
            self._lines += [
                _agent_entry(entry, at) for entry in done.entries if entry.event is None
            ]
        self._watch(
            PhaseProgress(
                self._phase, at / _MICROS, self._seconds,
                sample=self._samples[-1] if self._samples else None, lines=tuple(self._lines),
                unit="simulated s",
            )
        )  # fmt: skip

    def _sample(self) -> None:
        now = self._read_counters()
        before, self._before = self._before, now
        # What a tick just wrote applies from now on.
        quota, self._last_quota = self._last_quota, self._quota()
        length = (now[0] - before[0]) / _MICROS
        if length <= 0:
            return
        use, lost = self._use(before, now), (now[3] - before[3]) / length
        at, until = before[0] / _MICROS, now[0] / _MICROS
        self._samples.append(PhaseSample(at, until, use, quota, round(lost, 4)))

    def _read_counters(self) -> tuple[Micros, float, float, float]:
        """The time; service and hog, and what the service lost, in CPU seconds so far."""
        tiers, kernel = self._simulation.node.tiers, self._simulation.kernel
        lost = kernel.lost(tiers[Tier.BURSTABLE])
        return (
            kernel.now,
            self._used(tiers[Tier.BURSTABLE]),
            self._used(tiers[Tier.BESTEFFORT]),
            0.0 if isinstance(lost, Gap) else lost / _MICROS,
        )

    def _used(self, ref: CgroupRef) -> float:
        times = self._simulation.kernel.times(ref)
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
        found = self._simulation.kernel.read(self._simulation.node.tiers[Tier.BESTEFFORT], QUOTA)
        milli = found.milli() if isinstance(found, Bandwidth) else None
        return None if milli is None or isinstance(milli, Unlimited) else milli / 1000


def _agent_entry(entry: JournalEntry, at: Micros) -> AgentEntry:
    return AgentEntry(at / _MICROS, entry.what, entry.before, entry.after, entry.because)
