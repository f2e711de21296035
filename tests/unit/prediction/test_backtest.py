"""Backtests: what is counted, and that no forecast sees the future."""

import numpy as np
import pytest

from slackwater.model.gap import Gap
from slackwater.prediction.backtest import (
    PREDICTORS,
    BacktestTerms,
    PeakPredictor,
    SeriesBacktest,
    backtest_series,
    count_windows,
    predict_with,
)
from slackwater.prediction.history import DAY, HOUR, History, Samples
from slackwater.prediction.parameters import DspParameters, FftParameters

MINUTE = 60.0
TERMS = BacktestTerms(2 * HOUR, HOUR)


def always(value: float) -> PeakPredictor:
    return lambda _history, _window, memory: (value, memory)


def run(
    values: Samples, predictors: dict[str, PeakPredictor], terms: BacktestTerms = TERMS
) -> SeriesBacktest:
    found = backtest_series("s", History(0.0, MINUTE, values), predictors, terms)
    assert isinstance(found, SeriesBacktest)
    return found


def test_what_is_counted() -> None:
    """Two hours of history, then hours with peaks 1, 3, 2 and 1."""
    values = np.ones(6 * 60)
    values[185:190] = 3.0
    values[245:248] = 2.0
    test = run(values, {"two": always(2.0)}, BacktestTerms(2 * HOUR, HOUR, 4.0))
    (result,) = test.results
    assert (result.windows, result.exceeded, result.worst) == (4, 0.25, 1.0)
    assert result.sold_of_oracle == pytest.approx(8 / 9)
    assert result.seconds == 5 * MINUTE
    assert list(test.real) == [1.0, 3.0, 2.0, 1.0]
    assert list(test.starts) == [2 * HOUR, 3 * HOUR, 4 * HOUR, 5 * HOUR]


@pytest.mark.parametrize(
    ("forecast", "capacity", "sold"),
    [(1.0, 2.0, 1.0), (1.5, 2.0, 0.5), (9.0, 2.0, 0.0), (1.0, None, 1.0), (1.0, 0.5, None)],
)
def test_what_is_sold(forecast: float, capacity: float | None, sold: float | None) -> None:
    terms = BacktestTerms(2 * HOUR, HOUR, capacity)
    (result,) = run(np.ones(240), {"x": always(forecast)}, terms).results
    assert result.sold_of_oracle == sold


def test_the_results_have_the_names_that_are_documented() -> None:
    import msgspec

    (result,) = run(np.ones(240), {"x": always(1.0)}).results
    keys = list(msgspec.to_builtins(result))
    assert keys == [
        "series", "estimator", "windows", "exceeded", "worst", "soldOfOracle", "seconds"
    ]  # fmt: skip


def test_each_forecast_sees_its_history_and_nothing_else() -> None:
    seen: list[tuple[float, float]] = []

    def note(history: History, _window: float, memory: object) -> tuple[float, None]:
        seen.append((history.values[0], history.values[-1]))
        return 1.0, None

    run(np.arange(300.0), {"x": note})
    assert seen == [(0.0, 119.0), (60.0, 179.0), (120.0, 239.0)]


@pytest.mark.parametrize("name", list(PREDICTORS))
def test_a_changed_future_changes_no_forecast(name: str) -> None:
    random = np.random.default_rng(3)
    values = random.gamma(2.0, 1.0, 5 * 1440)
    changed = values.copy()
    first = 4 * 1440 + 60
    random.shuffle(changed[first:])
    changed[first + 30 :] *= 50
    terms = BacktestTerms(3 * DAY, HOUR)
    before, after = (run(each, {name: PREDICTORS[name]}, terms) for each in (values, changed))
    known = 25 + 1
    assert list(before.forecasts[name][:known]) == list(after.forecasts[name][:known])
    assert list(before.forecasts[name][known:]) != list(after.forecasts[name][known:])


def test_memories_are_kept_apart() -> None:
    random = np.random.default_rng(3)
    values = random.gamma(2.0, 1.0, 4 * 1440)
    terms = BacktestTerms(3 * DAY, HOUR)
    adaptive = PREDICTORS["adaptive"]
    both = run(values, {"a": adaptive, "b": adaptive}, terms)
    assert list(both.forecasts["a"]) == list(both.forecasts["b"])


def test_windows_in_a_gap_are_left_out() -> None:
    values = np.ones(8 * 60)
    values[200:330] = np.nan  # from within the fourth hour into the sixth
    test = run(values, {"x": always(1.0)})
    assert list(test.starts / HOUR) == [2.0, 3.0, 6.0, 7.0]
    assert test.results[0].windows == 4


def test_a_forecast_that_was_not_made_does_not_count() -> None:
    test = run(np.ones(300), {"x": lambda _h, _w, m: (Gap("no"), m)})
    (result,) = test.results
    assert (result.windows, result.exceeded, result.sold_of_oracle) == (0, 0.0, None)
    assert np.isnan(test.forecasts["x"]).all()


def test_a_template_is_tried_as_the_manager_would_use_it() -> None:
    times = MINUTE * np.arange(5 * 1440)
    values = 10 + 5 * np.sin(2 * np.pi * times / DAY)
    template = DspParameters(60.0, 3 * DAY, (FftParameters(0.2, 1.0, 0.05, 10, 20),))
    test = run(values, {"t": predict_with(template)}, BacktestTerms())
    assert test.forecasts["t"] == pytest.approx(1.2 * test.real, rel=1e-4)


@pytest.mark.parametrize(("minutes", "windows"), [(0, 0), (120, 0), (179, 0), (180, 1), (300, 3)])
def test_counting_windows(minutes: int, windows: int) -> None:
    assert count_windows(History(0.0, MINUTE, np.ones(minutes)), TERMS) == windows


def test_nothing_to_test() -> None:
    assert isinstance(backtest_series("s", History(0.0, MINUTE, np.ones(9)), {}, TERMS), Gap)


def test_progress_is_told_for_each_window() -> None:
    told: list[None] = []
    values = np.ones(8 * 60)
    values[200:330] = np.nan
    history = History(0.0, MINUTE, values)
    backtest_series("s", history, {"x": always(1.0)}, TERMS, lambda: told.append(None))
    assert len(told) == count_windows(history, TERMS) == 6
