"""What is measured of a node besides its cgroups: named series, as rules about quality name them.

A metric has a source, which says where it comes from: the node's own measurements, or the answer of
an HTTP probe, a query or a file that some object describes. One name may come from two sources.
"""

from collections.abc import Mapping

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.units import Micros

#: The node's own measurements.
NODE = ""


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One series' value, in the metric's unit, and its labels. `at` is when it was measured; None
    is in the tick itself. A source that is slower than the ticks says the same to several."""

    value: float
    labels: Mapping[str, str] = {}
    at: Micros | None = None


#: The series of one metric. Missing, stale or unreadable is a Gap with the reason, never a zero.
Samples = tuple[Sample, ...]


def stamp(samples: Samples, at: Micros) -> Samples:
    """The same, as measured then."""
    return tuple(Sample(each.value, each.labels, at) for each in samples)


class MetricKey(msgspec.Struct, frozen=True, order=True):
    """Which metric. `source` is NODE, or the title of the object that describes the source, such as
    NodeQOS/latency."""

    name: str
    source: str = NODE

    def title(self) -> str:
        """For people, and the key in a snapshot."""
        return self.name if self.source == NODE else f"{self.source}:{self.name}"


#: By MetricKey.title(). A metric that nobody asked for is not there.
Metrics = Mapping[str, Samples | Gap]


class MetricRequest(msgspec.Struct, frozen=True, order=True):
    """A metric that a policy needs, no older than `max_age_seconds`; 0 sets no bound of its own."""

    key: MetricKey
    max_age_seconds: int = 0
