"""Real series made strange, to see whether a forecast is good beyond the series that its constants
were chosen on: each variant keeps much of what real load is like, and changes what could have been
learnt by heart. The same seed gives the same series."""

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from slackwater.model.gap import Gap
from slackwater.prediction.history import DAY, HOUR, History, Samples, build_history

_SEED = 7
_COARSE = 300.0
_SHORT = 8 * DAY
_LATER = 37 * 60.0
#: Of all samples; and gaps of up to so many hours besides.
_MISSING, _GAPS, _LONGEST_GAP = 0.1, 5, 4

SeriesByName = dict[str, History]


def make_variants(series: Mapping[str, History]) -> dict[str, SeriesByName]:
    """By what was done to the series."""
    random = np.random.default_rng(_SEED)
    each: dict[str, Callable[[History], History]] = {
        "backwards": lambda one: _with(one, one.values[::-1]),
        "days backwards": lambda one: _by_day(one, lambda days: days[:, ::-1]),
        "days in another order": lambda one: _by_day(one, random.permutation),
        "37 minutes later": lambda one: _with(one, one.values[one.count(_LATER) :]),
        "the first 8 days": lambda one: _with(one, one.values[: one.count(_SHORT)]),
        "the last 8 days": lambda one: _with(one, one.values[-one.count(_SHORT) :]),
        "every 5 minutes": _coarsen,
        "squared": lambda one: _with(one, one.values**2),
        "square roots": lambda one: _with(one, np.sqrt(one.values)),
        "with its mean added": lambda one: _with(one, one.values + np.nanmean(one.values)),
        "samples missing": lambda one: _drop(one, random),
    }
    variants = {
        name: {key: change(one) for key, one in series.items()} for name, change in each.items()
    }
    variants["halves of two"] = _pair(series, 4, _join)
    variants["sums of two"] = _pair(series, 5, _add)
    return variants


def _with(history: History, values: Samples) -> History:
    return msgspec.structs.replace(history, values=np.ascontiguousarray(values))


def _by_day(history: History, change: Callable[[Samples], Samples]) -> History:
    size = history.count(DAY)
    whole = len(history.values) // size
    days = history.values[: whole * size].reshape(whole, size)
    return _with(history, change(days).ravel())


def _coarsen(history: History) -> History:
    """Means of five minutes."""
    size = round(_COARSE / history.interval)
    whole = len(history.values) // size
    values = history.values[: whole * size].reshape(whole, size).mean(axis=1)
    return History(history.start, size * history.interval, values)


def _drop(history: History, random: np.random.Generator) -> History:
    kept = random.random(len(history.values)) > _MISSING
    for start in random.integers(0, len(kept), _GAPS).tolist():
        kept[start : start + history.count(random.uniform(0, _LONGEST_GAP) * HOUR)] = False
    kept[[0, -1]] = True
    found = build_history(history.times[kept], history.values[kept], history.interval)
    if isinstance(found, Gap):
        raise ValueError(found.reason)
    return found


def _pair(
    series: Mapping[str, History], apart: int, combine: Callable[[Samples, Samples], Samples]
) -> SeriesByName:
    """Each with another, of the same mean, in steps of five minutes."""
    names = list(series)
    pairs = zip(names, names[apart:] + names[:apart], strict=True)
    found: SeriesByName = {}
    for one, other in pairs:
        first, second = _coarsen(series[one]), _coarsen(series[other])
        values = [each.values / np.nanmean(each.values) for each in (first, second)]
        found[f"{one} and {other}"] = History(first.start, first.interval, combine(*values))
    return found


def _join(one: Samples, other: Samples) -> Samples:
    return np.concatenate([one[: len(one) // 2], other[len(other) // 2 :]])


def _add(one: Samples, other: Samples) -> Samples:
    size = min(len(one), len(other))
    total: Samples = one[:size] + other[:size]
    return total
