"""What the manager's loop shows to other threads: its last round, counts, and their metrics.

A follower is ready: it sees what the leader sees and can take over.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from slackwater import __version__
from slackwater.manager.controllers.controller import WriteVerb
from slackwater.manager.webhook.webhook_state import METRICS as WEBHOOK_METRICS
from slackwater.manager.webhook.webhook_state import WebhookState
from slackwater.model.units import Micros
from slackwater.record.metric_table import BUILD, MetricDefinition, MetricSample, MetricType
from slackwater.runtime.health import HealthState

#: Longer than any round: an API call may take 10 s, and a round makes several.
STALLED_AFTER = Micros(120_000_000)


class KindSummary(msgspec.Struct, frozen=True):
    """One kind: how many objects there are, how many are invalid, and how its watch is doing."""

    kind: str
    objects: int
    invalid: int
    heard_at: Micros
    problem: str = ""
    synced: bool = False


class PredictionSummary(msgspec.Struct, frozen=True):
    """The predictions of one resource by one estimator, none if nothing was predicted; `error` is
    the mean of their errors on the last day, where they have one."""

    resource: str
    estimator: str
    count: int
    error: float | None = None


class QuerySummary(msgspec.Struct, frozen=True):
    """Queries for histories since the start, and the samples that came."""

    answered: int = 0
    failed: int = 0
    samples: int = 0


class NormalizedNode(msgspec.Struct, frozen=True):
    """A Node with an annotation of normalization or amplification: the ratio, and its allocatable
    CPU in milliCPU as the kubelet offers it and as the Node shows it; None where not known."""

    name: str
    ratio: int | None
    raw: int | None
    shown: int | None


class RoundSummary(msgspec.Struct, frozen=True):
    """How a round ended. `unsynced` are the kinds that were never listed, `problems` all that is
    wrong now, `notices` how much each controller of the leader has to tell."""

    ended: Micros
    leads: bool = False
    leader: str = ""
    reporting: int = 0
    kinds: tuple[KindSummary, ...] = ()
    unsynced: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    predictions: tuple[PredictionSummary, ...] = ()
    unpredicted: int = 0
    template_invalid: bool = False
    queries: QuerySummary = QuerySummary()
    slo_config_invalid: bool = False
    normalized: tuple[NormalizedNode, ...] = ()
    notices: Mapping[str, int] = {}


class ManagerCounts(msgspec.Struct, frozen=True):
    """Since the start. Writes of statuses by kind and result; of objects by verb before that."""

    rounds: int = 0
    writes: Mapping[tuple[str, str], int] = {}
    object_writes: Mapping[tuple[str, str, str], int] = {}
    events: int = 0


class ManagerState:
    """Guards what crosses threads: the loop writes it, the HTTP server's threads read it."""

    def __init__(self, started: Micros) -> None:
        self.health = HealthState(started, STALLED_AFTER)
        self.webhook = WebhookState()
        self._lock = threading.Lock()
        self._last: RoundSummary | None = None
        self._rounds = 0
        self._events = 0
        self._writes: Counter[tuple[str, str]] = Counter()
        self._object_writes: Counter[tuple[str, str, str]] = Counter()

    @property
    def last_round(self) -> RoundSummary | None:
        """None before the first round."""
        return self._last

    def end_round(self, ended: RoundSummary) -> None:
        with self._lock:
            self._rounds += 1
            self._last = ended
        self.health.beat(ended.ended)

    def count_write(self, verb: WriteVerb, kind: str, result: str) -> None:
        with self._lock:
            if verb is WriteVerb.STATUS:
                self._writes[kind, result] += 1
            else:
                self._object_writes[kind, verb.value, result] += 1

    def count_event(self) -> None:
        with self._lock:
            self._events += 1

    def counts(self) -> ManagerCounts:
        with self._lock:
            return ManagerCounts(
                self._rounds, dict(self._writes), dict(self._object_writes), self._events
            )


def why_not_ready(state: ManagerState) -> str:
    last = state.last_round
    if last is None:
        return "no round yet"
    return "; ".join(filter(None, (*last.unsynced, state.webhook.why_not_ready())))


