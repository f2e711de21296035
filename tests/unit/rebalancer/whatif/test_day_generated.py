"""A generated day: the same for the same chance, busy by day, as unequal as it is told to be."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.rebalancer.observed import Cores, Seconds
from slackwater.rebalancer.whatif.day import Day, DayShape, generate_day
from tests.unit.rebalancer.whatif.days import generated_day


def totals(day: Day) -> list[float]:
    return [math.fsum(load.cores for load in moment.loads.values()) for moment in day.moments]


def mean_skew(day: Day) -> float:
    skews = [
        max(load.cores for load in moment.loads.values()) * len(moment.loads) / total
        for moment, total in zip(day.moments, totals(day), strict=True)
    ]
    return math.fsum(skews) / len(skews)


def test_the_same_seed_is_the_same_day() -> None:
    assert generated_day(7) == generated_day(7)
    assert generated_day(7) != generated_day(8)


def test_a_day_has_its_steps_pods_and_requests() -> None:
    day = generated_day(pods=5, hours=2.0, request=0.5)
    assert [moment.at for moment in day.moments] == [n * 300.0 for n in range(24)]
    assert day.pods == tuple(f"pod-00{n}" for n in range(5))
    assert {load.request for moment in day.moments for load in moment.loads.values()} == {0.5}
    assert (day.step, day.missing) == (300.0, 0)


def test_the_busiest_hour_is_in_the_afternoon_and_the_night_is_calm() -> None:
    found = totals(generated_day(pods=10, busiest=0.7))
    assert max(found) == pytest.approx(7.0)
    assert found.index(max(found)) * 5 == 14 * 60
    assert min(found) == pytest.approx(0.45 * 7.0)
    assert found.index(min(found)) * 5 == 2 * 60


@pytest.mark.parametrize("seed", range(5))
def test_more_skew_is_a_hotter_pod(seed: int) -> None:
    found = [mean_skew(generated_day(seed, skew=skew)) for skew in (0.0, 0.8, 1.6)]
    assert found == sorted(found)
    assert found[0] < 1.7, "equal partitions differ only by their rhythm and noise"
    assert found[2] > 3.0


def test_who_is_hot_changes() -> None:
    day = generated_day(skew=0.3)
    hottest = {max(moment.loads, key=lambda pod: moment.loads[pod].cores) for moment in day.moments}
    assert len(hottest) > 1


def test_pods_without_partitions_are_idle() -> None:
    day = generated_day(pods=4, partitions=3)
    idle = [min(load.cores for load in moment.loads.values()) for moment in day.moments]
    assert set(idle) == {0.0}


@settings(max_examples=30)
@given(
    st.integers(2, 20),
    st.integers(1, 50),
    st.floats(0, 3),
    st.floats(0.1, 4),
    st.integers(0, 1000),
)
def test_any_shape_is_a_day(
    pods: int, partitions: int, skew: float, busiest: float, seed: int
) -> None:
    shape = DayShape(pods, partitions, skew, 1.0, Cores(1.0), Cores(busiest), Seconds(600.0))
    day = generate_day(shape, random.Random(seed).random)  # noqa: S311 - noise, not a secret
    assert len(day.moments) == 6
    for moment, total in zip(day.moments, totals(day), strict=True):
        assert len(moment.loads) == pods
        assert all(load.cores >= 0 for load in moment.loads.values())
        assert 0 < total <= pods * busiest * (1 + 1e-9)
