"""The rebalancer's metrics: counters since the start, and gauges of the last round.

Most names are those of the original rebalancer, so that its dashboards work. A value that is not
known is absent, never zero. A run that is too short to be scraped pushes them to a Pushgateway or
VictoriaMetrics; a push that fails is reported and changes nothing else: the pods have gone, and a
Job that fails for its metrics alone would be run again.
"""

import math
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from slackwater import __version__
from slackwater.http.connection import HttpRequest, HttpResponse, exchange
from slackwater.http.endpoint import (
    DEFAULT_PORTS,
    Endpoint,
    Identity,
    Server,
    Trust,
    basic_authorization,
)
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.http.tls import TlsContexts
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.rebalancer.assessment import KAFKA, KUBERNETES, PROMETHEUS, Assessment
from slackwater.rebalancer.observed import WorkloadUsage
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.results import RoundResult, WorkloadResult
from slackwater.rebalancer.selection import PodGroup
from slackwater.record.metric_table import BUILD, MetricDefinition, MetricSample, MetricType

if TYPE_CHECKING:
    from slackwater.record.exposition import MetricFamily

_GAUGE, _COUNTER = MetricType.GAUGE, MetricType.COUNTER
_WORKLOAD = ("namespace", "workload")
_SUCCESS, _ERROR = "success", "error"
_TYPES = {PodGroup.TOP: "most_busy", PodGroup.BOTTOM: "least_busy"}
#: Upper bounds of the buckets of a round's duration, in seconds: the original's, then those of
#: rounds that wait for new pods.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)

CURRENT = MetricDefinition(
    "rebalancer_current_cpu_average",
    _GAUGE,
    _WORKLOAD,
    "Cores: the average of the pods above the threshold, at most K. Absent if there are none.",
)
PREDICTED = MetricDefinition(
    "rebalancer_predicted_cpu_average",
    _GAUGE,
    _WORKLOAD,
    "Cores: the average of those and the least busy pods, which a rotation is expected to bring.",
)
IMPROVEMENT = MetricDefinition(
    "rebalancer_improvement_calculated",
    _GAUGE,
    _WORKLOAD,
    "Percent: 100 x (current - predicted) / current.",
)
THRESHOLD = MetricDefinition(
    "rebalancer_safety_threshold_current",
    _GAUGE,
    _WORKLOAD,
    "Cores: the HPA's target x tolerance; a pod above it is too busy.",
)
DECISIONS = MetricDefinition(
    "rebalancer_rotation_decisions_total",
    _COUNTER,
    ("reason",),
    "Workloads assessed, by result: rotated, or why not.",
)
REALISED = MetricDefinition(
    "rebalancer_improvement_realised",
    _GAUGE,
    _WORKLOAD,
    "Percent: by how much the last rotation reduced the skew, once its window has passed; "
    "negative if it grew. Compare with rebalancer_improvement_expected.",
)
EXPECTED = MetricDefinition(
    "rebalancer_improvement_expected",
    _GAUGE,
    _WORKLOAD,
    "Percent: what was predicted for the last rotation.",
)
VARIANCE = MetricDefinition(
    "rebalancer_load_variance_current",
    _GAUGE,
    _WORKLOAD,
    "Square cores: variance of the usage of all pods whose usage is known.",
)
PODS = MetricDefinition(
    "rebalancer_pods",
    _GAUGE,
    (*_WORKLOAD, "group"),
    "Pods by group: top, bottom, rest; young, unready, held_back and unknown are not candidates.",
)
EXECUTIONS = MetricDefinition(
    "rebalancer_executions_total",
    _COUNTER,
    ("status",),
    "Rounds: success, or error if one or more workloads could not be assessed or rotated.",
)
ANALYZED = MetricDefinition("rebalancer_pods_analyzed_total", _COUNTER, (), "Pods analyzed.")
DELETED = MetricDefinition(
    "rebalancer_pods_deleted_total",
    _COUNTER,
    ("type",),
    "Pods that were evicted or deleted: most_busy and least_busy.",
)
DURATION = MetricDefinition(
    "rebalancer_execution_duration_seconds",
    MetricType.HISTOGRAM,
    (),
    "Duration of a round, from the first query until the last new pod was Ready.",
)
ERRORS = MetricDefinition(
    "rebalancer_api_errors_total",
    _COUNTER,
    ("component",),
    "Failed queries and writes, by the component they were sent to.",
)
LAST_RUN = MetricDefinition(
    "rebalancer_last_run_timestamp_seconds", _GAUGE, (), "Unix time at which the last round ended."
)

