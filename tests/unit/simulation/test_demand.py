"""Demands: what they ask at which time, and that what they say of the future holds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.units import Micros, MilliCpu, Ratio, percent
from slackwater.simulation.demand import (
    DAY,
    FOREVER,
    SECOND,
    Daily,
    Demand,
    Spike,
    Square,
    Steady,
    Steps,
    Sum,
    noise,
)


def milli(level: int) -> MilliCpu:
    return MilliCpu(level)


def at(seconds: float) -> Micros:
    return Micros(round(seconds * SECOND))


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 it has to come again


SPIKE = Spike(at(10), milli(3000), at(5), milli(200))
SQUARE = Square(at(10), percent(30), milli(1000), milli(100))
DAILY = Daily(milli(1000), milli(500))
STEPS = Steps((milli(1), milli(2), milli(3)))


@pytest.mark.parametrize(
    ("demand", "when", "level", "until"),
    [
        (Steady(milli(700)), at(0), 700, FOREVER),
        (Steady(milli(700)), DAY, 700, FOREVER),
        (SPIKE, at(0), 200, at(10)),
        (SPIKE, at(9.999999), 200, at(10)),
        (SPIKE, at(10), 3000, at(15)),
        (SPIKE, at(14.999999), 3000, at(15)),
        (SPIKE, at(15), 200, FOREVER),
        (SQUARE, at(0), 1000, at(3)),
        (SQUARE, at(2.999999), 1000, at(3)),
        (SQUARE, at(3), 100, at(10)),
        (SQUARE, at(43.5), 100, at(50)),
        (SQUARE, at(40.5), 1000, at(43)),
        (Square(at(10), Ratio(0), milli(9)), at(5), 0, at(10)),
        (Square(at(10), Ratio(1), milli(9)), at(5), 9, at(10)),
        (DAILY, at(0), 500, at(1)),
        (DAILY, Micros(DAY // 4), 1000, Micros(DAY // 4 + SECOND)),
        (DAILY, Micros(DAY // 2), 1500, Micros(DAY // 2 + SECOND)),
        (DAILY, Micros(DAY // 2 + 999_999), 1500, Micros(DAY // 2 + SECOND)),
        (DAILY, Micros(5 * DAY // 2), 1500, Micros(5 * DAY // 2 + SECOND)),
        (Daily(milli(100), milli(500)), at(0), 0, at(1)),
        (Daily(milli(100), milli(50), at(60), at(15), at(5)), at(15), 150, at(20)),
        (STEPS, at(0), 1, at(1)),
        (STEPS, at(2.5), 3, at(3)),
        (STEPS, at(4), 2, at(5)),
        (Sum((SPIKE, SQUARE)), at(11), 4000, at(13)),
        (Sum((SPIKE, Steady(milli(1)))), at(20), 201, FOREVER),
        (Sum(()), at(20), 0, FOREVER),
    ],
)
def test_what_is_wanted(demand: Demand, when: Micros, level: int, until: Micros) -> None:
    assert demand(when) == level
    assert demand.holds_until(when) == until


TIMES = st.integers(0, 3 * DAY).map(Micros)
LEVELS = st.integers(0, 64_000).map(MilliCpu)
SPANS = st.integers(1, 2 * DAY).map(Micros)


def demands() -> st.SearchStrategy[Demand]:
    single: list[st.SearchStrategy[Demand]] = [
        st.builds(Steady, LEVELS),
        st.builds(Daily, LEVELS, LEVELS, SPANS, TIMES, SPANS),
        st.builds(Spike, TIMES, LEVELS, SPANS, LEVELS),
        st.builds(Square, SPANS, st.integers(0, 100).map(percent), LEVELS, LEVELS),
        st.builds(Steps, st.lists(LEVELS, min_size=1, max_size=9).map(tuple), SPANS),
    ]
    parts = st.one_of(single)
    return st.one_of(parts, st.builds(Sum, st.lists(parts, max_size=3).map(tuple)))


@given(demands(), TIMES, st.floats(0, 1))
def test_the_level_holds_as_long_as_was_said(demand: Demand, when: Micros, part: float) -> None:
    until = demand.holds_until(when)
    assert until > when
    between = Micros(min(int(when + (until - when) * part), until - 1))
    assert demand(between) == demand(when)


@given(demands(), TIMES)
def test_nothing_negative_is_wanted(demand: Demand, when: Micros) -> None:
    assert demand(when) >= 0


@given(st.integers(0, 2**32), st.integers(0, 900), st.integers(900, 2000))
def test_noise_comes_from_the_chance_that_was_passed_in(seed: int, low: int, high: int) -> None:
    one = noise(chance(seed), milli(low), milli(high), SECOND, 50)
    same = noise(chance(seed), milli(low), milli(high), SECOND, 50)
    assert one == same
    assert len(one.levels) == 50
    assert all(low <= level <= high for level in one.levels)


def test_noise_is_noisy() -> None:
    source = chance(7)
    drawn = noise(source, milli(0), milli(1000))
    assert len(drawn.levels) == 3600
    assert abs(sum(drawn.levels) / 3600 - 500) < 25
    assert len(set(drawn.levels)) > 900
    assert noise(source, milli(0), milli(1000)) != drawn
