"""Replicas that an HPA needs, and what a flatter fleet saves."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.rebalancer.observed import Cores, PercentOf, Seconds
from slackwater.rebalancer.whatif.simulate_day import Savings, compare_replicas, needed_replicas

TARGET, THRESHOLD = Cores(0.7), Cores(1.05)
HALF_AN_HOUR = Seconds(1800.0)


@pytest.mark.parametrize(
    ("usages", "needed"),
    [
        ([0.7, 0.7, 0.7], 3),
        ([0.71, 0.7, 0.7], 4),
        # 4.4 / 0.7 is 6.3; the hottest has 1.64 times the mean, 4.4 x 1.64 / 1.05 is 6.9.
        ([1.2, 1.1, 0.8, 0.6, 0.4, 0.3], 7),
        ([0.75, 0.75, 0.8, 0.6, 0.75, 0.75], 7),
        # One hot pod of four: 1.5 x 4 / 1.05.
        ([1.5, 0.1, 0.1, 0.1], 6),
        ([1.05, 0.2], 2),
        ([0.0, 0.0], 1),
    ],
)
def test_enough_for_the_mean_and_for_the_hottest(usages: list[float], needed: int) -> None:
    assert needed_replicas(usages, TARGET, THRESHOLD) == needed


def test_rounding_needs_no_further_replica() -> None:
    """3 x 0.1 is 0.30000000000000004."""
    assert needed_replicas([0.1] * 3, Cores(0.1), Cores(0.15)) == 3


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30), st.floats(0.05, 20), st.floats(1, 3))
def test_so_many_are_enough_and_one_less_is_not(
    usages: list[float], target: float, tolerance: float
) -> None:
    needed = needed_replicas(usages, Cores(target), Cores(target * tolerance))
    total, hottest = math.fsum(usages), max(usages) * len(usages)
    assert total / needed <= target * (1 + 1e-6)
    assert hottest / needed <= target * tolerance * (1 + 1e-6)
    if needed > 1:
        fewer = needed - 1
        assert total / fewer > target or hottest / fewer > target * tolerance


def test_saved_is_the_difference_in_hours() -> None:
    found = compare_replicas([10, 8], [6, 8], [Cores(0.5), Cores(0.5)], HALF_AN_HOUR)
    assert found == Savings(2.0, 1.0, PercentOf(22.22))


def test_nothing_without_a_difference() -> None:
    assert compare_replicas([3], [3], [Cores(1.0)], HALF_AN_HOUR) == Savings(
        0.0, 0.0, PercentOf(0.0)
    )
    assert compare_replicas([], [], [], HALF_AN_HOUR) == Savings(0.0, 0.0, PercentOf(0.0))


def test_pods_that_ask_for_more_save_more() -> None:
    found = compare_replicas([4, 4], [3, 3], [Cores(1.0), Cores(3.0)], HALF_AN_HOUR)
    assert (found.replica_hours, found.core_hours, found.percent) == (1.0, 2.0, 25.0)