METRICS: tuple[MetricDefinition, ...] = (
    BUILD, CURRENT, PREDICTED, IMPROVEMENT, THRESHOLD, DECISIONS, REALISED, EXPECTED, VARIANCE,
    PODS, EXECUTIONS, ANALYZED, DELETED, DURATION, ERRORS, LAST_RUN,
)  # fmt: skip


class RoundMetrics:
    """Counts since the start, and the last round. One thread adds, any may read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: RoundResult | None = None
        self._decisions: Counter[Reason] = Counter()
        self._executions: Counter[str] = Counter()
        self._deleted: Counter[PodGroup] = Counter()
        self._errors: Counter[str] = Counter()
        self._durations = [0] * (len(BUCKETS) + 1)
        self._duration_sum = 0.0
        self._analyzed = 0

    def add(self, result: RoundResult) -> None:
        with self._lock:
            self._latest = result
            self._executions[_ERROR if result.exit_code else _SUCCESS] += 1
            self._errors.update(result.errors)
            self._durations[bisect_left(BUCKETS, result.took)] += 1
            self._duration_sum += result.took
            for each in result.results:
                self._decisions[each.reason] += 1
                self._analyzed += (
                    len(each.assessment.measured.pods) if each.assessment.measured else 0
                )
                removed = each.rotated.removed if each.rotated is not None else ()
                self._deleted.update(each.assessment.group_of(pod) for pod in removed)

    def add_error(self, component: str) -> None:
        """For an error outside of a round."""
        with self._lock:
            self._errors[component] += 1

    def samples(self) -> Iterator[MetricSample]:
        """All but the histogram. Counters exist from the start: one that appears with its first
        count has no rate."""
        with self._lock:
            yield MetricSample(BUILD, 1, (__version__,))
            for reason in Reason:
                yield MetricSample(DECISIONS, self._decisions[reason], (reason.value,))
            for status in (_SUCCESS, _ERROR):
                yield MetricSample(EXECUTIONS, self._executions[status], (status,))
            for group, word in _TYPES.items():
                yield MetricSample(DELETED, self._deleted[group], (word,))
            for component in (PROMETHEUS, KUBERNETES, KAFKA):
                yield MetricSample(ERRORS, self._errors[component], (component,))
            yield MetricSample(ANALYZED, self._analyzed)
            latest = self._latest
        if latest is not None:
            yield MetricSample(LAST_RUN, latest.ended)
            for each in latest.results:
                yield from _workload_samples(each)

    def durations(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulative counts by bound, and the sum."""
        with self._lock:
            bounds = [*map(str, BUCKETS), "+Inf"]
            upto = [float(sum(self._durations[: number + 1])) for number in range(len(bounds))]
            return list(zip(bounds, upto, strict=True)), self._duration_sum


def expose(tally: RoundMetrics, accept: str = "") -> tuple[str, bytes]:
    """Content type and content for a scrape or a push."""
    from slackwater.record.exposition import render_families

    return render_families(_families(tally), accept)


def _families(tally: RoundMetrics) -> "Iterator[MetricFamily]":
    from slackwater.record.exposition import build_families, histogram_family

    found = tuple(tally.samples())
    place = METRICS.index(DURATION)
    yield from build_families(METRICS[:place], found)
    buckets, total = tally.durations()
    yield histogram_family(DURATION, buckets, total)
    yield from build_families(METRICS[place + 1 :], found)


def _workload_samples(result: WorkloadResult) -> Iterator[MetricSample]:
    assessment = result.assessment
    labels = (assessment.workload.namespace, assessment.workload.name)
    yield from _number_samples(assessment, labels)
    if result.last is not None:
        yield MetricSample(EXPECTED, result.last.improvement, labels)
        if result.last.realised is not None:
            yield MetricSample(REALISED, result.last.realised, labels)
    if assessment.measured is not None:
        variance = usage_variance(assessment.measured)
        if variance is not None:
            yield MetricSample(VARIANCE, variance, labels)
    if assessment.proposal is not None:
        groups = Counter(assessment.proposal.groups.values())
        for group in PodGroup:
            yield MetricSample(PODS, groups[group], (*labels, group.value))


