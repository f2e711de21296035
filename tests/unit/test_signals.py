"""The ramp and the dead band."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.units import MilliCpu
from slackwater.signals import is_beyond_deadband, ramp_towards

FLOOR = MilliCpu(10)
AMOUNTS = st.integers(0, 500_000).map(MilliCpu)


@pytest.mark.parametrize(
    ("last", "goal", "recover", "claim"),
    [
        (600, 200, 10, 200),  # down at once
        (600, 600, 10, 600),
        (600, 800, 10, 660),
        (600, 620, 10, 620),
        (100, 10_000, 150, 250),  # 150 % is legal
        (0, 800, 10, 11),  # from nothing: the floor and 10 % of it
        (0, 100_000, 10, 1_100),  # 1 % of the goal is more than the floor
        (9, 800, 10, 11),  # Volcano's dead zone: stuck at 1 to 9 m
        (11, 800, 1, 12),  # a raise is at least 1 m
        (0, 5, 10, 5),
    ],
)
def test_rows(last: int, goal: int, recover: int, claim: int) -> None:
    assert ramp_towards(MilliCpu(last), MilliCpu(goal), recover, FLOOR) == claim


@given(AMOUNTS, AMOUNTS, st.integers(1, 1000))
def test_it_never_overshoots_and_never_stands_still(
    last: MilliCpu, goal: MilliCpu, recover: int
) -> None:
    claim = ramp_towards(last, goal, recover, FLOOR)
    assert claim == goal if goal <= last else last < claim <= goal


@given(AMOUNTS, st.integers(10, 1000))
def test_it_reaches_any_goal_in_few_ticks(goal: MilliCpu, recover: int) -> None:
    claim, ticks = MilliCpu(0), 0
    while claim != goal:
        claim, ticks = ramp_towards(claim, goal, recover, FLOOR), ticks + 1
    assert ticks <= 60


@pytest.mark.parametrize(
    ("last", "now", "jitter", "expected"),
    [
        (1000, 1009, 1, False),
        (1000, 1010, 1, True),
        (1000, 990, 1, True),
        (100, 100, 1, False),  # facts/volcano.md row 11
        (50, 50, 1, False),  # Volcano emits every tick below 100 m
        (50, 51, 1, True),
        (0, 0, 1, False),
        (0, 1, 1, True),
        (1000, 1001, 0, True),  # a jitter of 0: every change counts
    ],
)
def test_dead_band(last: int, now: int, jitter: int, expected: bool) -> None:
    assert is_beyond_deadband(MilliCpu(last), MilliCpu(now), jitter) is expected
