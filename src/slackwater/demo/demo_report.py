"""The demo's result as one value: what the table shows, the picture draws and scripts read.

Its keys are described in docs/reference/demo.md. The sentences say what the numbers mean.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec

from slackwater.demo.demo_objects import QUANTILE
from slackwater.demo.demo_plan import (
    ALONE,
    CALM,
    DEMO_BUSY,
    DEMO_COOL_DOWN,
    SLACKWATER,
    UNPROTECTED,
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
    RequestResult,
    find_percentiles,
    latency_bins,
    share_above,
)
from slackwater.settings.setting import API_VERSION

KIND = "DemoReport"
#: More foreign work or steal than this, in CPUs, and the latencies say little.
NOISY = 0.15
#: Whatever the numbers are: a person who knows quotas asks.
WHY_DEMOTION = (
    "A quota alone does not protect latency: batch within it still runs when the service wants to. "
    "So a pod is demoted first, which costs it next to nothing, and its quota lowered only where "
    "that is not enough."
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
    """The service's own load in CPUs. Every slice begins busy and ends calm."""

    calm: float = CALM.load
    busy: float = DEMO_BUSY.load
    calm_share: float = CALM.share


class ObjectiveDescription(msgspec.Struct, frozen=True, rename="camel"):
    """What the rule asks for: this quantile of the service's latency, in each second."""

    milliseconds: float
    quantile: str = QUANTILE
    cool_down_seconds: int = DEMO_COOL_DOWN


class SliceSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A slice of a phase, in seconds after the phase's start."""

    at: float
    until: float
    latency: Percentiles | None
    above: float


class UnmetDemand(msgspec.Struct, frozen=True, rename="camel"):
    """What the service wanted and did not get, in CPUs: on average, and in the worst sample."""

    mean: float
    worst: float


class PhaseReport(PhaseTitle, frozen=True, rename="camel"):
    """`latency`, `above` and `noise` are null in a simulation, `lost` is null in reality. `above`
    is the part of the seconds above the objective, `utilisation` the busy part of the node, and
    `demoted` and `bounded` the part of the time that batch was at the lowest weight and had a
    quota: 0 to 1 all of them."""

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
    above: float | None = None
    demoted: float = 0.0
    bounded: float = 0.0
    slices: tuple[SliceSummary, ...] = ()

    def p90_range(self) -> tuple[float, float] | None:
        """The least and the most of its slices."""
        found = [each.latency.p90 for each in self.slices if each.latency is not None]
        return (min(found), max(found)) if found else None


class DemoReport(msgspec.Struct, frozen=True, rename="camel"):
    """`agent` has the agent's entries of the last phase; `warning` is empty if the machine was
    quiet, `meaning` where it was not: nothing follows then. `pictures` are the files written.
    `objective` is null in a simulation."""

    machine: MachineSummary
    load: LoadDescription
    phases: tuple[PhaseReport, ...]
    agent: tuple[AgentEntry, ...]
    meaning: tuple[str, ...]
    warning: str = ""
    pictures: tuple[str, ...] = ()
    objective: ObjectiveDescription | None = None
    api_version: str = API_VERSION
    kind: str = KIND

    def phase(self, name: str) -> PhaseReport:
        return next(phase for phase in self.phases if phase.name == name)


def make_report(
    about: MachineSummary,
    measured: Sequence[PhaseMeasurement],
    objective: float | None = None,
) -> DemoReport:
    """`objective` is in milliseconds."""
    phases = tuple(make_phase_report(each, about.cpus, objective) for each in measured)
    said = tuple(line for each in measured for line in each.lines)
    noisy = noise_warning(phases)
    asked = None if objective is None else ObjectiveDescription(objective)
    return DemoReport(
        about, LoadDescription(), phases, said, () if noisy else meaning(phases, objective), noisy,
        objective=asked,
    )  # fmt: skip


def make_phase_report(
    measured: PhaseMeasurement, cpus: int, objective: float | None = None
) -> PhaseReport:
    phase, cpu = measured.phase, measured.cpu
    curve = latency_bins(measured.answers, _BIN)
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
        curve=curve,
        above=None if objective is None else share_above(curve, objective),
        demoted=_part_of_time(measured.samples, lambda sample: sample.demoted),
        bounded=_part_of_time(measured.samples, lambda sample: sample.quota is not None),
        slices=tuple(_summarize_slices(measured, objective)),
    )