def _number_samples(assessment: Assessment, labels: tuple[str, str]) -> Iterator[MetricSample]:
    numbers = assessment.proposal.numbers if assessment.proposal else None
    if numbers is None:
        return
    yield MetricSample(THRESHOLD, numbers.threshold, labels)
    if numbers.gain is not None:
        yield MetricSample(CURRENT, numbers.gain.average, labels)
        yield MetricSample(PREDICTED, numbers.gain.predicted, labels)
        yield MetricSample(IMPROVEMENT, numbers.gain.improvement, labels)


def usage_variance(measured: WorkloadUsage) -> float | None:
    """Population variance in square cores; None if no usage is known."""
    usages = [each.usage for each in measured.pods if not isinstance(each.usage, Gap)]
    if not usages:
        return None
    mean = math.fsum(usages) / len(usages)
    return math.fsum((usage - mean) ** 2 for usage in usages) / len(usages)


JOB = "slackwater-rebalancer"
#: In seconds, for all of it.
_PATIENCE = 10.0
#: A path with one of these says where the metrics go; else they go below it, as a job's.
_PUSHGATEWAY, _VICTORIA_METRICS = "/metrics/", "/api/v1/import/prometheus"
#: What may stand in a path and a query as it is (RFC 3986), "%" for what is quoted already.
_URL_SIGNS = "%/?:@!$&'()*+,;=~"
#: How much of an answer is shown, and how much is read.
_LONGEST_ANSWER, _LARGEST_ANSWER = 200, 1 << 20


def target_of(url: str, instance: str) -> str | Gap:
    """The URL to push to; a Gap if the setting is not an http or https URL."""
    wrong = Gap(f"push is {quoted(url)}, but must be an http or https URL")
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            return wrong
    except ValueError:
        return wrong
    if _PUSHGATEWAY in parts.path or _VICTORIA_METRICS in parts.path:
        return url
    of = f"/instance/{quote(instance, safe='')}" if instance else ""
    return parts._replace(path=f"{parts.path.rstrip('/')}/metrics/job/{JOB}{of}").geturl()


def push(url: str, content_type: str, body: bytes, instance: str = "") -> str:
    """Replaces the metrics of the last run. Returns one sentence if that failed, else nothing."""
    target = target_of(url, instance)
    if isinstance(target, Gap):
        return f"the metrics were not pushed: {target.reason}"
    return _sent(target, content_type, body)


def _sent(target: str, content_type: str, body: bytes) -> str:
    parts = urlsplit(target)
    server = Server(parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme], parts.scheme)
    path = quote(parts._replace(scheme="", netloc="", fragment="").geturl(), safe=_URL_SIGNS)
    shown = f"{server.url}{path}"  # a password in the URL is not for a log
    # VictoriaMetrics imports by POST; a Pushgateway's PUT replaces, its POST would keep old series.
    method = "POST" if _VICTORIA_METRICS in parts.path else "PUT"
    headers = [
        ("Host", server.authority),
        ("User-Agent", f"slackwater/{__version__}"),
        ("Content-Type", content_type),
    ]
    if parts.username is not None:
        password = unquote(parts.password or "")
        headers.append(("Authorization", basic_authorization(unquote(parts.username), password)))
    try:
        answer = _exchanged(server, HttpRequest(method, path, body), headers)
    except RequestError as error:
        why = error.reason if isinstance(error, UnreachableError) else str(error)
        return f"the metrics were not pushed to {shown}: {why}"
    if 200 <= answer.status < 300:
        return ""
    said = " ".join(answer.body[:_LONGEST_ANSWER].decode("utf-8", "replace").split())
    return f"the metrics were not pushed to {shown}: it answered {answer.status} {quoted(said)}"


def _exchanged(
    server: Server, request: HttpRequest, headers: list[tuple[str, str]]
) -> HttpResponse:
    secure = server.scheme == "https"
    return exchange(
        Endpoint(server),
        request,
        headers,
        identity=Identity(),
        context=TlsContexts(Trust()).context(Identity()) if secure else None,
        seconds=_PATIENCE,
        largest=_LARGEST_ANSWER,
    )
