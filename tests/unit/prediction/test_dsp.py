"""Crane's DSP: the waves that are kept, the errors, the outliers, the choice of an estimator."""

import numpy as np
import pytest

from slackwater.prediction.dsp import (
    EstimatorParameters,
    choose_estimator,
    estimate,
    prediction_error,
    prepare,
    replace_outliers,
)
from slackwater.prediction.history import DAY, HOUR, History, Samples
from slackwater.prediction.parameters import FftParameters, MaxValueParameters
from slackwater.prediction.period import Period

MINUTE = 60.0
A_DAY = 1440


def wave(amplitude: float, period: float, days: int = 2) -> Samples:
    times = MINUTE * np.arange(days * A_DAY, dtype=np.float64)
    result: Samples = amplitude * np.sin(2 * np.pi * times / period)
    return result


CLEAN = 10 + wave(5, DAY)


def fft(values: Samples, parameters: FftParameters) -> Samples:
    return estimate(values, A_DAY, MINUTE, parameters)


def test_a_wave_is_continued() -> None:
    assert fft(CLEAN, FftParameters()) == pytest.approx(CLEAN[:A_DAY], abs=1e-12)


def test_row_45_weak_fast_waves_are_left_out_unless_they_are_asked_for() -> None:
    noisy = CLEAN + wave(0.5, 600)
    few = fft(noisy, FftParameters(min_spectrum_items=1))
    assert np.abs(few - CLEAN[:A_DAY]).max() < 1e-12
    assert fft(noisy, FftParameters(min_spectrum_items=3)) == pytest.approx(noisy[:A_DAY])


def test_row_47_a_weak_slow_wave_keeps_its_whole_amplitude() -> None:
    slow = CLEAN + wave(0.4, 21_600)
    assert fft(slow, FftParameters(min_spectrum_items=1))[90] == pytest.approx(12.3134, abs=5e-5)


@pytest.mark.parametrize(
    ("parameters", "at_noon"),
    [
        (FftParameters(margin_fraction=0.2), 12.0),
        (MaxValueParameters(), 10.0),
        (MaxValueParameters(margin_fraction=0.1), 11.0),
    ],
)
def test_margins(parameters: FftParameters | MaxValueParameters, at_noon: float) -> None:
    assert estimate(CLEAN, A_DAY, MINUTE, parameters)[720] == pytest.approx(at_noon)


def test_the_largest_number_of_waves() -> None:
    two = CLEAN + wave(3, 7200)
    kept = fft(
        two, FftParameters(min_spectrum_items=1, max_spectrum_items=1, high_frequency_threshold=0)
    )
    assert kept == pytest.approx(CLEAN[:A_DAY], abs=1e-9)


def test_a_low_threshold_of_amplitudes_keeps_weak_waves() -> None:
    noisy = CLEAN + wave(0.5, 600)
    kept = fft(noisy, FftParameters(min_spectrum_items=1, low_amplitude_threshold=0.2))
    assert kept == pytest.approx(noisy[:A_DAY])


def test_waves_below_nothing_are_next_to_nothing() -> None:
    below = fft(wave(5, DAY), FftParameters(margin_fraction=0.5))
    assert below[1080] == pytest.approx(0.015)


def test_the_largest_value_of_each_time_of_the_period() -> None:
    values = np.array([1.0, 5.0, 2.0, 3.0, 4.0, 9.0])
    assert list(estimate(values, 3, MINUTE, MaxValueParameters())) == [3.0, 5.0, 9.0]


def test_row_51_outliers_become_the_value_before_them() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 10_080)
    for place, outlier in ((1000, 3.5), (3000, -1.0), (8000, 1000.0)):
        values[place] = outlier
    cleaned = replace_outliers(values)
    for place in (1000, 3000, 8000):
        assert cleaned[place] == cleaned[place - 1]
    assert (cleaned == values).mean() > 0.99


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [3.0] * 50])
def test_nothing_is_an_outlier_in_a_short_or_constant_series(values: list[float]) -> None:
    assert list(replace_outliers(np.array(values))) == values


def test_preparing_keeps_whole_hours_since_the_last_gap() -> None:
    values = np.arange(200.0)
    values[20] = np.nan
    prepared = prepare(History(0.0, MINUTE, values))
    assert len(prepared.values) == 120
    assert prepared.end == 199 * MINUTE


def test_preparing_less_than_an_hour_leaves_nothing() -> None:
    assert len(prepare(History(0.0, MINUTE, np.ones(59))).values) == 0


@pytest.mark.parametrize(
    ("actual", "predicted", "error"),
    [
        ([10.0, 10.0], [10.0, 10.0], 0.0),
        ([10.0], [12.0], 0.2),
        ([10.0], [8.0], 1.0),  # a fifth too little counts like twice too much
        ([10.0, 10.0], [12.0, 8.0], 0.6),
        ([0.0, 1.0], [0.5, 1.0], 0.25),  # next to nothing: the absolute error
    ],
)
def test_errors(actual: list[float], predicted: list[float], error: float) -> None:
    assert prediction_error(np.array(actual), np.array(predicted)) == pytest.approx(error)


def test_a_prediction_of_nothing_has_a_finite_error() -> None:
    assert np.isfinite(prediction_error(np.array([1.0]), np.array([0.0])))


def test_the_estimator_with_the_least_error_is_chosen() -> None:
    days = np.concatenate([CLEAN[:A_DAY], CLEAN[:A_DAY], 1.2 * CLEAN[:A_DAY]])
    history = History(0.0, MINUTE, days)
    candidates = [MaxValueParameters(margin) for margin in (0.0, 0.2, 0.5)]
    chosen = choose_estimator(history, Period(A_DAY, DAY, 1.0), candidates)
    assert chosen.estimator == MaxValueParameters(0.2)
    assert chosen.error == pytest.approx(0.0, abs=1e-12)
    assert chosen.coming == pytest.approx(1.2 * 1.2 * CLEAN[:A_DAY])


def test_the_first_of_equals_is_chosen() -> None:
    history = History(0.0, HOUR, np.tile(np.arange(1.0, 25.0), 3))
    candidates: list[EstimatorParameters] = [MaxValueParameters(), FftParameters(0.0, 0.0, 1.0)]
    assert choose_estimator(history, Period(24, DAY, 1.0), candidates).estimator == candidates[0]
