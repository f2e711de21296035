"""What a source said, as the metrics that were wanted of it; and the memory that needs two looks.

Every source answers in the same way: an Answer, or a Gap where nothing came of it. One thread asks
one source at a time, so nothing here is locked.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.metric import Sample, Samples, stamp
from slackwater.model.units import Micros
from slackwater.observation.probes.quantiles import derive, series_needed, split_suffix
from slackwater.observation.probes.text_format import Exposition, parse_exposition

_MICROS_PER_SECOND = 1_000_000
#: Of one metric of one source.
MOST_SAMPLES = 1000


class Answer(msgspec.Struct, frozen=True):
    """`at` is when it was true, by the clock of the agent. A metric that was not wanted when the
    source was asked is not in it."""

    at: Micros
    metrics: Mapping[str, Samples | Gap]

    def stamped(self) -> "Answer":
        """With samples that say when they were measured."""
        metrics = {
            name: samples if isinstance(samples, Gap) else stamp(samples, self.at)
            for name, samples in self.metrics.items()
        }
        return Answer(self.at, metrics)


class Asker(Protocol):
    """Asks one source. Takes as long as it takes, up to the source's timeout."""

    def ask(self, names: frozenset[str]) -> Answer | Gap: ...


class TextLooks:
    """Reads text formats of one source, and remembers the last one for quantiles and rates."""

    def __init__(self, most_samples: int) -> None:
        self._most_samples = most_samples
        self._before: tuple[Micros, Mapping[str, tuple[Sample, ...]]] | None = None

    def read(self, body: bytes, names: frozenset[str], at: Micros) -> Answer | Gap:
        """After an answer that cannot be read the last good one is still the one before."""
        needed = frozenset[str]().union(*map(series_needed, names))
        found = parse_exposition(body, needed)
        if isinstance(found, Gap):
            return found
        metrics = {name: self._bounded(self._metric(name, found, at)) for name in names}
        self._before = (at, found.series)
        return Answer(at, metrics)

    def _metric(self, name: str, found: Exposition, at: Micros) -> Samples | Gap:
        if name in found.series:
            return found.series[name]
        if not split_suffix(name)[1]:
            return Gap(found.why_missing(name))
        for source in series_needed(name) - {name}:
            if source in found.left_out and source not in found.series:
                return Gap(found.why_missing(source))
        if self._before is None:
            return derive(name, None, found.series, 0.0)
        then, series = self._before
        return derive(name, series, found.series, (at - then) / _MICROS_PER_SECOND)

    def _bounded(self, samples: Samples | Gap) -> Samples | Gap:
        return bound_samples(samples, self._most_samples)


def bound_samples(samples: Samples | Gap, most: int) -> Samples | Gap:
    """A snapshot holds every sample of every metric in it."""
    if isinstance(samples, Gap) or len(samples) <= most:
        return samples
    return Gap(f"it has {len(samples)} series, more than {most}")
