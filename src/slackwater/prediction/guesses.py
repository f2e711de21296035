"""Cheap guesses of the next window's peak, each with a scale for its margin.

A forecast is `guess + margin * scale`, and the margin is learnt (prediction.adaptive). The same
guesses are made for past windows as for the next one, always from what came before. Everything is
computed for many series at once: arrays are [series, guess, window].
"""

import msgspec
import numpy as np

from slackwater.prediction.history import Samples

#: The place of the guess that is the last peak.
LAST = 1
#: How many days the guesses by time of day look back.
DAYS = 7
#: Of the last hours; a shift to another level shows in them first.
_RECENT = 3
#: The smallest scale, as a share of the largest peak.
_SMALLEST_SCALE = 1e-3


class Guesses(msgspec.Struct, frozen=True):
    """`value` and `scale` of each guess for each window. The last window is the next one, which has
    no peak yet; `peaks` are those of the others."""

    value: Samples
    scale: Samples
    peaks: Samples


def make_guesses(peaks: Samples, a_day: int, learnt_from: int) -> Guesses:
    """For the next window and up to `learnt_from` windows before it.

    `peaks` is [series, window]: the newest is the last, a series that is shorter than the others
    begins with NaN, and its last peak is a number. `a_day` is a day in windows.
    """
    size = min(peaks.shape[1], learnt_from)
    before = _Past(peaks, size + 1)
    values = np.stack(_values(before, a_day), axis=1)
    scales = _scales(before, a_day)
    largest = np.nanmax(peaks, axis=1)[:, None, None]
    # Each value with each scale, and with itself as one: a margin that is a factor.
    pairs = np.concatenate([values, values, values[:, 1:]], axis=1)
    count = values.shape[1]
    each = np.concatenate(
        [
            np.repeat(scales[0][:, None], count, axis=1),
            np.repeat(scales[1][:, None], count, axis=1),
            values[:, 1:],
        ],
        axis=1,
    )
    smallest = np.maximum(_SMALLEST_SCALE * largest, np.finfo(np.float64).tiny)
    return Guesses(pairs, np.maximum(each, smallest), peaks[:, peaks.shape[1] - size :])


class _Past:
    """Peaks of some windows before each of the last `size` windows."""

    def __init__(self, peaks: Samples, size: int) -> None:
        self._size = size
        self._series, self._length = peaks.shape
        self._peaks = peaks
        sums = np.cumsum(np.nan_to_num(peaks), axis=1)
        known = np.cumsum(~np.isnan(peaks), axis=1)
        self._sums = np.concatenate([np.zeros((self._series, 1)), sums], axis=1)
        self._known = np.concatenate([np.zeros((self._series, 1)), known], axis=1)

    def at(self, back: int) -> Samples:
        """The peak this many windows before each; NaN where there was none."""
        first = self._length - self._size + 1 - back
        found = self._peaks[:, max(first, 0) : max(first + self._size, 0)]
        missing = self._size - found.shape[1]
        if missing:
            found = np.concatenate([np.full((self._series, missing), np.nan), found], axis=1)
        return found

    def mean(self, count: int) -> Samples:
        """Of up to `count` windows before each."""
        ends = np.arange(self._length - self._size + 1, self._length + 1)
        starts = np.maximum(ends - count, 0)
        known = self._known[:, ends] - self._known[:, starts]
        found: Samples = (self._sums[:, ends] - self._sums[:, starts]) / np.maximum(known, 1)
        return found

    def largest(self, backs: range) -> Samples:
        found = self.at(backs[0])
        for back in backs[1:]:
            found = np.fmax(found, self.at(back))
        return found


def _values(past: _Past, a_day: int) -> list[Samples]:
    """The first is zero: a forecast by its scale alone."""
    last = past.at(1)
    same = [past.at(day * a_day) for day in range(1, DAYS + 1)]
    near = same + [past.at(day * a_day + by) for day in range(1, DAYS + 1) for by in (-1, 1)]
    largest_of_three = _largest(same[:3])
    largest_of_week = _largest(same)
    mean_of_week, mean_of_three = _mean(same), _mean(same[:3])
    found = [
        np.zeros_like(last),
        last,
        past.largest(range(1, _RECENT + 1)),
        past.largest(range(1, a_day + 1)),
        largest_of_three,
        largest_of_week,
        _largest(near),
        mean_of_week,
        (last + same[0] + mean_of_three) / 3,
        (last + mean_of_week) / 2,
        (last + largest_of_week) / 2,
        np.fmax(last, largest_of_week),
    ]
    # Windows without a day before them are not learnt from; any number will do for them.
    return [np.nan_to_num(each) for each in found]


def _scales(past: _Past, a_day: int) -> tuple[Samples, Samples]:
    """The level of the series, and the spread of the same time of the days before."""
    near = [past.at(day * a_day + by) for day in range(1, DAYS + 1) for by in (-1, 0, 1)]
    mean = _mean(near)
    spread = np.sqrt(np.maximum(_mean([each**2 for each in near]) - mean**2, 0))
    return past.mean(10 * a_day), np.nan_to_num(spread)


def _largest(several: list[Samples]) -> Samples:
    found = several[0]
    for each in several[1:]:
        found = np.fmax(found, each)
    return found


def _mean(several: list[Samples]) -> Samples:
    """Of those that are known."""
    total, known = np.zeros_like(several[0]), np.zeros_like(several[0])
    for each in several:
        total += np.nan_to_num(each)
        known += ~np.isnan(each)
    found: Samples = total / np.maximum(known, 1)
    return found
