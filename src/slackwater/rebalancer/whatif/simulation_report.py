"""The report of a simulated day, as scripts read it and tables and pictures show it.

Its keys are documented in docs/reference/rebalance-simulate.md. Times are seconds since 1970, or
since the beginning of a generated day; CPU is in cores.
"""

import math
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from slackwater.model.units import format_duration
from slackwater.rebalancer.observed import Cores, HpaTargetKind, PercentOf
from slackwater.rebalancer.reason import Reason, counted
from slackwater.rebalancer.whatif.day import Day
from slackwater.rebalancer.whatif.simulate_day import (
    LoadSummary,
    Savings,
    SimulatedRotation,
    SimulatedStep,
    SimulationResult,
    SimulationTerms,
    compare_replicas,
)
from slackwater.settings.setting import API_VERSION

KIND = "RebalanceSimulation"
_HOUR = 3600.0


class DaySummary(msgspec.Struct, frozen=True, rename="camel"):
    """`recording` is the file's name, `seed` a generated day's; the other is null. `missing`: steps
    without a sample."""

    recording: str | None
    seed: int | None
    start: float
    seconds: float
    step_seconds: float
    steps: int
    missing: int
    pods: int


class HpaSummary(msgspec.Struct, frozen=True):
    """As in `rebalance plan`."""

    target: float
    unit: str


class TriedSettings(msgspec.Struct, frozen=True, rename="camel"):
    """Durations are texts."""

    top_k: int
    tolerance: float
    minimum_improvement: float
    minimum_pods: int
    window: str
    minimum_pod_age: str
    cooldown: str
    batch_size: int
    stickiness: float


class SideSummary(msgspec.Struct, frozen=True, rename="camel"):
    """One of the two runs. `skew`: hottest / mean, on average and at worst; null if no pod used
    anything. `above`: percent of all pods' time above the threshold. `replica_hours`: what an HPA
    would need."""

    skew: float | None
    worst_skew: float | None
    above: PercentOf
    replica_hours: float
    core_hours: float
    most_replicas: int


class SimulationReport(msgspec.Struct, frozen=True, rename="camel"):
    """`skipped`: steps by reason."""

    day: DaySummary
    hpa: HpaSummary
    settings: TriedSettings
    rotated_pods: int
    skipped: dict[str, int]
    without: SideSummary
    rotated: SideSummary = msgspec.field(name="with")
    saved: Savings
    rotations: tuple[SimulatedRotation, ...]
    steps: tuple[SimulatedStep, ...]
    api_version: str = API_VERSION
    kind: str = KIND


def build_report(
    day: Day,
    terms: SimulationTerms,
    result: SimulationResult,
    recording: str | None,
    seed: int | None,
) -> SimulationReport:
    steps, requests = result.steps, [moment.mean_request for moment in day.moments]
    reasons = Counter(step.reason for step in steps)
    return SimulationReport(
        day=_day_summary(day, recording, seed),
        hpa=_hpa(terms),
        settings=_tried(terms),
        rotated_pods=sum(len(rotation.pods) for rotation in result.rotations),
        skipped={
            reason.value: count
            for reason, count in reasons.most_common()
            if reason is not Reason.ROTATED
        },
        without=_side([step.without for step in steps], requests, day),
        rotated=_side([step.rotated for step in steps], requests, day),
        saved=compare_replicas(
            [step.without.replicas for step in steps],
            [step.rotated.replicas for step in steps],
            requests,
            day.step,
        ),
        rotations=tuple(_rounded_rotation(rotation) for rotation in result.rotations),
        steps=tuple(_rounded_step(step) for step in steps),
    )


def _day_summary(day: Day, recording: str | None, seed: int | None) -> DaySummary:
    first, last = day.moments[0].at, day.moments[-1].at
    length = last - first + day.step
    return DaySummary(
        recording, seed, first, length, day.step, len(day.moments), day.missing, len(day.pods)
    )


