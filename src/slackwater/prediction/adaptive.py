"""Our own estimator: many guesses of the next peak, with margins learnt from their own errors.

For each guess the past says which margin would have covered which share of the windows (95 % to
all). Three views of the past are tried: all windows alike, those of about the same time of day, and
those after a similar peak. Of all guesses, shares and views, those count whose forecasts would have
been cheapest: capacity that is not sold has its price, and so has a window in which usage exceeds
the forecast. That second price begins high, rises when forecasts were exceeded too often, and falls
slowly. The cheapest are averaged, so that no single guess decides. docs/adr/0023, 0028
and 0044 have what was measured.
"""

from collections.abc import Sequence
from itertools import groupby

import msgspec
import numpy as np
from numpy.typing import NDArray

from slackwater.prediction.guesses import LAST, Guesses, make_guesses
from slackwater.prediction.history import DAY, HOUR, History, Samples, window_peaks
from slackwater.prediction.last_day import LastDay, judge

#: What is remembered, and what margins are learnt from, in days.
_REMEMBERED_DAYS, _LEARNT_DAYS = 14, 10
#: Fewer windows than this, in days, teach nothing.
_LEAST_DAYS = 0.5
#: Until there is enough to learn from: times the largest peak so far.
_FIRST_MARGIN = 1.5
#: The shares of windows that a margin may cover.
_SHARES = np.array([0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1.0])
#: The node is taken to be this much larger than the largest peak of the past.
_CAPACITY = 1.25
#: Views of the past: how far away in time of day, and in the logarithm of the peak before, counts
#: less; and what a window counts however far away it is.
_NEAR_TIME, _NEAR_PEAK, _FAR = 4 * HOUR, 0.5, 0.05
#: A peak below this share of the largest counts as nothing.
_SMALLEST = 1e-3
_NOTHING = 1e-12
#: What is remembered is rounded to 32-bit floats: a forecast is more than it by as much as that.
_ROUNDED = 1 + 2.0**-22
#: Sums of weights are not exact.
_EXACT = 1e-9
#: The newest part of the last window, which a forecast is never below.
_NOW = 600.0
#: How many series are computed at once: what the processor's caches hold.
_TOGETHER = 16


class AdaptiveTuning(msgspec.Struct, frozen=True):
    """The constants that weigh selling against exceeding. docs/adr/0023, 0028 and 0044 say how they
    were chosen.

    `averaged` forecasts are averaged. `price` is what an exceeded window costs at least, in windows
    of a whole node that is not sold. Above the share `exceeded_goal` of exceeded windows the price
    rises: its logarithm by `price_step` with each, up to `highest_caution`. It begins at
    `first_caution`: margins that were learnt from two days are exceeded twice as often as later.
    """

    averaged: int = 20
    price: float = 1.3
    exceeded_goal: float = 0.03
    price_step: float = 0.3
    highest_caution: float = 3.0
    first_caution: float = 0.8


DEFAULT_TUNING = AdaptiveTuning()


class AdaptiveMemory(msgspec.Struct, frozen=True):
    """The peaks of past windows, the last of which ended at `until`; the forecasts of the newest of
    them and of the next one (NaN: none was made); and how much the price of an exceeded window has
    risen, as a logarithm. Numbers are 32-bit floats: 1.5 KB in all with windows of an hour."""

    until: float
    window: float
    peaks: bytes
    forecasts: bytes
    caution: float = 0.0


class PeakForecast(msgspec.Struct, frozen=True):
    """The peak of the next window and of the one after it. `learnt_from` is 0 where the past was
    too short for more than a rule of thumb."""

    next: float
    following: float
    memory: AdaptiveMemory
    learnt_from: int
    last_day: LastDay | None

    @property
    def is_learnt(self) -> bool:
        return self.learnt_from > 0


class _RecalledSeries(msgspec.Struct, frozen=True):
    """One series, ready to be forecast. `said` is what had been forecast of the newest peaks."""

    peaks: Samples
    said: Samples
    latest: float
    until: float
    window: float
    caution: float

    @property
    def a_day(self) -> int:
        return windows_of(DAY, self.window)

    @property
    def learnt_from(self) -> int:
        """How many windows have a day before them; 0 where they are too few."""
        found = min(len(self.peaks) - self.a_day, windows_of(_LEARNT_DAYS * DAY, self.window))
        return found if found >= windows_of(_LEAST_DAYS * DAY, self.window) else 0


def windows_of(seconds: float, window: float) -> int:
    return max(round(seconds / window), 1)


