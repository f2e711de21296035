"""Metrics as text, for Prometheus. Imports its client, 2 MiB: so it is itself imported late.

Owns the format; the samples are record.metrics'. They are made at the scrape, not at the tick.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from slackwater.record.metric_table import METRICS, TICK_DURATION, Kind
from slackwater.record.metrics import Facts, Sample, durations, samples


class _Scrape(Collector):
    """Facts as families, in the table's order; one without a sample is left out."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        found: dict[str, list[Sample]] = {}
        for sample in samples(self._facts):
            found.setdefault(sample.metric.name, []).append(sample)
        for metric in METRICS:
            if metric is TICK_DURATION:
                buckets, total = durations(self._facts.counts)
                yield HistogramMetricFamily(metric.name, metric.prose, buckets, total)
            elif metric.name in found:
                family = _FAMILIES[metric.kind](metric.name, metric.prose, labels=metric.labels)
                for sample in found[metric.name]:
                    family.add_metric(sample.labels, sample.value)
                yield family


_OPENMETRICS = "application/openmetrics-text"
_PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_FAMILIES: dict[Kind, Callable[..., GaugeMetricFamily | CounterMetricFamily]] = {
    Kind.GAUGE: GaugeMetricFamily,
    Kind.COUNTER: CounterMetricFamily,
}


def exposed(facts: Facts, accept: str) -> tuple[str, bytes]:
    """The content's type and the content, in the format that was asked for.

    Not by the client's own choose_encoder: it fails at a version that is no number, and repeats
    the version, whatever it is, in a header of the answer.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(facts))
    wanted = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    if _OPENMETRICS in wanted:
        text = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return openmetrics.CONTENT_TYPE_LATEST, text
    return _PLAIN, generate_latest(registry)
