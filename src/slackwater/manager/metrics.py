"""The manager's metrics: their names, and their values from its state.

What is not known is absent, never zero. The text format is record.exposition's.
"""

from collections.abc import Iterator

from slackwater import __version__
from slackwater.manager.state import ManagerCounts, ManagerState, RoundSummary
from slackwater.model.units import Micros
from slackwater.record.metric_table import BUILD, MetricDefinition, MetricType
from slackwater.record.metrics import MetricSample

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
    "Attempts to write a policy object's status, by how they ended.",
)
EVENTS = MetricDefinition(
    "slackwater_manager_events_total",
    _COUNTER,
    (),
    "Kubernetes events about policy objects that became invalid or valid again.",
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

METRICS: tuple[MetricDefinition, ...] = (
    BUILD, LEADER, ROUNDS, ROUND_AGE, WRITES, EVENTS, OBJECTS, INVALID, HEARD, SYNCED, REPORTING,
    PROBLEMS,
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


def _of_round(last: RoundSummary, at: Micros) -> Iterator[MetricSample]:
    yield MetricSample(LEADER, last.leads)
    yield MetricSample(ROUND_AGE, (at - last.ended) / _MICROS)
    yield MetricSample(REPORTING, last.reporting)
    yield MetricSample(PROBLEMS, len(last.problems))
    for each in last.kinds:
        yield MetricSample(SYNCED, each.synced, (each.kind,))
        if each.synced:
            yield MetricSample(OBJECTS, each.objects, (each.kind,))
            yield MetricSample(INVALID, each.invalid, (each.kind,))
            yield MetricSample(HEARD, max(at - each.heard_at, 0) / _MICROS, (each.kind,))
