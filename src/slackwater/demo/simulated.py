"""The same phases on the simulated kernel, for machines whose cgroups cannot be written.

Each phase is a scenario with a larger service on four CPUs, so that it can lose some. Instead of
latency it measures CPU time that the service wanted and did not get, and the latency that the
service exports follows from that. The agent is the real one.
"""

from pathlib import Path

from slackwater.demo.demo_objects import QUANTILE, WHO, describe_objective
from slackwater.demo.demo_plan import (
    BATCH_PODS,
    CALM,
    DEMO_COOL_DOWN,
    OBJECTIVE_RATIO,
    BatchControl,
    DemoPhase,
)
from slackwater.demo.measurements import (
    AgentEntry,
    CpuUse,
    PhaseMeasurement,
    PhaseProgress,
    PhaseSample,
    ProgressObserver,
)
from slackwater.demo.service import HISTOGRAM
from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import IDLE, QUOTA, WEIGHT
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.model.weight import SMALLEST_SHARES
from slackwater.observation.objects.documents import one_document
from slackwater.observation.objects.object_set import Objects, with_object
from slackwater.record.journal import JournalEntry, TickRecord
from slackwater.simulation.demand import Demand, Spike, Steady
from slackwater.simulation.scenario import Scenario, ScenarioMetric, ScenarioPod
from slackwater.simulation.simulation_run import Simulation

CPUS = 4
_CALM, _BUSY, _REQUEST = MilliCpu(800), MilliCpu(3000), MilliCpu(3000)
#: What the service exports, in milliseconds: where it got what it wanted, and where it did not.
_FAST, _SLOW = MilliCpu(8), MilliCpu(24)
#: CPUs that it may lose and still be fast.
_UNNOTICED = 0.05
#: Nothing is asked in a simulation.
_PORT = 8080
_MICROS = 1_000_000


def run_simulated(
    phase: DemoPhase, seconds: float, folder: Path, watch: ProgressObserver
) -> PhaseMeasurement:
    """One phase; `seconds` are simulated, and pass in an instant."""
    state = folder / phase.name
    state.mkdir(parents=True)
    latency = ExportedLatency()
    simulation = Simulation(make_scenario(phase, seconds, latency), str(state))
    latency.follow(simulation)
    try:
        return _SimulatedPhase(simulation, phase, seconds, watch).run()
    finally:
        simulation.release()
        simulation.close()


class ExportedLatency:
    """The service's p90 in milliseconds: slow where it has lost CPU time since the last look."""

    def __init__(self) -> None:
        self._simulation: Simulation | None = None
        self._at, self._lost = Micros(0), 0.0
        self._level = _FAST

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def __call__(self, at: Micros, /) -> MilliCpu:
        if self._simulation is None or at <= self._at:
            return self._level
        lost = _lost(self._simulation)
        slow = lost - self._lost > _UNNOTICED * (at - self._at) / _MICROS
        self._at, self._lost, self._level = at, lost, _SLOW if slow else _FAST
        return self._level

    def holds_until(self, at: Micros, /) -> Micros:
        return Micros(at + 1)


def _lost(simulation: Simulation) -> float:
    """What the service wanted and did not get, in CPU seconds so far."""
    service = simulation.node.group("service")
    lost = service if isinstance(service, Gap) else simulation.kernel.lost(service)
    return 0.0 if isinstance(lost, Gap) else lost / _MICROS


def make_scenario(phase: DemoPhase, seconds: float, latency: Demand) -> Scenario:
    length = Micros(round(seconds * _MICROS))
    busy = Micros(round(length * (1 - CALM.share)))
    pods = [
        ScenarioPod(
            "service", Tier.BURSTABLE, Spike(Micros(0), _BUSY, busy, _CALM), _REQUEST,
            priority=1000,
        )
    ]  # fmt: skip
    if phase.control is not BatchControl.ABSENT:
        pods += [
            ScenarioPod(
                each.name, Tier.BURSTABLE, Steady(MilliCpu(1000 * CPUS)),
                MilliCpu(_REQUEST // len(BATCH_PODS)), labels={"app": "batch"}, priority=-10,
            )
            for each in BATCH_PODS
        ]  # fmt: skip
    objects = Objects()
    metrics: tuple[ScenarioMetric, ...] = ()
    if phase.control is BatchControl.LATENCY_OBJECTIVE:
        objective = OBJECTIVE_RATIO * _FAST / 1000
        rule = describe_objective(_PORT, objective, DEMO_COOL_DOWN)
        for name, text in {**rule, "who.yaml": WHO}.items():
            objects = with_object(objects, one_document(text, name), name)
        metrics = (ScenarioMetric(f"{HISTOGRAM}:{QUANTILE}", latency),)
    return Scenario(
        phase.name, CgroupVersion.V1, CPUS, length, tuple(pods), objects=objects, metrics=metrics
    )


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
        self._last_bounds = self._quota(), self._is_demoted()
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
        (quota, demoted), self._last_bounds = self._last_bounds, (self._quota(), self._is_demoted())
        length = (now[0] - before[0]) / _MICROS
        if length <= 0:
            return
        use, lost = self._use(before, now), (now[3] - before[3]) / length
        at, until = before[0] / _MICROS, now[0] / _MICROS
        self._samples.append(PhaseSample(at, until, use, quota, round(lost, 4), demoted))

    def _read_counters(self) -> tuple[Micros, float, float, float]:
        """The time; service and batch, and what the service lost, in CPU seconds so far."""
        batch = (pod.name for pod in BATCH_PODS)
        return (
            self._simulation.kernel.now,
            sum(self._used(ref) for ref in self._groups("service")),
            sum(self._used(ref) for ref in self._groups(*batch)),
            _lost(self._simulation),
        )

    def _groups(self, *pods: str) -> list[CgroupRef]:
        """Of those that are there."""
        found = (self._simulation.node.group(name) for name in pods)
        return [ref for ref in found if not isinstance(ref, Gap)]

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
        """Of all batch pods together, in CPUs: their containers are throttled."""
        found = [self._quota_of(pod.name) for pod in BATCH_PODS]
        bounded = [milli for milli in found if milli is not None]
        return sum(bounded) / 1000 if len(bounded) == len(found) else None

    def _quota_of(self, name: str) -> int | None:
        kernel = self._simulation.kernel
        values = [
            found.milli()
            for ref in kernel.refs()
            if ref.owner == name and isinstance(found := kernel.read(ref, QUOTA), Bandwidth)
        ]
        return min((each for each in values if not isinstance(each, Unlimited)), default=None)

    def _is_demoted(self) -> bool:
        kernel, batch = self._simulation.kernel, self._groups(*(pod.name for pod in BATCH_PODS))
        return bool(batch) and all(
            kernel.read(ref, IDLE) is True or kernel.read(ref, WEIGHT) == SMALLEST_SHARES
            for ref in batch
        )


def _agent_entry(entry: JournalEntry, at: Micros) -> AgentEntry:
    return AgentEntry(at / _MICROS, entry.what, entry.before, entry.after, entry.because)
