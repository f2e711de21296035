"""Renders metrics as text for Prometheus: its own format, and OpenMetrics where it is asked for.

Samples are made when they are scraped, not at the tick: the agent's by record.metrics, those of
other programs by themselves. Written by hand because the client library would take 2 MiB of an
agent's 40 (ADR 16); the tests read the text with that library's parsers, and with promtool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from slackwater.record.metric_table import (
    CRANE_METRICS,
    METRICS,
    START_DURATION,
    TICK_DURATION,
    MetricDefinition,
    MetricSample,
    MetricType,
)
from slackwater.record.metrics import (
    MetricInputs,
    answer_histogram,
    duration_histogram,
    make_samples,
)
from slackwater.record.rule_metrics import crane_samples

_OPENMETRICS = "application/openmetrics-text"
_OPENMETRICS_TYPE = f"{_OPENMETRICS}; version=1.0.0; charset=utf-8"
_PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


class FamilyLine(msgspec.Struct, frozen=True):
    """One line of a family: what is added to its name, the labels, the value."""

    suffix: str
    labels: Mapping[str, str]
    value: float


class MetricFamily(msgspec.Struct, frozen=True):
    """One metric with all its lines."""

    metric: MetricDefinition
    lines: tuple[FamilyLine, ...]


def render_agent_metrics(facts: MetricInputs, accept: str) -> tuple[str, bytes]:
    return render_families(_agent_families(facts), accept)


def render_families(families: Iterable[MetricFamily], accept: str) -> tuple[str, bytes]:
    """The content type and the content, in the format that the Accept header asks for. Nothing of
    the header is repeated in the answer."""
    wanted = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    openmetrics = _OPENMETRICS in wanted
    text = "".join(line for family in families for line in _render(family, openmetrics))
    if openmetrics:
        return _OPENMETRICS_TYPE, f"{text}# EOF\n".encode()
    return _PLAIN_TYPE, text.encode()


def build_families(
    metrics: Sequence[MetricDefinition], found: Iterable[MetricSample]
) -> Iterator[MetricFamily]:
    """In the table's order; metrics without a sample are left out."""
    by_name: dict[str, list[FamilyLine]] = {}
    for sample in found:
        labels = dict(zip(sample.metric.labels, sample.labels, strict=True))
        line = FamilyLine("", labels, sample.value)
        by_name.setdefault(sample.metric.name, []).append(line)
    for metric in metrics:
        if metric.name in by_name:
            yield MetricFamily(metric, tuple(by_name[metric.name]))


def histogram_family(
    metric: MetricDefinition, buckets: Sequence[tuple[str, float]], total: float
) -> MetricFamily:
    """`buckets` are cumulative counts by upper bound, the last one being +Inf; `total` is the sum
    of all values."""
    lines = [FamilyLine("_bucket", {"le": bound}, count) for bound, count in buckets]
    lines += [FamilyLine("_count", {}, buckets[-1][1]), FamilyLine("_sum", {}, total)]
    return MetricFamily(metric, tuple(lines))


def _render(family: MetricFamily, openmetrics: bool) -> Iterator[str]:
    """OpenMetrics names a counter's family without _total."""
    metric = family.metric
    counter = openmetrics and metric.kind is MetricType.COUNTER
    title = metric.name.removesuffix("_total") if counter else metric.name
    prose = metric.prose.translate(_ESCAPES if openmetrics else _HELP_ESCAPES)
    yield f"# HELP {title} {prose}\n# TYPE {title} {metric.kind.value}\n"
    for line in family.lines:
        labels = ",".join(
            f'{name}="{text.translate(_ESCAPES)}"' for name, text in sorted(line.labels.items())
        )
        braces = f"{{{labels}}}" if labels else ""
        yield f"{metric.name}{line.suffix}{braces} {_number(line.value)}\n"


def _number(value: float) -> str:
    text = repr(float(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)


def _agent_families(facts: MetricInputs) -> Iterator[MetricFamily]:
    found = tuple(make_samples(facts))
    histograms = {
        TICK_DURATION: duration_histogram(facts.counts),
        START_DURATION: answer_histogram(facts.starts),
    }
    begin = 0
    for place, metric in enumerate(METRICS):
        if metric in histograms:
            yield from build_families(METRICS[begin:place], found)
            yield histogram_family(metric, *histograms[metric])
            begin = place + 1
    yield from build_families(METRICS[begin:], found)
    if facts.latest is not None and facts.latest.inputs.agent.crane_metrics and not facts.blind:
        crane = crane_samples(facts.counts.rules, facts.latest)
        yield from build_families(CRANE_METRICS, crane)