def forecast_peaks(
    histories: Sequence[History],
    windows: Sequence[float],
    memories: Sequence[AdaptiveMemory | None],
    tuning: AdaptiveTuning = DEFAULT_TUNING,
) -> list[PeakForecast]:
    """For each history, the peaks of the windows after its last sample. The order is kept."""
    series = [_recall(*each, tuning) for each in zip(histories, windows, memories, strict=True)]
    order = sorted(
        range(len(series)), key=lambda place: (series[place].a_day, len(series[place].peaks))
    )
    found: dict[int, PeakForecast] = {}
    for _, alike in groupby(order, key=lambda place: series[place].a_day):
        places = list(alike)
        for first in range(0, len(places), _TOGETHER):
            block = places[first : first + _TOGETHER]
            told = _forecast_block([series[each] for each in block], tuning)
            found.update(zip(block, told, strict=True))
    return [found[place] for place in range(len(series))]


def _recall(
    history: History, window: float, memory: AdaptiveMemory | None, tuning: AdaptiveTuning
) -> _RecalledSeries:
    """The memory with the windows that have ended since."""
    until = history.end + history.interval
    fresh = window_peaks(history, window)
    latest = float(np.nanmax(history.last(min(_NOW, window)).values))
    most = windows_of(_REMEMBERED_DAYS * DAY, window)
    if memory is None or memory.window != window or memory.until > until:
        first = tuning.first_caution
        return _RecalledSeries(_known(fresh[-most:]), np.empty(0), latest, until, window, first)
    passed = round((until - memory.until) / window)
    until = until if passed else memory.until
    missed = np.full(max(passed - len(fresh), 0), np.nan)
    fresh = np.concatenate([missed, fresh[max(len(fresh) - passed, 0) :]]) if passed else fresh[:0]
    old = np.frombuffer(memory.peaks, np.float32).astype(np.float64)
    peaks = np.concatenate([old, fresh])[-most:]
    said = np.frombuffer(memory.forecasts, np.float32).astype(np.float64)
    if not passed:
        said = said[:-1]
    said = np.concatenate([said, np.full(max(passed - 1, 0), np.nan)])
    caution = _adjust(memory.caution, fresh, said[len(said) - passed :], tuning)
    return _RecalledSeries(_known(peaks), said, latest, until, window, caution)


def _known(peaks: Samples) -> Samples:
    """A window that was missed counts like the one before it; none is missing at the beginning."""
    known = ~np.isnan(peaks)
    if known.all():
        return peaks
    first = int(np.argmax(known))
    places = np.maximum.accumulate(np.where(known, np.arange(len(peaks)), 0))
    filled: Samples = peaks[places][first:]
    return filled


def _adjust(caution: float, real: Samples, said: Samples, tuning: AdaptiveTuning) -> float:
    """Up with each exceeded window, a little down with each other one, so that in the long run the
    goal's share is exceeded, or less."""
    for peak, forecast in zip(real, said, strict=True):
        if not np.isnan(peak) and not np.isnan(forecast):
            step = tuning.price_step * (float(peak > forecast) - tuning.exceeded_goal)
            caution = min(max(caution + step, 0.0), tuning.highest_caution)
    return caution


def _forecast_block(block: Sequence[_RecalledSeries], tuning: AdaptiveTuning) -> list[PeakForecast]:
    """Series with equally many windows in a day."""
    taught = [each for each in block if each.learnt_from]
    learnt = iter(_learn(taught, tuning)) if taught else iter(())
    return [
        _tell(each, *(next(learnt) if each.learnt_from else _guess_first(each))) for each in block
    ]


def _guess_first(series: _RecalledSeries) -> tuple[float, float]:
    largest = max(float(series.peaks.max(initial=0.0)), series.latest)
    return _FIRST_MARGIN * largest, _FIRST_MARGIN * largest


def _tell(series: _RecalledSeries, following: float, after: float) -> PeakForecast:
    said = np.append(series.said, following)[-series.a_day - 1 :]
    memory = AdaptiveMemory(
        series.until,
        series.window,
        series.peaks.astype(np.float32).tobytes(),
        said.astype(np.float32).tobytes(),
        series.caution,
    )
    compared = min(len(said) - 1, len(series.peaks))
    return PeakForecast(
        following,
        after,
        memory,
        series.learnt_from,
        judge(series.peaks[len(series.peaks) - compared :], said[-1 - compared : -1]),
    )


