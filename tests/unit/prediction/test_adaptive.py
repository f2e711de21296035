"""The adaptive estimator: what it learns, what it remembers, and that it knows no future."""

import msgspec
import numpy as np
import pytest

from slackwater.prediction.adaptive import AdaptiveMemory, PeakForecast, forecast_peaks
from slackwater.prediction.history import DAY, HOUR, History, Samples

MINUTE = 60.0
AN_HOUR = 60


def daily(days: float, seed: int = 1, noise: float = 0.05) -> Samples:
    """Quiet at night, busy by day, by the minute."""
    times = MINUTE * np.arange(round(days * DAY / MINUTE))
    drawn = np.random.default_rng(seed).normal(0, noise, len(times))
    result: Samples = 4 * (1 + 0.6 * np.sin(2 * np.pi * times / DAY)) * np.exp(drawn)
    return result


def until(values: Samples, hour: int, days: float = 3) -> History:
    """What is known at an hour, of the last days."""
    first = max(hour - round(days * 24), 0)
    return History(first * HOUR, MINUTE, values[first * AN_HOUR : hour * AN_HOUR])


def forecast_one(history: History, memory: AdaptiveMemory | None = None) -> PeakForecast:
    return forecast_peaks([history], [HOUR], [memory])[0]


def walk(values: Samples, first: int = 72) -> tuple[Samples, Samples]:
    """The real and the forecast peaks of each hour from the fourth day on."""
    memory: AdaptiveMemory | None = None
    real, said = [], []
    for hour in range(first, len(values) // AN_HOUR):
        found = forecast_one(until(values, hour), memory)
        memory = found.memory
        said.append(found.next)
        real.append(values[hour * AN_HOUR : (hour + 1) * AN_HOUR].max())
    return np.array(real), np.array(said)


def test_a_daily_series_is_seldom_exceeded_and_followed_closely() -> None:
    real, said = walk(daily(9))
    assert (real > said).mean() <= 0.03
    assert (said / real).mean() < 1.35
    assert said.min() < 0.6 * said.max()  # the night is sold too


@pytest.mark.parametrize("kind", ["shifts", "bursts", "trend"])
def test_other_series_are_seldom_exceeded(kind: str) -> None:
    values = daily(12)
    random = np.random.default_rng(5)
    if kind == "shifts":
        values[5 * 1440 :] *= 2
        values[9 * 1440 :] *= 0.4
    elif kind == "bursts":
        for start in random.integers(0, len(values), 60):
            values[start : start + 20] += random.exponential(6)
    else:
        values += np.linspace(0, 8, len(values))
    real, said = walk(values)
    assert (real > said).mean() <= 0.06


def test_a_series_that_repeats_itself_exactly_is_never_exceeded() -> None:
    """What is remembered is rounded; that must not put a forecast below the peak it comes from."""
    times = MINUTE * np.arange(round(7 * DAY / MINUTE))
    real, said = walk(1e6 * (2 + np.sin(2 * np.pi * times / DAY)))
    assert not (real > said).any()
    assert (said / real).mean() < 1.05


def test_the_future_changes_nothing() -> None:
    values = daily(6)
    changed = values.copy()
    np.random.default_rng(2).shuffle(changed[100 * AN_HOUR :])
    changed[110 * AN_HOUR :] *= 10
    _, before = walk(values[: 101 * AN_HOUR])
    _, after = walk(changed[: 101 * AN_HOUR])
    assert list(before[:29]) == list(after[:29])
    assert forecast_one(until(values, 100)) == forecast_one(until(changed, 100))


def test_a_forecast_is_never_below_the_last_minutes() -> None:
    values = daily(3)
    values[-5:] = 100.0
    assert forecast_one(until(values, 72)).next >= 100.0


def test_after_exceeded_windows_it_gets_careful_and_then_calms_down() -> None:
    memory = forecast_one(until(daily(3), 72)).memory
    assert memory.caution == 0.8  # until it has seen its own errors
    high = np.concatenate([daily(3), np.full(AN_HOUR, 50.0)])
    alarmed = forecast_one(until(high, 73), memory).memory
    assert alarmed.caution == pytest.approx(0.8 + 0.3 * 0.97)
    calm = np.concatenate([high, np.full(AN_HOUR, 1.0)])
    assert 0 < forecast_one(until(calm, 74), alarmed).memory.caution < alarmed.caution


def test_what_it_says_about_the_last_day_is_what_it_had_said() -> None:
    values = daily(5)
    found = forecast_one(until(values, 72))
    said = [found.next]
    for hour in range(73, 110):
        found = forecast_one(until(values, hour), found.memory)
        said.append(found.next)
    peaks = values[: 109 * AN_HOUR].reshape(-1, AN_HOUR).max(axis=1)
    assert found.last_day is not None
    assert found.last_day.windows == 24
    real, told = peaks[85:109], np.array(said[13:37])
    assert found.last_day.exceeded == int((real > told).sum())
    assert found.last_day.error == pytest.approx(np.abs(told - real).mean() / real.mean(), rel=1e-5)


def test_the_first_forecast_has_no_last_day() -> None:
    assert forecast_one(until(daily(3), 72)).last_day is None


@pytest.mark.parametrize("hours", [1, 5, 24, 35])
def test_little_history_gets_a_rule_of_thumb(hours: int) -> None:
    history = until(daily(3), hours)
    found = forecast_one(history)
    assert not found.is_learnt
    assert found.next == pytest.approx(1.5 * history.values.max())


def test_36_hours_are_enough_to_learn_from() -> None:
    assert forecast_one(until(daily(3), 36)).learnt_from == 12


def test_many_series_are_forecast_as_each_alone() -> None:
    histories = [until(daily(3, seed), hour) for seed, hour in ((1, 72), (2, 60), (3, 72), (4, 10))]
    histories += [until(daily(3, seed), 72) for seed in range(20)]
    windows = [HOUR, HOUR, 2 * HOUR, *[HOUR] * 21]
    together = forecast_peaks(histories, windows, [None] * len(histories))
    for history, window, found in zip(histories, windows, together, strict=True):
        alone = forecast_peaks([history], [window], [None])[0]
        assert found.next == pytest.approx(alone.next)
        assert found.following == pytest.approx(alone.following)


def test_the_window_after_the_next_is_not_below_the_next() -> None:
    for hour in range(72, 96):
        found = forecast_one(until(daily(4), hour))
        assert found.following >= found.next


def test_a_second_forecast_within_the_window_counts_once() -> None:
    values = daily(5)
    first = forecast_one(until(values, 80))
    again = History(8 * HOUR + 600, MINUTE, values[8 * AN_HOUR + 10 : 80 * AN_HOUR + 10])
    second = forecast_one(again, first.memory)
    assert second.memory.peaks == first.memory.peaks
    assert second.memory.until == first.memory.until
    third = forecast_one(until(values, 81), second.memory)
    assert len(third.memory.peaks) == len(first.memory.peaks) + 4
    assert third.last_day is not None
    assert third.last_day.windows == 1


def test_missed_forecasts_leave_holes_and_no_judgement() -> None:
    values = daily(6)
    memory = forecast_one(until(values, 80)).memory
    later = forecast_one(until(values, 85), memory)
    assert later.last_day is not None
    assert later.last_day.windows == 1
    assert len(later.memory.peaks) == len(memory.peaks) + 5 * 4


def test_more_windows_passed_than_the_history_has() -> None:
    values = daily(12)
    memory = forecast_one(until(values, 80)).memory
    found = forecast_one(until(values, 200, days=2), memory)
    assert np.isfinite(found.next)
    assert found.is_learnt


def test_what_is_remembered_is_bounded() -> None:
    values = daily(20, noise=0.01)
    memory: AdaptiveMemory | None = None
    for hour in range(72, 20 * 24, 6):
        memory = forecast_one(until(values, hour), memory).memory
    assert memory is not None
    assert len(memory.peaks) == 14 * 24 * 4
    assert len(memory.forecasts) <= 25 * 4


def test_a_memory_survives_json() -> None:
    memory = forecast_one(until(daily(3), 72)).memory
    kept = msgspec.json.decode(msgspec.json.encode(memory), type=AdaptiveMemory)
    values = daily(4)
    assert forecast_one(until(values, 73), kept) == forecast_one(until(values, 73), memory)
    assert len(msgspec.json.encode(memory)) < 3000


@pytest.mark.parametrize(
    "memory",
    [
        AdaptiveMemory(1e12, HOUR, b"", b""),  # of a clock that was ahead
        AdaptiveMemory(0.0, 2 * HOUR, b"", b""),  # of another window
    ],
)
def test_a_memory_that_does_not_fit_is_not_used(memory: AdaptiveMemory) -> None:
    history = until(daily(3), 72)
    assert forecast_one(history, memory) == forecast_one(history)


@pytest.mark.parametrize("value", [0.0, 1e-12, 3.0, 1e15])
def test_a_constant_series(value: float) -> None:
    found = forecast_one(History(0.0, MINUTE, np.full(72 * AN_HOUR, value)))
    assert found.next == pytest.approx(value, rel=1e-6)


def test_a_gap_in_the_history() -> None:
    values = daily(3)
    values[30 * AN_HOUR : 34 * AN_HOUR] = np.nan
    found = forecast_one(History(0.0, MINUTE, values))
    assert np.isfinite(found.next)
    assert found.learnt_from == 48


def test_the_unit_does_not_matter() -> None:
    small, large = (walk(factor * daily(5))[1] for factor in (1, 1e6))
    assert large == pytest.approx(1e6 * small, rel=1e-4)
