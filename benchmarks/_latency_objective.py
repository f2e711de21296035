"""Slices of a latency-objective benchmark: what they say together, and the goals. Pure.

Owns the definitions. Above: the p90 of the requests meant for one second is over the objective. A
row pools the seconds and requests of all its slices; its spread is the quartiles of its slices. A
second is noisy where steal or foreign work took more than `NOISY` CPUs in it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from benchmarks._colocation import Goal, Spread, spread
from slackwater.demo.demo_plan import ALONE, SLACKWATER, UNPROTECTED
from slackwater.demo.demo_report import NOISY
from slackwater.demo.measurements import PhaseMeasurement, PhaseSample, latency_bins, percentile

#: The goals of the project, as parts of 1.
HARMED, ABOVE, IDLE_USED = 0.20, 0.05, 0.90
#: The objective is so many times the p90 of the service alone.
TIMES = 2.0


class Second(msgspec.Struct, frozen=True):
    """One second of one slice: the service's latencies in milliseconds, batch's CPU and what nobody
    used in CPUs, what batch was held back by, and the noise in CPUs."""

    p90: float
    milliseconds: tuple[float, ...]
    hog: float
    idle: float
    demoted: bool
    bounded: bool
    noise: float


class Slice(msgspec.Struct, frozen=True):
    """One phase of one round."""

    number: int
    phase: str
    seconds: tuple[Second, ...]

    def above(self, objective: float) -> float:
        """The part of its seconds, of at least one, that is above."""
        return sum(each.p90 > objective for each in self.seconds) / len(self.seconds)


class RowSummary(msgspec.Struct, frozen=True):
    """A phase over all slices. `hog` in CPUs; the rest are parts of 1."""

    seconds: int
    requests: int
    p90: float
    p99: float
    above: float
    hog: float
    idle_used: float
    demoted: float
    bounded: float
    above_spread: Spread
    p90_spread: Spread


def slice_of(number: int, measured: PhaseMeasurement) -> Slice:
    """Seconds without a request are left out."""
    by_second: dict[int, list[float]] = {}
    for answer in measured.answers:
        by_second.setdefault(int(answer.at), []).append(answer.milliseconds)
    seconds = []
    for each in latency_bins(measured.answers, 1.0):
        inside = [s for s in measured.samples if each.at <= (s.at + s.until) / 2 < each.until]
        if inside:
            seconds.append(_second(each.p90, by_second[int(each.at)], inside))
    return Slice(number, measured.phase.name, tuple(seconds))


def _second(p90: float, milliseconds: list[float], samples: Sequence[PhaseSample]) -> Second:
    length = sum(s.until - s.at for s in samples)
    noises = [max(s.noise.steal, s.noise.foreign) for s in samples if s.noise]
    return Second(
        p90,
        tuple(sorted(milliseconds)),
        sum(s.cpu.hog * (s.until - s.at) for s in samples) / length,
        sum(s.cpu.idle * (s.until - s.at) for s in samples) / length,
        demoted=samples[-1].demoted,
        bounded=samples[-1].quota is not None,
        noise=sum(noises) / len(noises) if noises else 0.0,
    )


def quiet_seconds(slices: Iterable[Slice]) -> list[Slice]:
    """The slices without their noisy seconds, where any are left."""
    found = [
        msgspec.structs.replace(
            each, seconds=tuple(second for second in each.seconds if second.noise <= NOISY)
        )
        for each in slices
    ]
    return [each for each in found if each.seconds]


def summarize(slices: Iterable[Slice], phase: str, objective: float) -> RowSummary | None:
    """None where it has no second."""
    own = [each for each in slices if each.phase == phase and each.seconds]
    seconds = [second for each in own for second in each.seconds]
    if not seconds:
        return None
    latencies = sorted(one for second in seconds for one in second.milliseconds)
    count, hog = len(seconds), sum(second.hog for second in seconds)
    left = hog + sum(second.idle for second in seconds)
    return RowSummary(
        count,
        len(latencies),
        percentile(latencies, 90),
        percentile(latencies, 99),
        sum(second.p90 > objective for second in seconds) / count,
        hog / count,
        hog / left if left else 0.0,
        sum(second.demoted for second in seconds) / count,
        sum(second.bounded for second in seconds) / count,
        spread([each.above(objective) for each in own]),
        spread([_p90_of(each) for each in own]),
    )


def _p90_of(one: Slice) -> float:
    return percentile(sorted(each for s in one.seconds for each in s.milliseconds), 90)


def goals(slices: Sequence[Slice], objective: float) -> list[Goal]:
    """Nothing is decided where the service was not harmed without protection."""
    alone, harmed, ours = (
        summarize(slices, phase.name, objective) for phase in (ALONE, UNPROTECTED, SLACKWATER)
    )
    if alone is None or harmed is None or ours is None:
        return [Goal("all of them", "a row has no seconds", None)]
    found = [
        Goal(
            f"above the objective at most {100 * ABOVE:.0f} % of the time",
            f"{100 * ours.above:.1f} %; unprotected {100 * harmed.above:.1f} %, "
            f"alone {100 * alone.above:.1f} %",
            ours.above <= ABOVE,
        ),
        Goal(
            f"p90 below the objective of {objective:.1f} ms",
            f"{ours.p90:.1f} ms",
            ours.p90 < objective,
        ),
        Goal(
            f"batch keeps at least {100 * IDLE_USED:.0f} % of what the service leaves idle",
            f"{100 * ours.idle_used:.0f} %",
            ours.idle_used >= IDLE_USED,
        ),
    ]
    if harmed.above >= HARMED:
        return found
    return [msgspec.structs.replace(goal, reached=None) for goal in found]
