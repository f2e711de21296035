"""Quantiles and rates between two looks at the same counters. Pure.

A histogram of Prometheus counts since its process began. What its observations were like lately is
the difference of two looks, and a quantile of that is interpolated as Prometheus does
(bucketQuantile in promql/quantile.go): linearly within the bucket, from 0 in the lowest one, and
the highest finite bound where the quantile lies beyond it.
"""

import math
import re
from collections.abc import Iterable, Mapping

from slackwater.model.gap import Gap
from slackwater.model.metric import Sample

#: By the suffix of a metric's name.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
RATE = "rate"
_BOUND = "le"
_BUCKETS = "_bucket"
_SUFFIX = re.compile(rf"(.+):({'|'.join((*QUANTILES, RATE))})", re.ASCII)
#: A series' labels, in order: what tells it from the others.
_Labels = tuple[tuple[str, str], ...]
#: Upper bound to the number of observations up to it.
_Buckets = dict[float, float]


def split_suffix(name: str) -> tuple[str, str]:
    """The metric's name and its suffix, which is empty where there is none of ours."""
    match = _SUFFIX.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def series_needed(name: str) -> frozenset[str]:
    """The series that an answer must have for this metric. One that is called exactly so, as a
    recording rule may be, is preferred."""
    bare, suffix = split_suffix(name)
    if not suffix:
        return frozenset({name})
    return frozenset({name, bare if suffix == RATE else bare + _BUCKETS})


def derive(
    name: str,
    before: Mapping[str, tuple[Sample, ...]] | None,
    now: Mapping[str, tuple[Sample, ...]],
    elapsed_seconds: float,
) -> tuple[Sample, ...] | Gap:
    """A quantile or a rate between two looks, by the suffix of its name."""
    bare, suffix = split_suffix(name)
    source = bare if suffix == RATE else bare + _BUCKETS
    if source not in now:
        kind = "counter" if suffix == RATE else "histogram"
        return Gap(f"the answer has no {kind} {bare!r}")
    if before is None or source not in before:
        return Gap(f"{bare!r} was seen only once so far")
    if suffix == RATE:
        return _rates(bare, before[source], now[source], elapsed_seconds)
    return _quantiles(bare, QUANTILES[suffix], before[source], now[source])


def _rates(
    bare: str, before: tuple[Sample, ...], now: tuple[Sample, ...], elapsed: float
) -> tuple[Sample, ...] | Gap:
    earlier = {_key(each.labels): each.value for each in before}
    found = []
    for sample in now:
        then = earlier.get(_key(sample.labels))
        if then is not None and sample.value >= then and elapsed > 0:
            found.append(Sample((sample.value - then) / elapsed, sample.labels))
    return tuple(found) or Gap(f"{bare!r} was seen only once, or began anew")


def _quantiles(
    bare: str, quantile: float, before: tuple[Sample, ...], now: tuple[Sample, ...]
) -> tuple[Sample, ...] | Gap:
    """A series for each set of labels without the bound."""
    earlier = _histograms(before)
    gaps: dict[str, Gap] = {}
    found = []
    for labels, buckets in _histograms(now).items():
        observed = _difference(earlier.get(labels), buckets)
        value = observed if isinstance(observed, Gap) else interpolate(quantile, observed)
        if isinstance(value, Gap):
            gaps[value.reason] = value
        else:
            found.append(Sample(value, dict(labels)))
    is_idle = bool(gaps) and all(each.is_idle for each in gaps.values())
    why = min(gaps, default="has no buckets")
    return tuple(found) or Gap(f"the histogram {bare!r} {why}", is_idle)


def _histograms(samples: Iterable[Sample]) -> dict[_Labels, _Buckets]:
    found: dict[_Labels, _Buckets] = {}
    for sample in samples:
        bound = _parse_bound(sample.labels.get(_BOUND, ""))
        if bound is not None:
            labels = {key: value for key, value in sample.labels.items() if key != _BOUND}
            # Two spellings of one bound, 1 and 1.0, count together, as in Prometheus.
            buckets = found.setdefault(_key(labels), {})
            buckets[bound] = buckets.get(bound, 0.0) + sample.value
    return found


def _difference(before: _Buckets | None, now: _Buckets) -> _Buckets | Gap:
    if before is None:
        return Gap("was seen only once so far")
    if before.keys() != now.keys():
        return Gap("changed its buckets")
    observed = {bound: count - before[bound] for bound, count in now.items()}
    if min(observed.values()) < 0:
        return Gap("began anew")
    return observed


def interpolate(quantile: float, buckets: Mapping[float, float]) -> float | Gap:
    """`buckets`: upper bounds to the number of observations up to them."""
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf:
        return Gap("has no bucket +Inf, or no other")
    counts: list[float] = []
    for bound in bounds:
        # A histogram that was read while it counted may not rise everywhere.
        counts.append(max(buckets[bound], counts[-1] if counts else 0.0))
    if counts[-1] <= 0:
        return Gap("had no observations between the last two looks", is_idle=True)
    rank = quantile * counts[-1]
    place = next((i for i, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if place == len(counts) - 1:
        return bounds[-2]
    if place == 0 and bounds[0] <= 0:
        return bounds[0]
    start, below = (bounds[place - 1], counts[place - 1]) if place else (0.0, 0.0)
    return start + (bounds[place] - start) * (rank - below) / (counts[place] - below)


def _parse_bound(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return None if math.isnan(found) else found


def _key(labels: Mapping[str, str]) -> _Labels:
    return tuple(sorted(labels.items()))
