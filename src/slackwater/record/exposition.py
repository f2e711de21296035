"""Renders metrics as text for Prometheus. Imports its client, 2 MiB, so import it late.

Samples are made when they are scraped, not at the tick: the agent's by record.metrics, those of
other programs by themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from slackwater.record.metric_table import METRICS, TICK_DURATION, MetricDefinition, MetricType
from slackwater.record.metrics import MetricInputs, MetricSample, duration_histogram, make_samples


class _Scrape(Collector):
    """Families, in their order."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Family]:
        yield from self._families


_OPENMETRICS = "application/openmetrics-text"
_PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_FAMILIES: dict[MetricType, Callable[..., GaugeMetricFamily | CounterMetricFamily]] = {
    MetricType.GAUGE: GaugeMetricFamily,
    MetricType.COUNTER: CounterMetricFamily,
}


def render_agent_metrics(facts: MetricInputs, accept: str) -> tuple[str, bytes]:
    return render_families(_agent_families(facts), accept)


def render_families(families: Iterable[Family], accept: str) -> tuple[str, bytes]:
    """The content type and the content, in the format that the Accept header asks for.

    Not by the client's own choose_encoder: it fails at a version that is not a number, and repeats
    the version, whatever it is, in a header of the response.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(families))
    wanted = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    if _OPENMETRICS in wanted:
        text = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return openmetrics.CONTENT_TYPE_LATEST, text
    return _PLAIN, generate_latest(registry)


def build_families(
    metrics: Sequence[MetricDefinition], found: Iterable[MetricSample]
) -> Iterator[Family]:
    """In the table's order; metrics without a sample are left out."""
    by_name: dict[str, list[MetricSample]] = {}
    for sample in found:
        by_name.setdefault(sample.metric.name, []).append(sample)
    for metric in metrics:
        if metric.name in by_name:
            family = _FAMILIES[metric.kind](metric.name, metric.prose, labels=metric.labels)
            for sample in by_name[metric.name]:
                family.add_metric(sample.labels, sample.value)
            yield family


def _agent_families(facts: MetricInputs) -> Iterator[Family]:
    found = tuple(make_samples(facts))
    place = METRICS.index(TICK_DURATION)
    yield from build_families(METRICS[:place], found)
    buckets, total = duration_histogram(facts.counts)
    yield HistogramMetricFamily(TICK_DURATION.name, TICK_DURATION.prose, buckets, total)
    yield from build_families(METRICS[place + 1 :], found)
