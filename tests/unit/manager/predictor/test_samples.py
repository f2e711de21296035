"""Samples on their grid: what is fetched, what is kept, and what counts as a history."""

import math

import numpy as np
import pytest

from slackwater.http.prometheus_api import SeriesRange
from slackwater.manager.predictor.promql import MetricHistoryQuery
from slackwater.manager.predictor.samples import MOST_SERIES, MetricSamples
from slackwater.model.gap import Gap

NOW = 1_794_900_000.0
HOUR = 3600.0
QUERY = MetricHistoryQuery("up")


def made(length: float = 3 * HOUR) -> MetricSamples:
    return MetricSamples(QUERY, 60.0, length)


def series(start: float, *values: float, **labels: str) -> SeriesRange:
    first = start // 60 * 60
    return SeriesRange(labels, [first + 60 * k for k in range(len(values))], list(values))


def test_first_everything_then_what_is_new() -> None:
    samples = made()
    first = samples.request(NOW)
    assert (first.start, first.end) == (NOW - 3 * HOUR + 60, NOW)
    samples.add([series(first.start, *([1.0] * 180))], NOW)
    later = samples.request(NOW + HOUR)
    assert (later.start, later.end) == (NOW - 120, NOW + HOUR)


def test_old_samples_go_and_an_overlap_is_one() -> None:
    samples = made()
    samples.add([series(NOW - 3 * HOUR + 60, *([1.0] * 180))], NOW)
    samples.add([series(NOW - 120, *([2.0] * 63))], NOW + HOUR)
    histories = samples.histories(NOW + HOUR)
    assert not isinstance(histories, Gap)
    [history] = histories.values()
    assert (len(history.values), history.end) == (180, NOW + HOUR)
    assert list(history.values[[0, 116, 117, 179]]) == [1.0, 1.0, 2.0, 2.0]


def test_after_an_outage_everything_since_is_fetched() -> None:
    samples = made(48 * HOUR)
    samples.add([series(NOW - HOUR, *([1.0] * 61))], NOW)
    again = samples.request(NOW + 24 * HOUR)
    assert again.start == NOW - 120


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "the query gives no series"),
        ([series(NOW, math.nan)], "there is no sample that is a number"),
        ([series(NOW - 2 * HOUR, 1.0, 1.0)], "the newest sample is 119 minutes old"),
        (
            [series(NOW, 1.0, pod=str(k)) for k in range(MOST_SERIES + 1)],
            "the query gives 101 series, and at most 100 are predicted",
        ),
    ],
)
def test_what_is_no_history(answer: list[SeriesRange], said: str) -> None:
    samples = made()
    samples.add(answer, NOW)
    assert samples.histories(NOW) == Gap(said)


def test_a_series_that_ended_does_not_hold_up_the_others() -> None:
    samples = made()
    samples.add([series(NOW - 2 * HOUR, 1.0, pod="a"), series(NOW, 1.0, pod="b")], NOW)
    histories = samples.histories(NOW)
    assert not isinstance(histories, Gap)
    assert list(histories) == [(("pod", "b"),)]


def test_a_clock_that_was_set_back_takes_its_samples_along() -> None:
    samples = made()
    samples.add([series(NOW - HOUR, *([1.0] * 61))], NOW)
    back = NOW - HOUR / 2
    assert samples.request(back).end == back
    samples.add([series(back, 2.0)], back)
    histories = samples.histories(back)
    assert not isinstance(histories, Gap)
    [history] = histories.values()
    assert (history.end, history.values[-1]) == (back, 2.0)


def test_gaps_stay_gaps() -> None:
    samples = made()
    samples.add([series(NOW - 3 * HOUR, 1.0), series(NOW, 1.0)], NOW)
    histories = samples.histories(NOW)
    assert not isinstance(histories, Gap)
    [history] = histories.values()
    assert np.isnan(history.values).any() or len(history.values) == 1
