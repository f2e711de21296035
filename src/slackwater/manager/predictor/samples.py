"""The history of one metric: its series on a grid of times, of which only the end is fetched again.

Prometheus is asked at whole multiples of the interval, so that a sample's place is a number and two
answers about the same time are the same sample. Values are kept with seven digits: three days of
5,000 nodes by the minute are 86 MB.
"""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from slackwater.http.prometheus_api import SeriesRange
from slackwater.manager.predictor.promql import MetricHistoryQuery
from slackwater.model.gap import Gap
from slackwater.prediction.forecasting import ForecastMemory
from slackwater.prediction.history import History, build_history

#: Samples that are fetched again: the newest ones may not have been whole.
_OVERLAP = 3
#: A series whose newest sample is older than this has ended.
_STALE_SECONDS, _STALE_INTERVALS = 900.0, 5
MOST_SERIES = 100

#: A series' labels, in order.
SeriesKey = tuple[tuple[str, str], ...]


class HistoryRequest(msgspec.Struct, frozen=True):
    """Which samples to ask for: from `start` to `end`, in seconds since 1970, both included."""

    query: MetricHistoryQuery
    start: float
    end: float
    interval: float


class MetricSamples:
    """Guards the samples of one metric, and what its last forecasts left for the next ones."""

    def __init__(self, query: MetricHistoryQuery, interval: float, length: float) -> None:
        self.query = query
        self.interval = interval
        self._length = length
        self._first: dict[SeriesKey, int] = {}
        self._values: dict[SeriesKey, NDArray[np.float32]] = {}
        self.memories: dict[SeriesKey, ForecastMemory] = {}

    def is_for(self, query: MetricHistoryQuery, interval: float, length: float) -> bool:
        return (self.query, self.interval, self._length) == (query, interval, length)

    def request(self, now: float) -> HistoryRequest:
        """What is missing up to now."""
        end = int(now // self.interval)
        begin = end - round(self._length / self.interval) + 1
        known = [self._first[key] + len(values) for key, values in self._values.items()]
        if known:
            # After the clock was set back, what seems to come from the future is fetched anew.
            begin = max(begin, min(max(known), end) - _OVERLAP)
        return HistoryRequest(self.query, begin * self.interval, end * self.interval, self.interval)

    def add(self, answer: Iterable[SeriesRange], now: float) -> None:
        end = int(now // self.interval)
        for series in answer:
            key = tuple(sorted(series.labels.items()))
            places = np.rint(np.asarray(series.times) / self.interval).astype(np.int64)
            inside = places <= end
            if inside.any():
                values = np.asarray(series.values, np.float32)
                self._put(key, places[inside], values[inside])
        self._drop_old(end)

    def _put(self, key: SeriesKey, places: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        first = min(self._first.get(key, int(places[0])), int(places[0]))
        there = self._values.get(key, np.empty(0, np.float32))
        offset = self._first.get(key, first) - first
        size = max(offset + len(there), int(places[-1]) - first + 1)
        grid = np.full(size, np.nan, np.float32)
        grid[offset : offset + len(there)] = there
        grid[places - first] = values
        self._first[key], self._values[key] = first, grid

    def _drop_old(self, end: int) -> None:
        kept = round(self._length / self.interval)
        for key in list(self._values):
            # What lies behind `end` was measured by a clock that has been set back since.
            values = self._values[key][: max(end + 1 - self._first[key], 0)]
            cut = max(end + 1 - kept - self._first[key], 0)
            if cut >= len(values):
                del self._values[key], self._first[key]
                self.memories.pop(key, None)
            else:
                self._values[key], self._first[key] = values[cut:].copy(), self._first[key] + cut

    def histories(self, now: float) -> Mapping[SeriesKey, History] | Gap:
        """Of the series that have not ended."""
        if not self._values:
            return Gap("the query gives no series")
        if len(self._values) > MOST_SERIES:
            told = f"the query gives {len(self._values)} series"
            return Gap(f"{told}, and at most {MOST_SERIES} are predicted")
        found = {key: self._history(key) for key in self._values}
        good = {key: each for key, each in found.items() if isinstance(each, History)}
        if not good:
            return next(each for each in found.values() if isinstance(each, Gap))
        allowed = max(_STALE_SECONDS, _STALE_INTERVALS * self.interval)
        fresh = {key: each for key, each in good.items() if each.end >= now - allowed}
        if not fresh:
            minutes = (now - max(each.end for each in good.values())) / 60
            return Gap(f"the newest sample is {minutes:.0f} minutes old")
        return fresh

    def _history(self, key: SeriesKey) -> History | Gap:
        values = self._values[key]
        times = (self._first[key] + np.arange(len(values))) * self.interval
        return build_history(times, values.astype(np.float64), self.interval)
