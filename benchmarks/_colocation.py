"""Rounds of a colocation benchmark: what they say together, and whether goals were reached. Pure.

Owns the definitions. A row's number is the median of its rounds, its spread their quartiles. A
round is noisy where steal or foreign work took more than `NOISY` CPUs in it.
"""

import statistics
from collections.abc import Callable, Sequence

import msgspec

from slackwater.demo.demo_plan import ALONE, CALM, ELASTIC, KUBELET, SHARE
from slackwater.demo.demo_report import NOISY
from slackwater.demo.measurements import PhaseMeasurement, find_percentiles

#: The goals of the project.
P90_RATIO, UTILISATION, IDLE_USED = 1.15, 0.85, 0.90
#: Fewer quiet rounds than these decide nothing.
ENOUGH = 5


class Round(msgspec.Struct, frozen=True):
    """One phase of one round. Milliseconds; CPUs; `utilisation` and `idle_used` are parts of 1.
    `idle_used` is the hog's part of what nobody else used while the service was calm."""

    number: int
    phase: str
    p50: float
    p90: float
    p99: float
    requests: int
    unanswered: int
    hog: float
    utilisation: float
    idle_used: float | None
    steal: float
    foreign: float

    def is_noisy(self) -> bool:
        return max(self.steal, self.foreign) > NOISY


class Spread(msgspec.Struct, frozen=True):
    """Median and quartiles."""

    low: float
    median: float
    high: float


class Goal(msgspec.Struct, frozen=True):
    """`reached` is None where nothing can be said."""

    what: str
    measured: str
    reached: bool | None


def round_of(number: int, measured: PhaseMeasurement, cpus: int) -> Round | None:
    """None where there was no answer at all."""
    found, noise = find_percentiles(measured.answers), measured.noise
    if found is None or noise is None:
        return None
    cpu = measured.cpu
    return Round(
        number, measured.phase.name, found.p50, found.p90, found.p99, len(measured.answers),
        sum(not answer.ok for answer in measured.answers), cpu.hog,
        (cpu.service + cpu.hog + cpu.other) / cpus, _idle_used(measured),
        noise.steal, noise.foreign,
    )  # fmt: skip


def _idle_used(measured: PhaseMeasurement) -> float | None:
    end = CALM.share * measured.seconds
    calm = [(s.cpu, s.until - s.at) for s in measured.samples if s.until <= end]
    hog = sum(cpu.hog * length for cpu, length in calm)
    left = sum((cpu.hog + cpu.idle) * length for cpu, length in calm)
    return hog / left if left > 0 and hog > 0 else None


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, statistics.median(values), high)


def of(rounds: Sequence[Round], phase: str, what: Callable[[Round], float]) -> Spread | None:
    values = [what(each) for each in rounds if each.phase == phase]
    return spread(values) if values else None


def quiet(rounds: Sequence[Round]) -> list[Round]:
    return [each for each in rounds if not each.is_noisy()]


def goals(rounds: Sequence[Round]) -> list[Goal]:
    """Judged over these rounds; nothing is decided by too few."""
    alone, kubelet, ours = (
        of(rounds, phase.name, lambda r: r.p90) for phase in (ALONE, KUBELET, SHARE)
    )
    busy = of(rounds, SHARE.name, lambda r: r.utilisation)
    used = [r.idle_used for r in rounds if r.phase == SHARE.name and r.idle_used is not None]
    if alone is None or kubelet is None or ours is None or busy is None or not used:
        return [Goal("all of them", "a row has no rounds", None)]
    counts = [sum(r.phase == p.name for r in rounds) for p in (ALONE, KUBELET, SHARE)]
    ratio = ours.median / alone.median
    found = [
        Goal(f"p90 at most {P90_RATIO:g}× alone", f"{ratio:.2f}×", ratio <= P90_RATIO),
        Goal(
            f"node at least {100 * UTILISATION:.0f} % busy",
            f"{100 * busy.median:.0f} %",
            busy.median >= UTILISATION,
        ),
        Goal(
            "p90 within the spread of the kubelet's weight",
            f"{ours.median:.1f} ms; there {kubelet.low:.1f} to {kubelet.high:.1f}",
            ours.median <= kubelet.high,
        ),
        Goal(
            f"hog uses at least {100 * IDLE_USED:.0f} % of the idle CPU while calm, in every round",
            f"worst {100 * min(used):.0f} %, median {100 * statistics.median(used):.0f} %",
            min(used) >= IDLE_USED,
        ),
    ]
    if min(counts) >= ENOUGH:
        return found
    return [msgspec.structs.replace(goal, reached=None) for goal in found]


def elastic_goals(rounds: Sequence[Round]) -> list[Goal]:
    """Of pods with elastic resources: they stay below the service."""
    what = f"p90 beside elastic pods at most {P90_RATIO:g}× alone"
    alone, elastic = (of(rounds, phase.name, lambda r: r.p90) for phase in (ALONE, ELASTIC))
    if alone is None or elastic is None:
        return [Goal(what, "a row has no rounds", None)]
    counts = [sum(r.phase == p.name for r in rounds) for p in (ALONE, ELASTIC)]
    ratio = elastic.median / alone.median
    reached = ratio <= P90_RATIO if min(counts) >= ENOUGH else None
    return [Goal(what, f"{ratio:.2f}×", reached)]