def _hpa(terms: SimulationTerms) -> HpaSummary:
    unit = "percent" if terms.hpa_target.kind is HpaTargetKind.UTILIZATION else "cores"
    return HpaSummary(terms.hpa_target.value, unit)


def _tried(terms: SimulationTerms) -> TriedSettings:
    moves = terms.moves
    return TriedSettings(
        moves.top_k, moves.tolerance, moves.minimum_improvement, moves.minimum_pods,
        format_duration(moves.window), format_duration(moves.youngest),
        format_duration(moves.pause), moves.batch, terms.stickiness,
    )  # fmt: skip


def _side(loads: Sequence[LoadSummary], requests: Sequence[Cores], day: Day) -> SideSummary:
    skews = [each.hottest / each.mean for each in loads if each.mean > 0]
    cores = math.fsum(
        each.replicas * request for each, request in zip(loads, requests, strict=True)
    )
    pods = sum(len(moment.loads) for moment in day.moments)
    hours = day.step / _HOUR
    return SideSummary(
        skew=round(math.fsum(skews) / len(skews), 4) if skews else None,
        worst_skew=round(max(skews), 4) if skews else None,
        above=PercentOf(round(100 * sum(each.above for each in loads) / pods, 2)),
        replica_hours=round(sum(each.replicas for each in loads) * hours, 2),
        core_hours=round(cores * hours, 2),
        most_replicas=max(each.replicas for each in loads),
    )


def _rounded_step(step: SimulatedStep) -> SimulatedStep:
    return replace(
        step,
        target=_cores(step.target),
        threshold=_cores(step.threshold),
        without=_rounded(step.without),
        rotated=_rounded(step.rotated),
    )


def _rounded(summary: LoadSummary) -> LoadSummary:
    return replace(summary, hottest=_cores(summary.hottest), mean=_cores(summary.mean))


def _cores(amount: float) -> Cores:
    """To a tenth of a milliCPU: more digits are arithmetic, not measurement."""
    return Cores(round(amount, 4))


def _rounded_rotation(rotation: SimulatedRotation) -> SimulatedRotation:
    realised = rotation.realised
    return replace(
        rotation,
        average=_cores(rotation.average),
        predicted=_cores(rotation.predicted),
        improvement=PercentOf(round(rotation.improvement, 2)),
        realised=None if realised is None else PercentOf(round(realised, 2)),
    )


def conclusions(report: SimulationReport) -> list[str]:
    """The result in sentences."""
    if not report.rotations:
        most = next(iter(report.skipped)).replace("_", " ")
        return [f"It would never have rotated; the usual reason: {most}."]
    without, rotated = report.without, report.rotated
    often = (
        f"It would have rotated {_times(len(report.rotations))} in {_length(report.day.seconds)}, "
        f"{counted(report.rotated_pods, 'pod')} in all."
    )
    skew = (
        f"The hottest pod had {_ratio(without.skew)} the mean's load, with rotation "
        f"{_ratio(rotated.skew)}; pods were above the threshold {without.above:.1f} % of their "
        f"time, with rotation {rotated.above:.1f} %."
    )
    cpu = (
        f"For the hottest pod to stay below the threshold an HPA would need "
        f"{without.core_hours:.0f} core-hours, with rotation {rotated.core_hours:.0f}: "
        f"{report.saved.percent:.1f} % saved."
    )
    return [often, skew, *_hot_remark(report), cpu]


def _hot_remark(report: SimulationReport) -> list[str]:
    """Sharing the load of a hot pod may leave all that share it above the threshold."""
    if report.rotated.above <= report.without.above:
        return []
    remark = (
        "That is more than without: the load of the hottest pods is now shared by pods that are "
        "each cooler, and still above the threshold. More pods, not rotation, would help them."
    )
    return [remark]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _ratio(skew: float | None) -> str:
    return "no" if skew is None else f"{skew:.2f} ×"


def _length(seconds: float) -> str:
    """To a tenth."""
    hours, minutes = round(seconds / _HOUR, 1), round(seconds / 60, 1)
    return f"{hours:g} h" if hours >= 1 else f"{minutes:g} min"
