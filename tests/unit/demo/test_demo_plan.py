"""What is shown: phases, pods and the load."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.demo_plan import (
    ALONE,
    BATCH_PODS,
    BUSY,
    CALM,
    COLOCATION,
    DEMO,
    LATENCY_OBJECTIVE,
    LOAD,
    SERVICE_REQUEST,
    SLACKWATER,
    BatchControl,
    LoadPart,
    intended_times,
    part_times,
)


def test_the_demo_goes_from_alone_to_slackwater() -> None:
    assert DEMO[0] == ALONE
    assert DEMO[-1] == SLACKWATER
    assert [phase.control for phase in DEMO] == [
        BatchControl.ABSENT,
        BatchControl.UNPROTECTED,
        BatchControl.LATENCY_OBJECTIVE,
    ]


def test_the_benchmark_has_every_way_to_hold_batch_back() -> None:
    assert {phase.control for phase in COLOCATION} == {
        control for control in BatchControl if not control.runs_burstable()
    }
    assert set(DEMO) <= set(LATENCY_OBJECTIVE)
    assert len({phase.name for phase in COLOCATION}) == len(COLOCATION)
    assert len({phase.title for phase in COLOCATION}) == len(COLOCATION)


COST = 0.003


@given(
    st.floats(0.5, 30), st.floats(0.001, 0.05), st.integers(0, 1000),
    st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.05, 2)), min_size=1, max_size=4),
)  # fmt: skip
def test_times_ascend_within_the_phase(
    seconds: float, cost: float, seed: int, shares: list[tuple[float, float]]
) -> None:
    total = sum(share for share, _ in shares)
    parts = [LoadPart("part", share / total, load) for share, load in shares]
    times = intended_times(parts, seconds, cost, seed)
    assert times == sorted(times)
    assert all(0 < at < seconds * 1.000001 for at in times)


def test_the_same_seed_means_the_same_times_and_another_one_others() -> None:
    assert intended_times(LOAD, 10, COST, 1) == intended_times(LOAD, 10, COST, 1)
    assert intended_times(LOAD, 10, COST, 1) != intended_times(LOAD, 10, COST, 2)


@pytest.mark.parametrize("load", [0.1, 0.5, 1.0])
def test_a_load_asks_for_so_many_requests(load: float) -> None:
    times = intended_times([LoadPart("all", 1.0, load)], 1000, COST, 7)
    assert len(times) * COST / 1000 == pytest.approx(load, rel=0.05)


def test_arrivals_are_poisson() -> None:
    """Gaps of an exponential distribution: as wide as they are long on average."""
    times = intended_times([LoadPart("all", 1.0, 0.5)], 500, COST, 3)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.05)


def test_the_calm_part_comes_first() -> None:
    times = intended_times(LOAD, 100, COST, 1)
    calm = [at for at in times if at < 100 * CALM.share]
    busy = [at for at in times if at >= 100 * CALM.share]
    assert len(calm) / CALM.share * CALM.load < len(busy) / BUSY.share * BUSY.load


def test_batch_pods_weigh_as_much_as_the_service() -> None:
    assert sum(pod.request for pod in BATCH_PODS) == SERVICE_REQUEST
    assert len({pod.uid for pod in BATCH_PODS} | {pod.container for pod in BATCH_PODS}) == 4


def test_the_latency_objective_is_compared_with_everything_else_burstable() -> None:
    assert [phase.control for phase in LATENCY_OBJECTIVE] == [
        BatchControl.ABSENT,
        BatchControl.UNPROTECTED,
        BatchControl.WATERLINE,
        BatchControl.LATENCY_OBJECTIVE,
    ]
    assert [phase.control.needs_agent() for phase in LATENCY_OBJECTIVE] == [
        False,
        False,
        True,
        True,
    ]


def test_parts_follow_each_other_to_the_end() -> None:
    parts = part_times(LOAD, 10)
    assert [part for part, _, _ in parts] == list(LOAD)
    assert [round(start, 6) for _, start, _ in parts] == [0, 4]
    assert [round(end, 6) for _, _, end in parts] == [4, 10]


def test_the_shares_of_the_load_are_all_of_the_time() -> None:
    assert sum(part.share for part in LOAD) == pytest.approx(1)
    assert 0.35 <= sum(part.share * part.load for part in LOAD) <= 0.5
