"""What a partition's lag is, and how partitions become one number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.rebalancer.observed import aggregate_lag, partition_lag
from slackwater.rebalancer.reason import counted
from slackwater.settings.rebalancer import LagSum

OFFSETS = st.integers(0, 1 << 62)


@pytest.mark.parametrize(
    ("committed", "begin", "end", "expected"),
    [
        (20, 0, 25, 5),
        (25, 0, 25, 0),
        (0, 0, 25, 25),
        (10, 10, 25, 15),
        (None, 0, 25, 25),
        (None, 10, 25, 15),
        (None, 25, 25, 0),
        (5, 10, 25, 15),  # retention took what it would have read
        (30, 0, 25, 25),  # a topic of the same name, made anew
    ],
)
def test_lag_of_a_partition(committed: int | None, begin: int, end: int, expected: int) -> None:
    assert partition_lag(committed, begin, end) == expected


@given(st.none() | OFFSETS, OFFSETS, OFFSETS)
def test_a_partition_s_lag_is_never_more_than_there_is(
    committed: int | None, one: int, other: int
) -> None:
    begin, end = sorted((one, other))
    assert 0 <= partition_lag(committed, begin, end) <= end - begin


@given(OFFSETS, OFFSETS, OFFSETS)
def test_who_commits_more_is_not_further_behind(one: int, other: int, third: int) -> None:
    begin, committed, end = sorted((one, other, third))
    assert partition_lag(committed, begin, end) <= partition_lag(begin, begin, end)
    assert partition_lag(committed, begin, end) <= partition_lag(None, begin, end)


@pytest.mark.parametrize(
    ("partitions", "aggregate", "expected"),
    [
        ([5.0, 15.0, 25.0, 25.0], LagSum.SUM, 70),
        ([5.0, 15.0, 25.0, 25.0], LagSum.MAX, 25),
        ([0.0], LagSum.SUM, 0),
        ([0.0], LagSum.MAX, 0),
        ([1000.25], LagSum.SUM, 1001),
        ([1000.25], LagSum.MAX, 1001),
        ([0.1] * 10, LagSum.SUM, 1),
    ],
)
def test_partitions_as_one_number(
    partitions: list[float], aggregate: LagSum, expected: int
) -> None:
    assert aggregate_lag(partitions, aggregate) == expected


@given(st.lists(st.floats(0, 1e12), min_size=1), st.sampled_from(LagSum))
def test_the_order_of_partitions_means_nothing(partitions: list[float], aggregate: LagSum) -> None:
    assert aggregate_lag(sorted(partitions), aggregate) == aggregate_lag(
        sorted(partitions)[::-1], aggregate
    )
    assert aggregate_lag(partitions, LagSum.MAX) <= aggregate_lag(partitions, LagSum.SUM)
    assert aggregate_lag(partitions, LagSum.MAX) == math.ceil(max(partitions))


@pytest.mark.parametrize(("count", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_nouns_are_counted(count: int, text: str) -> None:
    assert counted(count, "pod") == text