_GAUGE, _COUNTER = MetricType.GAUGE, MetricType.COUNTER
_MICROS = 1_000_000

LEADER = MetricDefinition("slackwater_manager_leader", _GAUGE, (), "1 while this replica leads.")
ROUNDS = MetricDefinition("slackwater_manager_rounds_total", _COUNTER, (), "Rounds of the loop.")
ROUND_AGE = MetricDefinition(
    "slackwater_manager_last_round_age_seconds", _GAUGE, (), "Time since the last round."
)
WRITES = MetricDefinition(
    "slackwater_manager_status_writes_total",
    _COUNTER,
    ("kind", "result"),
    "Attempts to write an object's status, by how they ended.",
)
OBJECT_WRITES = MetricDefinition(
    "slackwater_manager_object_writes_total",
    _COUNTER,
    ("kind", "verb", "result"),
    "Attempts to apply, delete or annotate an object, such as a node's prediction, by how they "
    "ended.",
)
EVENTS = MetricDefinition(
    "slackwater_manager_events_total",
    _COUNTER,
    (),
    "Kubernetes events, such as about policy objects that became invalid or valid again.",
)
OBJECTS = MetricDefinition(
    "slackwater_manager_objects", _GAUGE, ("kind",), "Objects that the manager sees, by kind."
)
INVALID = MetricDefinition(
    "slackwater_manager_invalid_objects",
    _GAUGE,
    ("kind",),
    "Objects whose condition Valid is False; for Nodes, those that cannot be read.",
)
HEARD = MetricDefinition(
    "slackwater_manager_watch_age_seconds",
    _GAUGE,
    ("kind",),
    "Time since the last response or event from the API server for this kind.",
)
SYNCED = MetricDefinition(
    "slackwater_manager_watch_synced",
    _GAUGE,
    ("kind",),
    "1 once all objects of this kind were listed.",
)
REPORTING = MetricDefinition(
    "slackwater_manager_nodes_reporting", _GAUGE, (), "Nodes with an agent's report."
)
PROBLEMS = MetricDefinition(
    "slackwater_manager_problems",
    _GAUGE,
    (),
    "Current problems, such as a kind that cannot be watched.",
)
PREDICTIONS = MetricDefinition(
    "slackwater_manager_predictions",
    _GAUGE,
    ("resource", "estimator"),
    "Metrics of TimeSeriesPredictions that have samples, by the estimator that they are from.",
)
PREDICTION_ERROR = MetricDefinition(
    "slackwater_manager_prediction_error_ratio",
    _GAUGE,
    ("resource", "estimator"),
    "How far an estimator was off on the last day, as a share of the real value: the mean over "
    "all predictions by it.",
)
UNPREDICTED = MetricDefinition(
    "slackwater_manager_predictions_not_ready",
    _GAUGE,
    (),
    "TimeSeriesPredictions whose condition Ready is False.",
)
TEMPLATE_BROKEN = MetricDefinition(
    "slackwater_manager_template_invalid",
    _GAUGE,
    (),
    "1 while the ConfigMap noderesource-tsp-template cannot be read.",
)
QUERIES = MetricDefinition(
    "slackwater_manager_history_queries_total",
    _COUNTER,
    ("result",),
    "Queries to Prometheus for histories: answered or failed.",
)
HISTORY_SAMPLES = MetricDefinition(
    "slackwater_manager_history_samples_total",
    _COUNTER,
    (),
    "Samples that Prometheus gave for histories.",
)

SLO_CONFIG_BROKEN = MetricDefinition(
    "slackwater_manager_slo_config_invalid",
    _GAUGE,
    (),
    "1 while a key of the ConfigMap slo-controller-config cannot be read.",
)
NORMALIZATION_RATIO = MetricDefinition(
    "slackwater_manager_normalization_ratio",
    _GAUGE,
    ("node",),
    "How much a CPU of the node is worth, by its annotation.",
)
RAW_ALLOCATABLE = MetricDefinition(
    "slackwater_manager_node_raw_allocatable_cores",
    _GAUGE,
    ("node",),
    "Physical CPUs that the kubelet offers, of nodes with a ratio.",
)
ALLOCATABLE = MetricDefinition(
    "slackwater_manager_node_allocatable_cores",
    _GAUGE,
    ("node",),
    "The same in normalized CPUs: what the Node shows and pods are scheduled by.",
)
NOTICES = MetricDefinition(
    "slackwater_manager_notices",
    _GAUGE,
    ("controller",),
    "What a controller has to tell now, such as nodes whose ratio is held back; of the leader.",
)

