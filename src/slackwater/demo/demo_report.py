"""The demo's result as one value: what the table shows, the picture draws and scripts read.

Its keys are described in docs/reference/demo.md. The sentences say what the numbers mean.
"""

from collections.abc import Sequence

import msgspec

from slackwater.demo.demo_plan import (
    ALONE,
    BUSY,
    CALM,
    DEFAULT_WEIGHT,
    KUBELET,
    SLACKWATER,
    THRESHOLD,
    PhaseTitle,
)
from slackwater.demo.measurements import (
    AgentEntry,
    CpuUse,
    LatencyBin,
    Noise,
    Percentiles,
    PhaseMeasurement,
    PhaseSample,
    find_percentiles,
    latency_bins,
)
from slackwater.settings.setting import API_VERSION

KIND = "DemoReport"
#: More foreign work or steal than this, in CPUs, and the latencies say little.
NOISY = 0.15
#: Whatever the numbers are: a person who sees the weight do all the work asks.
WHY_A_QUOTA = (
    "A weight only divides a CPU that two want at once. A quota bounds what it cannot: caches, "
    "hyper-threads, power, and how much batch work grows used to."
)
#: Seconds for each point of the latency curve.
_BIN = 1.0


class MachineSummary(msgspec.Struct, frozen=True, rename="camel"):
    """The machine. `simulated_because` is null on real cgroups; `request_milliseconds`, the CPU
    time of one request, is null in a simulation."""

    cpus: int
    model: str | None
    kernel: str
    cgroup: str | None
    simulated_because: str | None = None
    request_milliseconds: float | None = None


class LoadDescription(msgspec.Struct, frozen=True, rename="camel"):
    """The service's own load in CPUs, and the agent's threshold in percent."""

    calm: float = CALM.load
    busy: float = BUSY.load
    calm_share: float = CALM.share
    threshold: int = THRESHOLD


class UnmetDemand(msgspec.Struct, frozen=True, rename="camel"):
    """What the service wanted and did not get, in CPUs: on average, and in the worst sample."""

    mean: float
    worst: float


class PhaseReport(PhaseTitle, frozen=True, rename="camel"):
    """`latency` and `noise` are null in a simulation, `lost` is null in reality. `utilisation` is
    the busy part of the node, 0 to 1."""

    seconds: float
    requests: int
    unanswered: int
    latency: Percentiles | None
    lost: UnmetDemand | None
    cpu: CpuUse
    utilisation: float
    noise: Noise | None
    samples: tuple[PhaseSample, ...]
    curve: tuple[LatencyBin, ...]


class DemoReport(msgspec.Struct, frozen=True, rename="camel"):
    """`agent` has the agent's entries of the last phase; `warning` is empty if the machine was
    quiet, `meaning` where it was not: nothing follows then. `pictures` are the files written."""

    machine: MachineSummary
    load: LoadDescription
    phases: tuple[PhaseReport, ...]
    agent: tuple[AgentEntry, ...]
    meaning: tuple[str, ...]
    warning: str = ""
    pictures: tuple[str, ...] = ()
    api_version: str = API_VERSION
    kind: str = KIND

    def phase(self, name: str) -> PhaseReport:
        return next(phase for phase in self.phases if phase.name == name)


def make_report(about: MachineSummary, measured: Sequence[PhaseMeasurement]) -> DemoReport:
    phases = tuple(make_phase_report(each, about.cpus) for each in measured)
    said = tuple(line for each in measured for line in each.lines)
    noisy = noise_warning(phases)
    return DemoReport(
        about, LoadDescription(), phases, said, () if noisy else meaning(phases), noisy
    )


def make_phase_report(measured: PhaseMeasurement, cpus: int) -> PhaseReport:
    phase, cpu = measured.phase, measured.cpu
    return PhaseReport(
        name=phase.name,
        title=phase.title,
        hint=phase.hint,
        seconds=measured.seconds,
        requests=len(measured.answers),
        unanswered=sum(not answer.ok for answer in measured.answers),
        latency=find_percentiles(measured.answers),
        lost=_measure_unmet_demand(measured.samples),
        cpu=cpu,
        utilisation=round((cpu.service + cpu.hog + cpu.other) / cpus, 4),
        noise=measured.noise,
        samples=measured.samples,
        curve=latency_bins(measured.answers, _BIN),
    )


