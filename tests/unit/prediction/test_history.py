"""Samples on a grid of times, and the gaps between them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.prediction.history import (
    MOST_SAMPLES,
    History,
    build_history,
    median_interval,
    window_peaks,
)

MINUTE = 60.0


def build(times: list[float], values: list[float], interval: float = MINUTE) -> History:
    history = build_history(times, values, interval)
    assert isinstance(history, History)
    return history


def test_a_regular_series_stays_as_it_is() -> None:
    history = build([100.0, 160.0, 220.0], [1.0, 2.0, 3.0])
    assert (history.start, history.end, list(history.values)) == (100.0, 220.0, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("times", "values", "expected"),
    [
        ([0, 180], [1, 4], [1, 2, 3, 4]),
        ([0, 60, 180], [1, math.nan, 4], [1, 2, 3, 4]),
        ([0, 60], [-1, 2], [0, 2]),
        ([0, 58, 121], [1, 2, 3], [1, 2, 3]),  # times that are a little off
        ([0, 60, 61], [1, 2, 9], [1, 9]),  # two at one point: the largest
    ],
)
def test_grids(times: list[float], values: list[float], expected: list[float]) -> None:
    assert list(build(times, values).values) == pytest.approx(expected)


def test_a_long_gap_stays_open() -> None:
    history = build([0, 60, 60 + 2 * 3600, 120 + 2 * 3600], [1, 1, 5, 5])
    assert np.isnan(history.values).sum() == 119
    assert list(history.since_gap().values) == [5, 5]
    assert history.since_gap().end == history.end


def test_a_gap_of_an_hour_is_bridged() -> None:
    history = build([0, 3600, 3660], [1, 5, 5])
    assert not np.isnan(history.values).any()
    assert history.since_gap() is not history
    assert len(history.since_gap().values) == len(history.values)


@pytest.mark.parametrize(
    ("times", "values", "reason"),
    [
        ([], [], "no sample"),
        ([0.0], [math.nan], "no sample"),
        ([60.0, 0.0], [1.0, 1.0], "order of time"),
        ([0.0, MINUTE * MOST_SAMPLES], [1.0, 1.0], "span 600001 intervals"),
    ],
)
def test_what_makes_no_history(times: list[float], values: list[float], reason: str) -> None:
    history = build_history(times, values, MINUTE)
    assert isinstance(history, Gap)
    assert reason in history.reason


def test_parts() -> None:
    history = build([MINUTE * n for n in range(10)], list(range(10)))
    assert list(history.last(120).values) == [8, 9]
    assert history.last(120).start == 480
    assert list(history.before(120).values) == list(range(8))
    assert len(history.last(1e9).values) == 10
    assert len(history.before(1e9).values) == 0
    assert history.seconds == 600


def test_peaks_are_counted_back_from_the_end() -> None:
    history = History(0.0, MINUTE, np.array([9.0, 1, 2, 3, 2, np.nan, np.nan, np.nan, 4]))
    assert list(window_peaks(history, 120)) == pytest.approx([2, 3, math.nan, 4], nan_ok=True)
    assert len(window_peaks(history, 3600)) == 0


def test_the_usual_interval() -> None:
    assert median_interval([0, 60, 120, 500, 560]) == 60
    assert math.isnan(median_interval([1]))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(1, 3600))
def test_a_history_keeps_the_last_time_and_every_value(values: list[float], step: float) -> None:
    times = [1e9 + step * place for place in range(len(values))]
    history = build(times, values, step)
    assert history.end == times[-1]
    assert list(history.values) == values