METRICS: tuple[MetricDefinition, ...] = (
    BUILD, LEADER, ROUNDS, ROUND_AGE, WRITES, OBJECT_WRITES, EVENTS, OBJECTS, INVALID, HEARD,
    SYNCED, REPORTING, PROBLEMS, PREDICTIONS, PREDICTION_ERROR, UNPREDICTED, TEMPLATE_BROKEN,
    QUERIES, HISTORY_SAMPLES, SLO_CONFIG_BROKEN, NORMALIZATION_RATIO, RAW_ALLOCATABLE, ALLOCATABLE,
    NOTICES, *WEBHOOK_METRICS,
)  # fmt: skip


def samples(state: ManagerState, at: Micros) -> Iterator[MetricSample]:
    yield MetricSample(BUILD, 1, (__version__,))
    yield from _of_counts(state.counts())
    if state.last_round is not None:
        yield from _of_round(state.last_round, at)


def _of_counts(counts: ManagerCounts) -> Iterator[MetricSample]:
    yield MetricSample(ROUNDS, counts.rounds)
    yield MetricSample(EVENTS, counts.events)
    for (kind, result), number in sorted(counts.writes.items()):
        yield MetricSample(WRITES, number, (kind, result))
    for (kind, verb, result), number in sorted(counts.object_writes.items()):
        yield MetricSample(OBJECT_WRITES, number, (kind, verb, result))


def _of_round(last: RoundSummary, at: Micros) -> Iterator[MetricSample]:
    yield MetricSample(LEADER, last.leads)
    yield MetricSample(ROUND_AGE, (at - last.ended) / _MICROS)
    yield MetricSample(REPORTING, last.reporting)
    yield MetricSample(PROBLEMS, len(last.problems))
    yield from _of_predictions(last)
    yield from _of_normalization(last)
    for controller, count in sorted(last.notices.items()):
        yield MetricSample(NOTICES, count, (controller,))
    for each in last.kinds:
        yield MetricSample(SYNCED, each.synced, (each.kind,))
        if each.synced:
            yield MetricSample(OBJECTS, each.objects, (each.kind,))
            yield MetricSample(INVALID, each.invalid, (each.kind,))
            yield MetricSample(HEARD, max(at - each.heard_at, 0) / _MICROS, (each.kind,))


def _of_predictions(last: RoundSummary) -> Iterator[MetricSample]:
    yield MetricSample(UNPREDICTED, last.unpredicted)
    yield MetricSample(TEMPLATE_BROKEN, last.template_invalid)
    yield MetricSample(QUERIES, last.queries.answered, ("answered",))
    yield MetricSample(QUERIES, last.queries.failed, ("failed",))
    yield MetricSample(HISTORY_SAMPLES, last.queries.samples)
    for each in last.predictions:
        labels = (each.resource, each.estimator)
        yield MetricSample(PREDICTIONS, each.count, labels)
        if each.error is not None:
            yield MetricSample(PREDICTION_ERROR, each.error, labels)


def _of_normalization(last: RoundSummary) -> Iterator[MetricSample]:
    yield MetricSample(SLO_CONFIG_BROKEN, last.slo_config_invalid)
    for each in last.normalized:
        if each.ratio is not None:
            yield MetricSample(NORMALIZATION_RATIO, each.ratio / 100, (each.name,))
        if each.raw is not None:
            yield MetricSample(RAW_ALLOCATABLE, each.raw / 1000, (each.name,))
        if each.shown is not None:
            yield MetricSample(ALLOCATABLE, each.shown / 1000, (each.name,))
