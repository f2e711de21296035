"""Forecasts by each algorithm: values, estimator, reason, error."""

import numpy as np
import pytest

from slackwater.model.gap import Gap
from slackwater.prediction.forecasting import Forecast, ForecastRequest, forecast, forecast_all
from slackwater.prediction.history import DAY, HOUR, History, Samples
from slackwater.prediction.parameters import (
    AdaptiveParameters,
    AlgorithmParameters,
    DspParameters,
    FftParameters,
    HistogramParameters,
    MaxValueParameters,
    PercentileParameters,
)

MINUTE = 60.0
#: The seed's template: its threshold is above every frequency, so nothing is filtered.
TEMPLATE = DspParameters(60.0, 3 * DAY, (FftParameters(0.2, 1.0, 0.05, 10, 20),))


def daily(days: float, noise: float = 0.02) -> Samples:
    times = MINUTE * np.arange(round(days * DAY / MINUTE))
    drawn = np.random.default_rng(1).normal(0, noise, len(times))
    result: Samples = 4 * (1 + 0.6 * np.sin(2 * np.pi * times / DAY)) + drawn
    return result


def noise(days: float) -> Samples:
    return np.random.default_rng(1).uniform(1, 2, round(days * DAY / MINUTE))


def made(values: Samples, parameters: AlgorithmParameters, window: float = HOUR) -> Forecast:
    found = forecast(ForecastRequest(History(1e9, MINUTE, values), parameters, window))
    assert isinstance(found, Forecast)
    return found


def test_the_seeds_template_is_the_last_day_and_a_fifth() -> None:
    values = daily(3)
    found = made(values, TEMPLATE)
    assert found.estimator == "fft"
    assert found.asked
    assert "repeats after a day" in found.because
    assert found.start == 1e9 + 3 * DAY
    assert len(found.values) == 120
    assert found.values == pytest.approx(1.2 * values[-1440 : -1440 + 120], rel=0.05)


@pytest.mark.parametrize(
    "parameters", [TEMPLATE, PercentileParameters(), AdaptiveParameters()], ids=["d", "p", "a"]
)
@pytest.mark.parametrize("window", [600.0, HOUR, 2 * HOUR])
def test_two_windows_follow_the_history(parameters: AlgorithmParameters, window: float) -> None:
    found = made(daily(3), parameters, window)
    assert found.start == 1e9 + 3 * DAY
    assert len(found.values) * found.interval == 2 * window
    assert np.isfinite(found.values).all()
    assert found.peak(window) == found.values[: len(found.values) // 2].max()


def test_a_series_without_a_period_gets_the_percentile_and_says_so() -> None:
    found = made(noise(3), TEMPLATE)
    assert found.estimator == "percentile"
    assert not found.asked
    assert found.because == (
        "72 h without a gap show no period; dsp needs one, so the percentile 0.99"
    )
    assert found.values[0] == pytest.approx(2.0, abs=0.05)


def test_the_fall_back_fits_any_size() -> None:
    for factor in (1e-6, 1.0, 1e9):
        assert made(factor * noise(3), TEMPLATE).values[0] / factor == pytest.approx(2, abs=0.05)


def test_the_best_estimator_is_told() -> None:
    parameters = DspParameters(estimators=(MaxValueParameters(0.5), MaxValueParameters(0.0)))
    found = made(daily(4), parameters)
    assert found.estimator == "maxValue"
    assert "of 2 estimators" in found.because


def test_errors_on_the_last_day() -> None:
    found = made(daily(4, noise=0.0), TEMPLATE).last_day
    assert found is not None
    assert (found.windows, found.exceeded) == (24, 0)
    assert found.error == pytest.approx(0.2, abs=0.01)
    assert made(daily(2), TEMPLATE).last_day is None  # one day is left, and dsp needs two
    of_percentile = made(noise(3), PercentileParameters()).last_day
    assert of_percentile is not None
    assert of_percentile.error < 0.1


def test_a_busier_last_day_shows_as_exceeded() -> None:
    values = noise(3)
    values[-1440:] *= 3
    found = made(values, PercentileParameters()).last_day
    assert found is not None
    assert found.exceeded == 24


def test_a_percentile_goes_on_from_its_checkpoint() -> None:
    values = noise(4)
    parameters = PercentileParameters(percentile=0.5)
    first = made(values[:-1440], parameters)
    later = History(1e9 + 3 * DAY, MINUTE, values[-1440:])
    found = forecast(ForecastRequest(later, parameters, HOUR, first.memory))
    assert isinstance(found, Forecast)
    assert "checkpoint" in found.because
    assert found.values[0] == made(values, parameters).values[0]


def test_a_percentile_of_several_series_together() -> None:
    small, large = History(0.0, MINUTE, noise(1)), History(0.0, MINUTE, 10 * noise(1))
    request = ForecastRequest(small, PercentileParameters(aggregated=True), HOUR, beside=(large,))
    found = forecast(request)
    assert isinstance(found, Forecast)
    assert found.values[0] > 15


def test_a_histogram_that_is_too_small_is_told() -> None:
    parameters = PercentileParameters(histogram=HistogramParameters(1.0, 0.1))
    assert made(noise(1), parameters).because.endswith("whose histogram ends at maxValue 1")


def test_adaptive_learns_from_its_memory() -> None:
    values = daily(4)
    first = made(values[:-60], AdaptiveParameters())
    assert first.because == "margins learnt from 48 windows"
    assert first.last_day is None
    history = History(1e9 + 3600, MINUTE, values[60:])
    second = forecast(ForecastRequest(history, AdaptiveParameters(), HOUR, first.memory))
    assert isinstance(second, Forecast)
    assert second.because == "margins learnt from 49 windows"
    assert second.last_day is not None


def test_adaptive_says_where_it_cannot_learn_yet() -> None:
    assert "too little past" in made(daily(0.5), AdaptiveParameters()).because


@pytest.mark.parametrize(
    "parameters", [TEMPLATE, PercentileParameters(), AdaptiveParameters()], ids=["d", "p", "a"]
)
def test_five_minutes_are_no_history(parameters: AlgorithmParameters) -> None:
    request = ForecastRequest(History(0.0, MINUTE, np.ones(5)), parameters, HOUR)
    assert forecast(request) == Gap("there are 5 minutes of history, and a forecast needs 60")


def test_all_keep_their_order() -> None:
    history = History(0.0, MINUTE, daily(3))
    short = History(0.0, MINUTE, np.ones(5))
    parameters = (AdaptiveParameters(), TEMPLATE, PercentileParameters(), AdaptiveParameters())
    requests = [ForecastRequest(history, each, HOUR) for each in parameters]
    requests.insert(2, ForecastRequest(short, AdaptiveParameters(), HOUR))
    found = forecast_all(requests)
    names = [each.estimator if isinstance(each, Forecast) else "gap" for each in found]
    assert names == ["adaptive", "fft", "gap", "percentile", "adaptive"]


def test_nothing_is_asked_for() -> None:
    assert forecast_all(()) == []
