"""The PromQL that the rebalancer sends: its texts, and how values and durations are written in it.

Owns these texts. Refuses everything that Prometheus and VictoriaMetrics do not both read the same
way: only `max by`, `count`, `increase` with a range in one unit, `timestamp` of a plain selector, a
division by a number, and the matchers `=` and `!=`. No comparison, no `scalar`, no vector matching:
numbers are added, joined and compared in process. No `rate` either: see docs/reference/promql.md.
"""

import re

from slackwater.model.units import Micros, promised
from slackwater.settings.prometheus import MetricLabels

USAGE_METRIC = "container_cpu_usage_seconds_total"
REQUEST_METRIC = "kube_pod_container_resource_requests"
#: cAdvisor's labels that tell the counters of one container apart: a restarted container has two
#: `id`s, and a cAdvisor that counts every CPU has several `cpu`s. The kubelet's /metrics/resource
#: has the same metric with neither: all of the container once more.
SERIES_LABELS = ("id", "cpu")

#: Within double quotes (Go's rules, which both engines have): what may not stand for itself.
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSAFE = re.compile(r'[\\"\x00-\x1f\x7f]')
#: In milliseconds, the longest first.
_UNITS = (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def usage_query(namespace: str, window: Micros, labels: MetricLabels) -> str:
    """Cores of each counter of a container: seconds of CPU in the window, by its length. The same
    counter scraped twice (two Prometheus servers of one pair) counts once, by max. Which counters
    of a container add up is the caller's to know (see SERIES_LABELS).

    That is Prometheus' rate(). VictoriaMetrics' rate() divides by the time in which it has samples,
    so that the halves of a restarted container would add up to twice what it uses."""
    used = f"increase({_usage_series(namespace, labels)}[{duration(window)}])"
    return f"{_each_counter(labels)} ({used}) / {_seconds(window)}"


def newest_sample_query(namespace: str, labels: MetricLabels) -> str:
    """When each counter of usage_query was last sampled, in seconds since 1970. A series that ended
    is missing, or has an old time."""
    return f"{_each_counter(labels)} (timestamp({_usage_series(namespace, labels)}))"


def _usage_series(namespace: str, labels: MetricLabels) -> str:
    chosen = _chosen(
        namespace,
        labels,
        (labels.container, "!=", ""),
        (labels.container, "!=", "POD"),  # the sandbox, where cAdvisor shows it
    )
    return USAGE_METRIC + chosen


def _each_counter(labels: MetricLabels) -> str:
    return f"max by ({', '.join((labels.pod, labels.container, *SERIES_LABELS))})"


def request_query(namespace: str, labels: MetricLabels) -> str:
    """Cores that each container requests."""
    chosen = _chosen(namespace, labels, ("resource", "=", "cpu"))
    return f"max by ({labels.pod}, {labels.container}) ({REQUEST_METRIC}{chosen})"


def presence_query(namespace: str, labels: MetricLabels) -> str:
    """How many usage series the namespace has, whatever their container. Sent only if usage_query
    returned none, to say why."""
    return f"count({USAGE_METRIC}{_chosen(namespace, labels)})"


def label_value(text: str) -> str:
    """A label's value in double quotes."""
    return '"' + _UNSAFE.sub(_escaped, text) + '"'


def braces(*matchers: tuple[str, str, str]) -> str:
    """Label matchers, each a name, an operator and a value, as they follow a metric."""
    return "{" + ",".join(f"{name}{sign}{label_value(to)}" for name, sign, to in matchers) + "}"


def duration(window: Micros) -> str:
    """One number and one unit: 5m, 90s, 1500ms; never 5m0s. Rounded up to whole
    milliseconds, the shortest window there is."""
    milliseconds = _milliseconds(window)
    unit, size = next(each for each in _UNITS if milliseconds % each[1] == 0)
    return f"{milliseconds // size}{unit}"


def _seconds(window: Micros) -> str:
    return f"{_milliseconds(window) / 1000:.15g}"


def _milliseconds(window: Micros) -> int:
    if window < 1:
        raise ValueError(f"a window of {window} µs; it must be positive")
    return promised(window, 1000)


def _chosen(namespace: str, labels: MetricLabels, *more: tuple[str, str, str]) -> str:
    of_ours = ((name, "=", value) for name, value in labels.matchers)
    return braces((labels.namespace, "=", namespace), *more, *of_ours)


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    return _ESCAPES.get(sign) or f"\\x{ord(sign):02x}"