def _learn(block: Sequence[_RecalledSeries], tuning: AdaptiveTuning) -> list[tuple[float, float]]:
    """The next peak and the one after it, for each series."""
    a_day, window = block[0].a_day, block[0].window
    longest = max(len(each.peaks) for each in block)
    peaks = np.full((len(block), longest), np.nan)
    for row, each in enumerate(block):
        peaks[row, longest - len(each.peaks) :] = each.peaks
    guesses = make_guesses(peaks, a_day, max(each.learnt_from for each in block))
    counted = np.array([each.learnt_from for each in block])
    views = _views(guesses, counted, a_day, window)
    margins, costs = _margins(guesses, views)
    chosen = _choose(costs, peaks, np.array([each.caution for each in block]), tuning)
    latest = np.array([each.latest for each in block])
    first = np.fmax(_average(guesses, margins, chosen), latest)
    # The window after the next one: as if the next one's peak were what is forecast of it.
    then = make_guesses(np.concatenate([peaks, first[:, None]], axis=1), a_day, 0)
    second = np.fmax(_average(then, margins, chosen), first)
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _views(guesses: Guesses, counted: Samples, a_day: int, window: float) -> Samples:
    """How much each past window counts in each view: [series, view, window], the sum is one."""
    size = guesses.peaks.shape[1]
    back = np.arange(size, 0, -1)
    learnt = (back <= counted[:, None]).astype(np.float64)
    apart = np.minimum(back % a_day, a_day - back % a_day) * window
    time_of_day = _FAR + np.exp(-0.5 * (apart / _NEAR_TIME) ** 2)
    before = guesses.value[:, LAST]
    smallest = _SMALLEST * np.maximum(before.max(axis=1, keepdims=True), _NOTHING)
    level = np.log(np.maximum(before, smallest))
    after_alike = _FAR + np.exp(-0.5 * ((level[:, :-1] - level[:, -1:]) / _NEAR_PEAK) ** 2)
    views = np.stack([learnt, learnt * time_of_day, learnt * after_alike], axis=1)
    weighed: Samples = views / views.sum(axis=2, keepdims=True)
    return weighed


def _margins(guesses: Guesses, views: Samples) -> tuple[Samples, Samples]:
    """The margin that covers each share of a view's windows, and the mean forecast with it in that
    view: [series, share, view, guess]."""
    past, scale = guesses.value[:, :, :-1], guesses.scale[:, :, :-1]
    needed = (guesses.peaks[:, None] - past) / scale
    order = np.argsort(needed, axis=2)
    ordered = np.take_along_axis(needed, order, axis=2)
    margins, costs = [], []
    for view in range(views.shape[1]):
        weights = views[:, view]
        covered = np.cumsum(_reordered(weights, order), axis=2)
        places = np.stack([(covered < share).sum(axis=2) for share in _SHARES - _EXACT], axis=1)
        margin = np.take_along_axis(ordered, places.transpose(0, 2, 1), axis=2).transpose(0, 2, 1)
        mean_value = np.einsum("sgw,sw->sg", past, weights)[:, None]
        mean_scale = np.einsum("sgw,sw->sg", scale, weights)[:, None]
        margins.append(margin)
        costs.append(mean_value + margin * mean_scale)
    return np.stack(margins, axis=2), np.stack(costs, axis=2)


def _reordered(weights: Samples, order: NDArray[np.int64]) -> Samples:
    """Each series' weights in the order of each of its guesses."""
    rows = np.arange(len(weights))[:, None, None]
    found: Samples = weights[rows, order]
    return found


def _choose(
    costs: Samples, peaks: Samples, caution: Samples, tuning: AdaptiveTuning
) -> NDArray[np.int64]:
    """The places of the cheapest forecasts of each series, in the flattened last three axes."""
    capacity = np.maximum(_CAPACITY * np.nanmax(peaks, axis=1), _NOTHING)
    unsold = np.minimum(costs / capacity[:, None, None, None], 1.0)
    price = tuning.price * np.exp(caution)
    exceeded = price[:, None] * (1 - _SHARES)
    total = (unsold + exceeded[:, :, None, None]).reshape(len(costs), -1)
    return np.argpartition(total, tuning.averaged - 1, axis=1)[:, : tuning.averaged]


def _average(guesses: Guesses, margins: Samples, chosen: NDArray[np.int64]) -> Samples:
    """Of the chosen forecasts of the newest window."""
    value, scale = guesses.value[:, None, None, :, -1], guesses.scale[:, None, None, :, -1]
    forecasts = np.maximum(value + margins * scale, 0.0).reshape(len(margins), -1)
    mean: Samples = np.take_along_axis(forecasts, chosen, axis=1).mean(axis=1) * _ROUNDED
    return mean
