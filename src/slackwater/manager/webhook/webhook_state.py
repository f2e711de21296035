"""What the webhook counts, for metrics, readiness and the log."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slackwater.manager.webhook.review import ReviewAnswer, ReviewResult
from slackwater.record.metric_table import MetricDefinition, MetricSample, MetricType

if TYPE_CHECKING:
    from slackwater.record.exposition import MetricFamily

#: Seconds.
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
#: Of nodes with a problem that was told; beyond them the oldest is told again when it recurs.
_MOST_REMEMBERED = 10_000
#: Seconds between two problems that are told: whoever reaches the port could fill the log.
_TELL_SECONDS = 1.0

REVIEWS = MetricDefinition(
    "slackwater_webhook_reviews_total",
    MetricType.COUNTER,
    ("result",),
    "Reviews of writes of a Node's status: changed; unchanged; held, because an annotation cannot "
    "be read and the last good ratio counts; refused, because the review cannot be read. All of "
    "them were allowed.",
)
DURATION = MetricDefinition(
    "slackwater_webhook_duration_seconds",
    MetricType.HISTOGRAM,
    (),
    "From the last byte of a review to the answer.",
)
DROPPED = MetricDefinition(
    "slackwater_webhook_dropped_requests_total",
    MetricType.COUNTER,
    (),
    "Requests that were no reviews: too large, too slow, or not HTTP.",
)
CERTIFICATE_EXPIRY = MetricDefinition(
    "slackwater_webhook_certificate_expiry_timestamp_seconds",
    MetricType.GAUGE,
    (),
    "When the certificate that is served expires; it is replaced 30 days before.",
)
METRICS = (REVIEWS, DURATION, DROPPED, CERTIFICATE_EXPIRY)

#: Tells one sentence about something; an empty one is its end.
Tell = Callable[[str, str], None]


class WebhookState:
    """Guards what crosses threads: connections write it, the manager's endpoint reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: Counter[ReviewResult] = Counter()
        self._durations = [0] * (len(BUCKETS) + 1)
        self._duration_sum = 0.0
        self._dropped = 0
        self._told: dict[str, str] = {}
        self._told_at = -_TELL_SECONDS
        #: Unix time; None while there is no certificate.
        self.expires: float | None = None
        #: Whether this replica is meant to serve.
        self.enabled = False

    def count(self, answer: ReviewAnswer, began: float, ended: float, tell: Tell) -> None:
        """Times are in seconds. A problem is told once for each node and reason."""
        took = ended - began
        with self._lock:
            self._results[answer.result] += 1
            self._durations[bisect_left(BUCKETS, took)] += 1
            self._duration_sum += took
            news = self._told.get(answer.node, "") != answer.problem
            news = news and ended - self._told_at >= _TELL_SECONDS
            if news:
                self._told_at = ended
                self._remember(answer.node, answer.problem)
        if news:
            tell(f"webhook: {answer.node or 'reviews'}", answer.problem or "recovered")

    def drop(self) -> None:
        with self._lock:
            self._dropped += 1

    def _remember(self, node: str, problem: str) -> None:
        self._told.pop(node, None)
        if problem:
            self._told[node] = problem
            if len(self._told) > _MOST_REMEMBERED:
                del self._told[next(iter(self._told))]

    def why_not_ready(self) -> str:
        waits = self.enabled and self.expires is None
        return "the webhook has no certificate yet" if waits else ""

    def samples(self) -> Iterator[MetricSample]:
        """All but the histogram, and nothing where no webhook is served."""
        if not self.enabled:
            return
        with self._lock:
            results, dropped = dict(self._results), self._dropped
        for result in ReviewResult:
            yield MetricSample(REVIEWS, results.get(result, 0), (result.value,))
        yield MetricSample(DROPPED, dropped)
        if self.expires is not None:
            yield MetricSample(CERTIFICATE_EXPIRY, self.expires)

    def families(self) -> "Iterator[MetricFamily]":
        from slackwater.record.exposition import build_families, histogram_family

        if not self.enabled:
            return
        yield from build_families(METRICS, self.samples())
        with self._lock:
            counts, total = list(self._durations), self._duration_sum
        bounds = [*map(str, BUCKETS), "+Inf"]
        upto = [float(sum(counts[: number + 1])) for number in range(len(bounds))]
        yield histogram_family(DURATION, list(zip(bounds, upto, strict=True)), total)