def _summarize_slices(
    measured: PhaseMeasurement, objective: float | None
) -> Iterator[SliceSummary]:
    start = 0.0
    for seconds in measured.slices:
        end = start + seconds
        answers: list[RequestResult] = [a for a in measured.answers if start <= a.at < end]
        above = 0.0 if objective is None else share_above(latency_bins(answers, _BIN), objective)
        yield SliceSummary(round(start, 3), round(end, 3), find_percentiles(answers), above)
        start = end


def _part_of_time(samples: Sequence[PhaseSample], holds: Callable[[PhaseSample], bool]) -> float:
    total = sum(sample.until - sample.at for sample in samples)
    held = sum(sample.until - sample.at for sample in samples if holds(sample))
    return round(held / total, 4) if total else 0.0


def _measure_unmet_demand(samples: Sequence[PhaseSample]) -> UnmetDemand | None:
    known = [(s.lost, s.until - s.at) for s in samples if s.lost is not None]
    if not known:
        return None
    mean = sum(lost * length for lost, length in known) / sum(length for _, length in known)
    return UnmetDemand(round(mean, 4), round(max(lost for lost, _ in known), 4))


def meaning(phases: Sequence[PhaseReport], objective: float | None) -> tuple[str, ...]:
    """What it means, and what it cost, in plain words; nothing where a phase is missing."""
    by_name = {phase.name: phase for phase in phases}
    wanted = (ALONE, UNPROTECTED, SLACKWATER)
    found = [by_name[phase.name] for phase in wanted if phase.name in by_name]
    if len(found) < len(wanted):
        return ()
    alone, harmed, ours = found
    won = (
        f"{_describe_harm(alone, harmed, objective)}; {_describe_protection(alone, ours)}, while "
        f"batch used {ours.cpu.hog:.2f} CPUs{_describe_utilisation(alone, ours)}."
    )
    return won, _describe_means(harmed, ours)


def _describe_utilisation(alone: PhaseReport, ours: PhaseReport) -> str:
    now, before = (f"{100 * phase.utilisation:.0f} %" for phase in (ours, alone))
    return "" if now == before else f": the node was {now} busy instead of {before}"


def _describe_harm(alone: PhaseReport, harmed: PhaseReport, objective: float | None) -> str:
    if alone.latency is None or harmed.latency is None or objective is None:
        lost = harmed.lost.mean if harmed.lost else 0.0
        return f"Batch with CPU requests took {lost:.2f} CPUs that the service wanted"
    before, after = (format_milliseconds(each.p90) for each in (alone.latency, harmed.latency))
    above = f"{_percent(harmed.above)} of the seconds above {format_milliseconds(objective)}"
    times = _format_ratio(harmed.latency.p90, alone.latency.p90)
    if times is None:
        return f"Batch with CPU requests did not harm the service's p90 here ({after}; {above})"
    return (
        f"Batch with CPU requests made the service's p90 {times} ({before} → {after}; {above}, "
        "its objective)"
    )


def _describe_protection(alone: PhaseReport, ours: PhaseReport) -> str:
    if alone.latency is None or ours.latency is None:
        lost = ours.lost.mean if ours.lost else 0.0
        return f"with a rule about its latency the service lost {lost:.2f}"
    times = _format_ratio(ours.latency.p90, alone.latency.p90) or "as it was"
    took = format_milliseconds(ours.latency.p90)
    return (
        f"with one rule about its latency it is {times} ({took}; {_percent(ours.above)} of the "
        "seconds above)"
    )


def _describe_means(harmed: PhaseReport, ours: PhaseReport) -> str:
    if not ours.demoted and not ours.bounded:
        return "The objective was not at risk long enough: Slackwater changed nothing."
    did = f"Slackwater demoted the batch pods for {_percent(ours.demoted)} of the time"
    if ours.bounded:
        did += f" and bounded their quota for {_percent(ours.bounded)}"
    back = ", and gave it back when the service was calm" if is_given_back(ours) else ""
    return f"{did}, which {_describe_cost(harmed, ours)}{back}."


def is_given_back(phase: PhaseReport) -> bool:
    """Whether batch was held back within a slice, and later in it not any more."""
    ends = {each.until for each in phase.slices}
    return any(
        (before.demoted or before.quota is not None) and not after.demoted and after.quota is None
        for before, after in itertools.pairwise(phase.samples)
        if before.until not in ends
    )


def _percent(part: float | None) -> str:
    return f"{100 * (part or 0.0):.0f} %"


def _describe_cost(harmed: PhaseReport, ours: PhaseReport) -> str:
    less = harmed.cpu.hog - ours.cpu.hog
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
