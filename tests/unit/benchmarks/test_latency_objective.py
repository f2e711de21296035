"""What slices of the latency-objective benchmark say together."""

import pytest

from benchmarks._latency_objective import (
    HARMED,
    Second,
    Slice,
    goals,
    quiet_seconds,
    slice_of,
    summarize,
)
from benchmarks.latency_objective import read_plan, report, slice_line
from slackwater.demo.demo_plan import ALONE, LATENCY_OBJECTIVE, SLACKWATER, UNPROTECTED
from slackwater.demo.demo_report import NOISY
from slackwater.demo.measurements import (
    CpuUse,
    Noise,
    PhaseMeasurement,
    PhaseSample,
    RequestResult,
)

OBJECTIVE_MS = 20.0


def second(milliseconds: float, hog: float = 1.4, idle: float = 0.1, noise: float = 0.0) -> Second:
    return Second(
        milliseconds, (milliseconds / 2,) * 8 + (milliseconds,) * 2, hog, idle,
        demoted=False, bounded=False, noise=noise,
    )  # fmt: skip


def slices(phase: str, *milliseconds: float, hog: float = 1.4, idle: float = 0.1) -> list[Slice]:
    return [Slice(1, phase, tuple(second(each, hog, idle) for each in milliseconds))]


def all_rows(above: int, ours: int, idle: float = 0.1) -> list[Slice]:
    """A hundred seconds a row, so many of them above the objective."""

    def row(phase: str, count: int, idle: float) -> list[Slice]:
        return slices(phase, *[10.0] * (100 - count), *[30.0] * count, idle=idle)

    return [
        *row(ALONE.name, 0, 1.5),
        *row(UNPROTECTED.name, above, 0.1),
        *row("waterline", above, 0.4),
        *row(SLACKWATER.name, ours, idle),
    ]


def test_a_slice_is_cut_into_seconds() -> None:
    use = CpuUse(0.5, 1.0, 0.2, 0.3)
    samples = tuple(
        PhaseSample(n / 2, (n + 1) / 2, use, None if n < 2 else 1.0, demoted=n == 3,
                    noise=Noise(0.0, n / 10))
        for n in range(4)
    )  # fmt: skip
    answers = tuple(RequestResult(n / 10, 5.0 if n < 10 else 50.0) for n in range(20))
    found = slice_of(3, PhaseMeasurement(SLACKWATER, 2.0, use, samples, answers))
    assert (found.number, found.phase) == (3, SLACKWATER.name)
    first, last = found.seconds
    assert (first.p90, last.p90) == (5.0, 50.0)
    assert (first.bounded, last.bounded) == (False, True)
    assert (first.demoted, last.demoted) == (False, True)
    assert (first.hog, first.idle) == (1.0, 0.3)
    assert first.noise == pytest.approx(0.05)
    assert len(last.milliseconds) == 10


def test_seconds_without_requests_are_left_out() -> None:
    use = CpuUse(0.5, 1.0, 0.2, 0.3)
    samples = tuple(PhaseSample(float(n), n + 1.0, use) for n in range(3))
    answers = (RequestResult(0.5, 5.0), RequestResult(2.5, 7.0))
    found = slice_of(1, PhaseMeasurement(ALONE, 3.0, use, samples, answers))
    assert [each.p90 for each in found.seconds] == [5.0, 7.0]


def test_a_row_pools_its_slices_and_shows_their_spread() -> None:
    found = summarize(
        slices("unprotected", 10, 10, 30, 30) + slices("unprotected", 10, 10, 10, 10),
        "unprotected",
        OBJECTIVE_MS,
    )
    assert found is not None
    assert (found.seconds, found.requests) == (8, 80)
    assert found.above == pytest.approx(0.25)
    assert (found.above_spread.low, found.above_spread.high) == (0.125, 0.375)
    assert found.idle_used == pytest.approx(1.4 / 1.5)


def test_equal_to_the_objective_is_not_above() -> None:
    assert slices("alone", OBJECTIVE_MS, 20.1)[0].above(OBJECTIVE_MS) == 0.5


def test_noisy_seconds_are_left_out() -> None:
    noisy = Slice(1, "alone", (second(10), second(99, noise=NOISY + 0.01)))
    silent = Slice(2, "alone", (second(99, noise=1.0),))
    assert quiet_seconds([noisy, silent]) == [Slice(1, "alone", (second(10),))]


@pytest.mark.parametrize(
    ("rows", "reached"),
    [
        (all_rows(25, 5), [True, True, True]),
        (all_rows(25, 6), [False, True, True]),
        (all_rows(25, 60), [False, False, True]),
        (all_rows(25, 5, idle=0.2), [True, True, False]),
        (all_rows(round(100 * HARMED) - 1, 0), [None, None, None]),
        ([], [None]),
    ],
)
def test_goals(rows: list[Slice], reached: list[bool | None]) -> None:
    assert [goal.reached for goal in goals(rows, OBJECTIVE_MS)] == reached


def test_the_report_has_every_row_and_says_where_it_cannot_judge() -> None:
    text = "\n".join(report(all_rows(25, 5), OBJECTIVE_MS))
    for phase in LATENCY_OBJECTIVE:
        assert text.count(phase.title) == 2
    assert text.count("reached") == 6
    assert "Too few to judge by: 1 in one row." in "\n".join(
        report(slices(ALONE.name, 10) + all_rows(25, 5)[1:], OBJECTIVE_MS)
    )


def test_a_slice_without_answers_is_told() -> None:
    assert "no answers" in slice_line(Slice(1, "alone", ()), OBJECTIVE_MS)
    assert "30.0" in slice_line(slices("alone", 30.0)[0], OBJECTIVE_MS)


def test_a_quick_plan_is_short() -> None:
    plan = read_plan(["--quick", "--load", "0.5"])
    assert plan.rounds * plan.seconds <= 20
    assert plan.parts()[0].load == 0.5
