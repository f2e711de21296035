"""Whether a series repeats itself, and after how long.

As Crane does it: frequencies that stand out of the spectrum are hints, and a hint counts if the
autocorrelation has a hill there. Three repairs: what stands out is computed instead of drawn by
lot, any period counts that repeats clearly enough, and one that hardly repeats does not.
"""

import functools
import math
from collections.abc import Callable

import msgspec
import numpy as np

from slackwater.prediction.history import DAY, HOUR, WEEK, History, Samples

#: The autocorrelation that a day or a week must have. Crane has no bound; the weakest of its own
#: test series that people would call daily or weekly has 0.12.
LEAST_OF_A_CALENDAR_PERIOD = 0.1
#: Of any other period, for which nothing speaks but the series itself.
LEAST_OF_ANOTHER_PERIOD = 0.5
#: A shorter period than this is below what a forecast of hours can use.
_SHORTEST = HOUR
#: How unlikely the strongest frequency of pure noise must be to stand out.
_CHANCE = 0.01
#: A hill this close to a day or a week is that day or week: clocks drift, samples are late.
_NEAR = 0.02


class Period(msgspec.Struct, frozen=True):
    """`samples` long; `correlation` of the series with itself one period later, up to 1."""

    samples: int
    seconds: float
    correlation: float

    @property
    def name(self) -> str:
        named = {DAY: "a day", WEEK: "a week"}.get(self.seconds)
        return named or f"{self.seconds / HOUR:.1f} h"


def autocorrelation(values: Samples) -> Samples:
    """The circular one, for each lag; all zero for a constant series."""
    spread = float(np.std(values))
    if spread == 0.0 or not math.isfinite(spread):
        return np.zeros(len(values))
    spectrum = np.fft.rfft((values - np.mean(values)) / spread)
    correlations: Samples = np.fft.irfft(np.abs(spectrum) ** 2, len(values)) / len(values)
    return correlations


def _unbiased_autocorrelation(values: Samples) -> Samples:
    """Not circular: the end is not compared with the beginning, which blurs a period that does not
    fit the length. For lags up to half of it."""
    size = len(values)
    around = values - np.mean(values)
    variance = float(np.var(values))
    if variance == 0.0:
        return np.zeros(size // 2 + 1)
    spectrum = np.fft.rfft(around, 2 * size)
    sums = np.fft.irfft(np.abs(spectrum) ** 2, 2 * size)[: size // 2 + 1]
    correlations: Samples = sums / (size - np.arange(size // 2 + 1)) / variance
    return correlations


def find_period(history: History) -> Period | None:
    """The period with the highest autocorrelation, of at least two whole periods. The history must
    have no open gap."""
    values = _whole_calendar_periods(history)
    if len(values) < 2 * history.count(_SHORTEST):
        return None
    correlations = autocorrelation(values)
    # Only periods that are no day or week need it, and it takes as long as all the rest.
    unbiased = functools.cache(lambda: _unbiased_autocorrelation(values))
    found = (
        _judge(hint, correlations, unbiased, history.interval)
        for hint in _hints(values, history.count(_SHORTEST))
    )
    return max(
        (each for each in found if each is not None),
        key=lambda each: each.correlation,
        default=None,
    )


def _whole_calendar_periods(history: History) -> Samples:
    """The newest whole weeks where there are two, else the newest whole days where there are two,
    else everything: a spectrum shows a period sharply if it fits the length."""
    for length in (WEEK, DAY):
        size = history.count(length)
        whole = len(history.values) // size
        if whole >= 2:
            return history.values[len(history.values) - whole * size :]
    return history.values


def _hints(values: Samples, shortest: int) -> list[int]:
    """Periods in samples whose frequency stands out, the longest first.

    For noise of the same variance the squared amplitudes are exponentially distributed with the
    mean N * variance, so the largest of N/2 exceeds this threshold with the chance of 1 %.
    """
    size = len(values)
    powers = np.abs(np.fft.rfft(values - np.mean(values))) ** 2
    bins = size // 2
    threshold = -math.log(-math.expm1(math.log1p(-_CHANCE) / bins)) * size * float(np.var(values))
    places = np.flatnonzero(powers[2:bins] > threshold) + 2
    hints = dict.fromkeys(size // int(place) for place in places)
    return [hint for hint in hints if hint >= shortest]


def _judge(
    hint: int, correlations: Samples, unbiased: Callable[[], Samples], interval: float
) -> Period | None:
    """The period at the hill that a hint points to, if there is one that is high enough."""
    reach = min(round(4 * HOUR / interval), hint // 2)
    left, right = correlations[hint - reach : hint + 1], correlations[hint : hint + reach + 1]
    if len(left) < 2 or len(right) < 2 or _slope(left) <= 0 or _slope(right) >= 0:
        return None
    for calendar in (DAY, WEEK):
        if abs(hint * interval - calendar) <= _NEAR * calendar:
            samples = round(calendar / interval)
            correlation = float(correlations[samples])
            enough = correlation >= LEAST_OF_A_CALENDAR_PERIOD
            return Period(samples, calendar, correlation) if enough else None
    hill = unbiased()[hint - reach : hint + reach + 1]
    samples = hint - reach + int(np.argmax(hill))
    correlation = float(hill[samples - hint + reach])
    if correlation < LEAST_OF_ANOTHER_PERIOD:
        return None
    return Period(samples, samples * interval, correlation)


def _slope(values: Samples) -> float:
    """Of the straight line of least squares; only its sign matters."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    return float(places @ values)
