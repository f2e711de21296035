"""Which series have a period, and which one."""

import numpy as np
import pytest

from slackwater.prediction.history import DAY, HOUR, WEEK, History, Samples
from slackwater.prediction.period import autocorrelation, find_period

MINUTE = 60.0


def at(times: Samples, period: float) -> Samples:
    return np.sin(2 * np.pi * times / period)


def times(days: float, interval: float = MINUTE) -> Samples:
    return interval * np.arange(round(days * DAY / interval), dtype=np.float64)


def noise(size: int, seed: int = 1) -> Samples:
    return np.random.default_rng(seed).normal(0, 1, size)


def test_row_49_the_autocorrelation_of_odd_harmonics() -> None:
    seconds = np.arange(1000) / 1000
    square = sum((np.sin(2 * np.pi * 5 * k * seconds) / k for k in (1, 3, 5)), np.zeros(1000))
    correlations = autocorrelation(square)
    assert correlations[100] == pytest.approx(-1)
    assert correlations[200] == pytest.approx(1)


def test_a_constant_series_correlates_with_nothing() -> None:
    assert not autocorrelation(np.full(100, 3.0)).any()


@pytest.mark.parametrize(
    ("days", "periods", "found"),
    [
        (3, (DAY,), DAY),
        (3, (DAY, DAY / 2), DAY),
        (15, (DAY,), DAY),
        (15, (WEEK, DAY), WEEK),
        (6, (DAY,), DAY),  # less than two weeks
        (3, (8 * HOUR,), 8 * HOUR),
        (7, (30 * HOUR,), 30 * HOUR),
        (1.9, (4 * HOUR,), 4 * HOUR),  # less than two days
    ],
)
def test_periods(days: float, periods: tuple[float, ...], found: float) -> None:
    each = times(days)
    values = sum((at(each, period) for period in periods), 10 + 0.2 * noise(len(each)))
    period = find_period(History(0.0, MINUTE, values))
    assert period is not None
    assert period.seconds == pytest.approx(found, rel=0.02)
    assert period.correlation > 0.5


def test_row_53_days_alike_are_a_day_and_quiet_weekends_a_week() -> None:
    """The shapes of Crane's own test series; benchmarks/forecast.py looks at the real ones."""
    each = times(15)
    day = 10 + at(each, DAY) + 0.2 * noise(len(each))
    for values, name in ((day, "a day"), (np.where(each // DAY % 7 < 5, day, 9.0), "a week")):
        period = find_period(History(0.0, MINUTE, values))
        assert period is not None
        assert period.name == name


@pytest.mark.parametrize("seed", range(5))
def test_noise_has_no_period(seed: int) -> None:
    assert find_period(History(0.0, MINUTE, 10 + noise(3 * 1440, seed))) is None


@pytest.mark.parametrize(
    "values",
    [
        np.full(3 * 1440, 2.0),
        np.linspace(1, 2, 3 * 1440),
        np.cumsum(noise(3 * 1440)),
        np.ones(30),
        np.empty(0),
    ],
    ids=["constant", "trend", "random walk", "half an hour", "nothing"],
)
def test_no_period(values: Samples) -> None:
    assert find_period(History(0.0, MINUTE, values)) is None


def test_a_period_shorter_than_an_hour_is_none() -> None:
    assert find_period(History(0.0, MINUTE, 10 + at(times(3), 1200.0))) is None


def test_a_weak_day_counts_and_another_weak_period_does_not() -> None:
    each = times(6)
    weak = 1.2 * noise(len(each))
    daily = find_period(History(0.0, MINUTE, 10 + at(each, DAY) + weak))
    assert daily is not None
    assert daily.name == "a day"
    assert daily.correlation < 0.5
    assert find_period(History(0.0, MINUTE, 10 + at(each, 8 * HOUR) + weak)) is None


def test_the_same_history_has_the_same_period() -> None:
    history = History(0.0, MINUTE, 10 + at(times(3), DAY) + noise(3 * 1440))
    assert find_period(history) == find_period(history)
