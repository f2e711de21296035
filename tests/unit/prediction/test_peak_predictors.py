"""The published predictors of a peak."""

import numpy as np
import pytest

from slackwater.prediction.history import DAY, HOUR, History
from slackwater.prediction.peak_predictors import (
    predict_by_both,
    predict_by_last_day,
    predict_by_percentile,
    predict_by_sigma,
)


def hourly(*values: float) -> History:
    return History(0.0, HOUR, np.array(values))


def test_the_last_day_and_a_fifth() -> None:
    day = np.ones(24)
    day[0] = 5.0  # the hour that comes again
    assert predict_by_last_day(History(0.0, HOUR, day), HOUR) == 6.0


def test_the_last_minutes_if_they_are_more() -> None:
    assert predict_by_last_day(hourly(*[1.0] * 23, 4.0), HOUR) == 4.0


def test_a_last_day_with_a_gap() -> None:
    assert predict_by_last_day(hourly(np.nan, *[2.0] * 23), HOUR) == 2.0


def test_a_history_shorter_than_a_day() -> None:
    assert predict_by_last_day(hourly(3.0, 1.0), HOUR) == pytest.approx(3.6)


def test_the_others() -> None:
    history = History(0.0, 60.0, np.concatenate([np.full(1440, 9.0), np.tile([1.0, 3.0], 60)]))
    assert predict_by_percentile(history) == 9.0
    assert predict_by_sigma(history) == pytest.approx(2 + 5 * 1)
    assert predict_by_both(history) == 9.0
    assert predict_by_both(history.last(DAY / 12)) == pytest.approx(7.0)
