"""Crane's DSP: a series with a period is continued by what the past periods show.

Each estimator predicts one period from the ones before it. The one that would have been best at
predicting the last period is used.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from slackwater.prediction.history import HOUR, History, Samples
from slackwater.prediction.parameters import FftParameters, MaxValueParameters
from slackwater.prediction.period import Period

EstimatorParameters = FftParameters | MaxValueParameters

#: Where the waves add up to nothing or less; Crane's value.
_SMALLEST = 0.01
#: An actual value below it makes a relative error meaningless.
_ALMOST_NOTHING = 0.001
#: An under-prediction by a fifth counts like an over-prediction by the whole.
_UNDER_BASE = math.log(1.25)
#: Of samples that count as outliers, at either end.
_OUTLIERS = 0.001


class DspChoice(msgspec.Struct, frozen=True):
    """The estimator in use, the coming period by it, and its error on the last period."""

    estimator: EstimatorParameters
    coming: Samples
    error: float


def replace_outliers(values: Samples) -> Samples:
    """A value above the 99.9th or below the 0.1th percentile becomes the one before it."""
    if len(values) < 2:
        return values
    ordered = np.sort(values)
    last = len(values) - 1
    low, high = ordered[math.floor(_OUTLIERS * last)], ordered[math.ceil((1 - _OUTLIERS) * last)]
    good = (values >= low) & (values <= high)
    good[0] = True
    replaced: Samples = values[np.maximum.accumulate(np.where(good, np.arange(len(values)), 0))]
    return replaced


def prepare(history: History) -> History:
    """What follows the last gap, in whole hours, without outliers."""
    unbroken = history.since_gap()
    hours = len(unbroken.values) // unbroken.count(HOUR)
    if not hours:
        return msgspec.structs.replace(unbroken, values=np.empty(0))
    whole = unbroken.last(hours * HOUR)
    return msgspec.structs.replace(whole, values=replace_outliers(whole.values))


def estimate(values: Samples, period: int, interval: float, by: EstimatorParameters) -> Samples:
    """One period, from whole periods of the past."""
    if isinstance(by, MaxValueParameters):
        coming = values.reshape(-1, period).max(axis=0)
    else:
        coming = _strongest_waves(values, interval, by)[-period:]
        coming = np.where(coming <= 0, _SMALLEST, coming)
    scaled: Samples = coming * (1 + by.margin_fraction)
    return scaled


def _strongest_waves(values: Samples, interval: float, by: FftParameters) -> Samples:
    """The series with its weak fast waves left out.

    A real transform keeps a wave and its mirror together; Crane's filter loses one of them for
    slow waves, which halves their amplitude.
    """
    size = len(values)
    spectrum = np.fft.rfft(values)
    amplitudes = np.abs(spectrum) / size
    descending = np.sort(amplitudes[1 : size // 2])[::-1]
    if len(descending) == 0:
        return values
    least = descending[min(by.max_spectrum_items, len(descending)) - 1]
    least = max(least, by.low_amplitude_threshold)
    least = min(least, descending[min(by.min_spectrum_items, len(descending)) - 1])
    frequencies = np.fft.rfftfreq(size, interval)
    spectrum[(amplitudes < least) & (frequencies > by.high_frequency_threshold)] = 0
    filtered: Samples = np.fft.irfft(spectrum, size)
    return filtered


def prediction_error(actual: Samples, predicted: Samples) -> float:
    """The mean relative error, with an under-prediction e counting as -ln(1 - e) / ln 1.25; the
    mean absolute error where an actual value is next to nothing."""
    if np.any(actual < _ALMOST_NOTHING):
        return float(np.mean(np.abs(actual - predicted)))
    over = (predicted - actual) / actual
    # A prediction of nothing would count without bound.
    under = -np.log(np.maximum(predicted / actual, 1e-9)) / _UNDER_BASE
    return float(np.mean(np.where(over >= 0, over, under)))


def choose_estimator(
    history: History, period: Period, candidates: Sequence[EstimatorParameters]
) -> DspChoice:
    """By the least error on the last period; the first of equals."""
    whole = len(history.values) // period.samples
    values = history.values[len(history.values) - whole * period.samples :]
    past, last = values[: -period.samples], values[-period.samples :]
    errors = [
        prediction_error(last, estimate(past, period.samples, history.interval, each))
        for each in candidates
    ]
    best = int(np.argmin(errors))
    coming = estimate(values, period.samples, history.interval, candidates[best])
    return DspChoice(candidates[best], coming, errors[best])
