"""Percentiles by nearest rank, and bins of time."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.demo_plan import ALONE
from slackwater.demo.measurements import (
    AgentEntry,
    CpuCounters,
    CpuUse,
    LatencyBin,
    Noise,
    PhaseMeasurement,
    PhaseSample,
    RequestResult,
    find_percentiles,
    join_slices,
    latency_bins,
    noise_between,
    percentile,
    share_above,
    use_between,
)
from tests.unit.demo.examples import counters

pytestmark = pytest.mark.long

LATENCIES = st.lists(st.floats(0.01, 1e5), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5.0], 50, 5.0),
        ([5.0], 99, 5.0),
        ([1.0, 2.0], 50, 1.0),
        ([1.0, 2.0], 51, 2.0),
        ([float(n) for n in range(1, 101)], 90, 90.0),
        ([float(n) for n in range(1, 101)], 99, 99.0),
        ([float(n) for n in range(1, 11)], 99, 10.0),
        ([1.0, 2.0, 3.0], 0, 1.0),
        ([1.0, 2.0, 3.0], 100, 3.0),
    ],
)
def test_nearest_rank(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


@given(LATENCIES)
def test_percentiles_ascend_and_were_measured(values: list[float]) -> None:
    found = find_percentiles([RequestResult(0.0, value) for value in values])
    assert found is not None
    assert found.p50 <= found.p90 <= found.p99 <= found.worst
    assert found.worst == round(max(values), 3)
    assert found.p50 in {round(value, 3) for value in values}


@given(LATENCIES, st.integers(1, 99))
def test_so_many_do_not_exceed_a_percentile(values: list[float], percent: int) -> None:
    values.sort()
    found = percentile(values, percent)
    assert sum(value <= found for value in values) >= percent / 100 * len(values)


def test_no_request_has_no_percentiles() -> None:
    assert find_percentiles([]) is None


def test_an_unanswered_request_counts_with_the_time_it_was_waited_for() -> None:
    found = find_percentiles([RequestResult(0.0, 1.0), RequestResult(1.0, 10_000.0, ok=False)])
    assert found is not None
    assert found.worst == 10_000


def test_bins_are_stretches_of_time_and_empty_ones_are_left_out() -> None:
    found = latency_bins(
        [RequestResult(0.1, 1.0), RequestResult(0.9, 3.0), RequestResult(2.5, 7.0)], 1.0
    )
    assert [(b.at, b.until, b.p50, b.p90) for b in found] == [(0, 1, 1, 3), (2, 3, 7, 7)]


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0.1, 100)), max_size=100))
def test_every_answer_is_in_its_bin(pairs: list[tuple[float, float]]) -> None:
    found = {int(b.at): b for b in latency_bins([RequestResult(at, ms) for at, ms in pairs], 1.0)}
    assert set(found) == {int(at) for at, _ in pairs}
    for number, each in found.items():
        inside = [round(ms, 3) for at, ms in pairs if int(at) == number]
        assert each.p50 in inside
        assert each.p90 in inside
        assert min(inside) <= each.p50 <= each.p90 <= max(inside)


SECONDS = st.floats(0, 100)


@pytest.mark.parametrize(
    ("after", "use"),
    [
        ({"node": 20.0}, (0, 0, 2, 0)),
        ({"node": 8.0, "tree": 6.0, "service": 4.0, "hog": 1.0}, (0.4, 0.1, 0.3, 1.2)),
        ({"node": 10.0, "steal": 4.0}, (0, 0, 1, 0.6)),
        ({}, (0, 0, 0, 2)),
        # Two counters are never read at the same moment: what is below zero is nothing.
        ({"node": 3.0, "service": 4.0}, (0.4, 0, 0, 1.6)),
    ],
)
def test_use(after: dict[str, float], use: tuple[float, float, float, float]) -> None:
    found = use_between(counters(0.0), counters(10.0, **after), 2)
    assert (found.service, found.hog, found.other, found.idle) == pytest.approx(use)


@pytest.mark.parametrize(
    ("after", "noise"),
    [
        ({"node": 10.0, "tree": 6.0, "own": 1.0}, (0, 0.3)),
        ({"node": 5.0, "tree": 6.0}, (0, 0)),
        ({"node": 6.0, "tree": 6.0, "steal": 5.0}, (0.5, 0)),
    ],
)
def test_noise(after: dict[str, float], noise: tuple[float, float]) -> None:
    found = noise_between(counters(0.0), counters(10.0, **after))
    assert (found.steal, found.foreign) == pytest.approx(noise)


@given(st.builds(CpuCounters, st.just(10.0), *[SECONDS] * 6), st.integers(1, 64))
def test_nothing_is_ever_negative(after: CpuCounters, cpus: int) -> None:
    use, noise = use_between(counters(0.0), after, cpus), noise_between(counters(0.0), after)
    assert min(use.service, use.hog, use.other, use.idle, noise.steal, noise.foreign) >= 0


def test_slices_are_joined_one_after_the_other() -> None:
    def one(hog: float, noise: float, *lines: AgentEntry) -> PhaseMeasurement:
        cpu = CpuUse(0.5, hog, 0.0, 0.5)
        return PhaseMeasurement(
            ALONE, 4.0, cpu, (PhaseSample(0.0, 4.02, cpu),), (RequestResult(1.0, 5.0),),
            Noise(0.0, noise), lines,
        )  # fmt: skip

    early, late = AgentEntry(-1.0, "x", because="early"), AgentEntry(1.0, "x", because="late")
    found = join_slices([one(1.0, 0.1, early, late), one(0.5, 0.3, early, late)])
    assert (found.seconds, found.slices) == (8.0, (4.0, 4.0))
    assert found.cpu == CpuUse(0.5, 0.75, 0.0, 0.5)
    assert [(s.at, s.until) for s in found.samples] == [(0.0, 4.0), (4.0, 8.0)]
    assert [answer.at for answer in found.answers] == [1.0, 5.0]
    assert found.noise == Noise(0.0, 0.3)
    assert [(line.at, line.because) for line in found.lines] == [
        (-1.0, "early"), (1.0, "late"), (5.0, "late"),
    ]  # fmt: skip


def test_one_slice_of_a_simulation_stays_what_it_is() -> None:
    cpu = CpuUse(0.5, 1.0, 0.0, 0.5)
    one = PhaseMeasurement(ALONE, 4.0, cpu, (PhaseSample(0.0, 4.0, cpu),))
    assert join_slices([one]) == msgspec.structs.replace(one, slices=(4.0,))


@pytest.mark.parametrize(("objective", "share"), [(4.0, 1.0), (5.0, 0.5), (10.0, 0.0)])
def test_the_share_of_stretches_above_an_objective(objective: float, share: float) -> None:
    curve = (LatencyBin(0, 1, 3.0, 5.0), LatencyBin(1, 2, 3.0, 9.0))
    assert share_above(curve, objective) == share
    assert share_above((), objective) == 0
