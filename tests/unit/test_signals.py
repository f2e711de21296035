"""The ramp and the dead band."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.units import MilliCpu
from slackwater.signals import is_beyond_deadband, ramp_towards

FLOOR = MilliCpu(10)
PERCENTAGES = st.integers(1, 100)
AMOUNTS = st.integers(0, 500_000).map(MilliCpu)


@pytest.mark.parametrize(
    ("last", "goal", "recover", "start", "claim"),
    [
        (600, 200, 10, 25, 200),  # down at once
        (10, 200, 10, 100, 200),
        (600, 600, 10, 25, 600),
        (600, 800, 10, 25, 660),
        (600, 620, 10, 25, 620),
        (2500, 10_000, 150, 25, 6250),  # 150 % is legal
        (0, 800, 10, 25, 200),  # from nothing to a quarter
        (199, 800, 10, 25, 200),  # from just below it too, although 10 % more were allowed
        (200, 800, 10, 25, 220),
        (0, 100_000, 10, 1, 1_000),
        (0, 800, 10, 1, 10),  # never below what the kernel grants
        (9, 800, 10, 1, 10),  # Volcano's dead zone: stuck at 1 to 9 m
        (11, 800, 1, 1, 12),  # a raise is at least 1 m
        (0, 5, 10, 25, 5),
        (0, 800, 10, 100, 800),
    ],
)
def test_rows(last: int, goal: int, recover: int, start: int, claim: int) -> None:
    assert ramp_towards(MilliCpu(last), MilliCpu(goal), recover, start, FLOOR) == claim


@given(AMOUNTS, AMOUNTS, st.integers(1, 1000), PERCENTAGES)
def test_it_never_overshoots_and_never_stands_still(
    last: MilliCpu, goal: MilliCpu, recover: int, start: int
) -> None:
    claim = ramp_towards(last, goal, recover, start, FLOOR)
    assert claim == goal if goal <= last else last < claim <= goal


@given(AMOUNTS, AMOUNTS, st.integers(1, 1000), PERCENTAGES)
def test_a_raise_is_a_step_or_goes_to_the_start(
    last: MilliCpu, goal: MilliCpu, recover: int, start: int
) -> None:
    claim = ramp_towards(last, goal, recover, start, FLOOR)
    step = last + max(last * recover // 100, 1)
    assert claim <= max(step, goal * start // 100, FLOOR)


@given(AMOUNTS, st.integers(10, 1000), st.integers(25, 100))
def test_it_reaches_any_goal_in_few_ticks(goal: MilliCpu, recover: int, start: int) -> None:
    """A quarter grows to nine tenths in 14 steps of 10 %; below 100 m the steps are 1 m."""
    claim, ticks = MilliCpu(0), 0
    while claim < 0.9 * goal:
        claim, ticks = ramp_towards(claim, goal, recover, start, FLOOR), ticks + 1
    assert ticks <= 20


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
