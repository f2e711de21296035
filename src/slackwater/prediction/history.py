"""The past of one series on a regular grid of times, and what is missing in it."""

import math

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from slackwater.model.gap import Gap

Samples = NDArray[np.float64]

HOUR, DAY, WEEK = 3600.0, 86_400.0, 604_800.0
#: A gap up to this long is bridged by a straight line; a longer one stays open.
LONGEST_BRIDGE = HOUR
#: A grid of more points is a mistake in the times: a year by the minute.
MOST_SAMPLES = 600_000


class History(msgspec.Struct, frozen=True):
    """`values[k]` was measured at `start + k * interval`; times are seconds since 1970.

    NaN is a sample within a gap that is too long to be bridged. The first and the last are numbers.
    """

    start: float
    interval: float
    values: Samples

    @property
    def end(self) -> float:
        """The time of the last sample."""
        return self.start + (len(self.values) - 1) * self.interval

    @property
    def seconds(self) -> float:
        """How long it is, each sample standing for one interval."""
        return len(self.values) * self.interval

    @property
    def times(self) -> Samples:
        return self.start + self.interval * np.arange(len(self.values), dtype=np.float64)

    def count(self, seconds: float) -> int:
        """How many samples these seconds have."""
        return max(round(seconds / self.interval), 1)

    def last(self, seconds: float) -> "History":
        """The newest part; all of it where it is shorter than that."""
        kept = min(self.count(seconds), len(self.values))
        return self._from(len(self.values) - kept)

    def before(self, seconds: float) -> "History":
        """Without the newest part."""
        left = max(len(self.values) - self.count(seconds), 0)
        return History(self.start, self.interval, self.values[:left])

    def since_gap(self) -> "History":
        """What follows the last gap."""
        open_places = np.flatnonzero(np.isnan(self.values))
        return self._from(int(open_places[-1]) + 1 if len(open_places) else 0)

    def _from(self, place: int) -> "History":
        return History(self.start + place * self.interval, self.interval, self.values[place:])


def build_history(times: ArrayLike, values: ArrayLike, interval: float) -> History | Gap:
    """Samples of ascending times on a grid that ends with the last of them.

    A value that is not finite is a sample that is missing, and a negative one is zero: usage is
    never below that, but a difference of two counters may be. Of several samples at one point of
    the grid the largest counts.
    """
    seen_at, seen = np.asarray(times, np.float64), np.asarray(values, np.float64)
    known = np.isfinite(seen)
    if not known.any():
        return Gap("there is no sample that is a number")
    seen_at, seen = seen_at[known], np.maximum(seen[known], 0.0)
    if np.any(np.diff(seen_at) < 0):
        return Gap("the samples are not in the order of time")
    places = np.rint((seen_at - seen_at[-1]) / interval).astype(np.int64)
    places -= places[0]
    size = int(places[-1]) + 1
    if size > MOST_SAMPLES:
        return Gap(f"the samples span {size} intervals of {interval:g} s, over {MOST_SAMPLES}")
    grid = np.full(size, -np.inf)
    np.maximum.at(grid, places, seen)
    start = float(seen_at[-1]) - (size - 1) * interval
    return History(start, interval, _bridge(grid, interval))


def _bridge(grid: Samples, interval: float) -> Samples:
    """Short gaps by straight lines, long ones as NaN."""
    known = np.flatnonzero(grid > -np.inf)
    if len(known) == len(grid):
        return grid
    everywhere = np.arange(len(grid))
    filled = np.interp(everywhere, known, grid[known])
    following = np.searchsorted(known, everywhere)
    width = (known[following] - known[np.maximum(following - 1, 0)]) * interval
    is_open = (grid == -np.inf) & (width > LONGEST_BRIDGE + interval / 2)
    return np.where(is_open, np.nan, filled)


def median_interval(times: ArrayLike) -> float:
    """The usual time between two samples, in seconds; NaN for fewer than two."""
    steps = np.diff(np.asarray(times, np.float64))
    return float(np.median(steps)) if len(steps) else math.nan


def window_peaks(history: History, window: float) -> Samples:
    """The maximum of each whole window, counted back from the end; the last is the newest.

    NaN where every sample of a window is missing.
    """
    size = history.count(window)
    whole = len(history.values) // size
    blocks = history.values[len(history.values) - whole * size :].reshape(whole, size)
    peaks: Samples = np.fmax.reduce(blocks, axis=1) if whole else np.empty(0)
    return peaks
