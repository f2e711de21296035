"""A percentile of the past: a histogram in which a sample loses half its weight each half-life.

Crane reads the half-life and never applies it. The histogram can be kept as a checkpoint, so that a
start needs no history.
"""

import math

import msgspec
import numpy as np

from slackwater.prediction.history import Samples
from slackwater.prediction.parameters import HistogramParameters, PercentileParameters

#: A value at a bucket's edge must not fall below it because of how decimals are stored.
_EDGE = 1e-9
#: Weights grow with time; beyond this many half-lives they are scaled back.
_MOST_DOUBLINGS = 100


class HistogramCheckpoint(msgspec.Struct, frozen=True):
    """Weights of the buckets that are not empty, at a time in seconds since 1970."""

    at: float
    weights: dict[int, float]


class SampleHistogram:
    """Owns the weights of the buckets. The last bucket has no upper end."""

    def __init__(self, parameters: HistogramParameters) -> None:
        self._parameters = parameters
        self._starts = bucket_starts(parameters)
        self._weights = np.zeros(len(self._starts))
        #: The time at which a new sample has its plain weight.
        self._reference = -math.inf

    def add(self, times: Samples, values: Samples, weights: Samples) -> None:
        """Values that are not numbers are left out."""
        known = np.isfinite(values)
        if not known.any():
            return
        times, values, weights = times[known], values[known], weights[known]
        self._move_reference(float(times.max()))
        decayed = weights * np.exp2((times - self._reference) / self._parameters.half_life)
        places = np.searchsorted(self._starts, values * (1 + _EDGE), side="right") - 1
        places = np.clip(places, 0, len(self._starts) - 1)
        self._weights += np.bincount(places, decayed, len(self._starts))

    def _move_reference(self, to: float) -> None:
        """All weights halve with each half-life that the reference moves."""
        if self._reference == -math.inf:
            self._reference = to
        elapsed = (to - self._reference) / self._parameters.half_life
        if elapsed > 0:
            self._weights *= 2.0 ** -min(elapsed, 10 * _MOST_DOUBLINGS)
            self._reference = to

    def percentile(self, share: float) -> float | None:
        """The upper end of the bucket that holds it; None without samples."""
        filled = np.where(self._weights < self._parameters.epsilon, 0.0, self._weights)
        total = float(filled.sum())
        if total <= 0:
            return None
        reached = np.cumsum(filled) >= share * total * (1 - _EDGE)
        place = int(np.argmax(reached & (filled > 0)))
        return float(self._starts[min(place + 1, len(self._starts) - 1)])

    def checkpoint(self) -> HistogramCheckpoint:
        places = np.flatnonzero(self._weights >= self._parameters.epsilon)
        return HistogramCheckpoint(
            self._reference, {int(place): float(self._weights[place]) for place in places}
        )

    def restore(self, checkpoint: HistogramCheckpoint) -> None:
        """Buckets that are no longer there are dropped: the parameters have changed."""
        self._reference = checkpoint.at
        self._weights[:] = 0
        for place, weight in checkpoint.weights.items():
            if 0 <= place < len(self._weights):
                self._weights[place] = weight


def bucket_starts(parameters: HistogramParameters) -> Samples:
    """Where each bucket begins. The last is the first that reaches the largest value."""
    first, growth = parameters.first_bucket_size, parameters.growth
    if not growth:
        count = math.ceil(parameters.max_value / first - _EDGE) + 1
        return np.arange(count, dtype=np.float64) * first
    ratio = 1 + growth
    count = math.ceil(math.log1p(parameters.max_value * growth / first) / math.log(ratio)) + 1
    starts: Samples = first * (ratio ** np.arange(count, dtype=np.float64) - 1) / growth
    return starts


class PercentileModel:
    """A histogram and what is read from it."""

    def __init__(
        self, parameters: PercentileParameters, checkpoint: HistogramCheckpoint | None = None
    ) -> None:
        self._parameters = parameters
        self._histogram = SampleHistogram(parameters.histogram)
        if checkpoint is not None:
            self._histogram.restore(checkpoint)

    def add(self, times: Samples, values: Samples) -> None:
        """A sample weighs as much as its value, so that the busy times decide."""
        weights = np.maximum(self._parameters.min_sample_weight, values)
        self._histogram.add(times, values, weights)

    def estimate(self) -> float | None:
        found = self._histogram.percentile(self._parameters.percentile)
        if found is None:
            return None
        by = self._parameters
        return found * (1 + by.margin_fraction) / by.target_utilization

    def checkpoint(self) -> HistogramCheckpoint:
        return self._histogram.checkpoint()