def _measure_unmet_demand(samples: Sequence[PhaseSample]) -> UnmetDemand | None:
    known = [(s.lost, s.until - s.at) for s in samples if s.lost is not None]
    if not known:
        return None
    mean = sum(lost * length for lost, length in known) / sum(length for _, length in known)
    return UnmetDemand(round(mean, 4), round(max(lost for lost, _ in known), 4))


def meaning(phases: Sequence[PhaseReport]) -> tuple[str, ...]:
    """What it means, and what it cost, in plain words; nothing where a phase is missing."""
    by_name = {phase.name: phase for phase in phases}
    wanted = (ALONE, DEFAULT_WEIGHT, KUBELET, SLACKWATER)
    found = [by_name[phase.name] for phase in wanted if phase.name in by_name]
    if len(found) < len(wanted):
        return ()
    alone, default, kubelet, ours = found
    won = (
        f"{_describe_harm(alone, default)}; {_describe_protection(alone, ours)}, while batch used "
        f"{ours.cpu.hog:.2f} CPUs{_describe_utilisation(alone, ours)}."
    )
    cost = (
        f"The kubelet's weight alone: {_describe_service(kubelet)}, "
        f"batch {kubelet.cpu.hog:.2f} CPUs. "
        f"Slackwater also bounds batch to what others leave of {THRESHOLD} % of the node, which "
        f"{_describe_cost(kubelet, ours)}."
    )
    return won, cost


def _describe_utilisation(alone: PhaseReport, ours: PhaseReport) -> str:
    now, before = (f"{100 * phase.utilisation:.0f} %" for phase in (ours, alone))
    return "" if now == before else f": the node was {now} busy instead of {before}"


def _describe_harm(alone: PhaseReport, default: PhaseReport) -> str:
    if alone.latency is None or default.latency is None:
        lost = default.lost.mean if default.lost else 0.0
        return f"At the default weight batch took {lost:.2f} CPUs that the service wanted"
    before, after = (
        format_milliseconds(each.latency.p90) for each in (alone, default) if each.latency
    )
    times = _format_ratio(default.latency.p90, alone.latency.p90)
    if times is None:
        return f"At the default weight batch did not harm the service's p90 here ({after})"
    return f"At the default weight batch made the service's p90 {times} ({before} → {after})"


def _describe_protection(alone: PhaseReport, ours: PhaseReport) -> str:
    if alone.latency is None or ours.latency is None:
        lost = ours.lost.mean if ours.lost else 0.0
        return f"with Slackwater the service lost {lost:.2f}"
    times = _format_ratio(ours.latency.p90, alone.latency.p90) or "as it was"
    return f"with Slackwater it is {times} ({format_milliseconds(ours.latency.p90)})"


def _describe_service(phase: PhaseReport) -> str:
    if phase.latency is None:
        return f"the service lost {phase.lost.mean if phase.lost else 0.0:.2f} CPUs"
    return f"p90 {format_milliseconds(phase.latency.p90)}"


def _describe_cost(kubelet: PhaseReport, ours: PhaseReport) -> str:
    less = kubelet.cpu.hog - ours.cpu.hog
    if less < 0.005:
        return "cost batch nothing here"
    return f"cost batch {less:.2f} CPUs"


def noise_warning(phases: Sequence[PhaseReport]) -> str:
    """Empty where the machine was quiet."""
    worst = max((max(p.noise.steal, p.noise.foreign) for p in phases if p.noise), default=0.0)
    if worst <= NOISY:
        return ""
    return (
        f"This machine was not quiet: other work or the hypervisor took up to {worst:.2f} CPUs, "
        "so do not trust these latencies."
    )


def _format_ratio(value: float, base: float) -> str | None:
    """None if the two are equal when rounded."""
    if not base:
        return "longer" if value else None
    times = f"{value / base:.1f}"
    return None if times == "1.0" else f"{times}× as long"


def format_milliseconds(value: float) -> str:
    """Three digits at most, as people say them."""
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"
