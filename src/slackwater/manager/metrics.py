"""The manager's metrics: their names, and their values from its state.

What is not known is absent, never zero. The text format is record.exposition's.
"""

from collections.abc import Iterator

from slackwater import __version__
from slackwater.manager.state import ManagerCounts, ManagerState, RoundSummary
from slackwater.model.units import Micros
from slackwater.record.metric_table import BUILD, Kind, Metric
from slackwater.record.metrics import Sample

_GAUGE, _COUNTER = Kind.GAUGE, Kind.COUNTER
_MICROS = 1_000_000

LEADER = Metric("slackwater_manager_leader", _GAUGE, (), "1 while this replica leads.")
ROUNDS = Metric("slackwater_manager_rounds_total", _COUNTER, (), "Rounds of the loop.")
ROUND_AGE = Metric(
    "slackwater_manager_last_round_age_seconds", _GAUGE, (), "Time since the last round."
)
WRITES = Metric(
    "slackwater_manager_status_writes_total",
    _COUNTER,
    ("kind", "result"),
    "Attempts to write a policy object's status, by how they ended.",
)
EVENTS = Metric(
    "slackwater_manager_events_total",
    _COUNTER,
    (),
    "Kubernetes events about policy objects that became invalid or were mended.",
)
OBJECTS = Metric(
    "slackwater_manager_objects", _GAUGE, ("kind",), "Objects that the manager sees, by kind."
)
INVALID = Metric(
    "slackwater_manager_invalid_objects",
    _GAUGE,
    ("kind",),
    "Objects whose condition Valid is False; of Nodes those that cannot be read.",
)
HEARD = Metric(
    "slackwater_manager_watch_age_seconds",
    _GAUGE,
    ("kind",),
    "Time since the API server was last heard about this kind.",
)
SYNCED = Metric(
    "slackwater_manager_watch_synced", _GAUGE, ("kind",), "1 once all objects of it were listed."
)
REPORTING = Metric(
    "slackwater_manager_nodes_reporting", _GAUGE, (), "Nodes with an agent's report."
)
PROBLEMS = Metric("slackwater_manager_problems", _GAUGE, (), "What the manager cannot hear now.")

METRICS: tuple[Metric, ...] = (
    BUILD, LEADER, ROUNDS, ROUND_AGE, WRITES, EVENTS, OBJECTS, INVALID, HEARD, SYNCED, REPORTING,
    PROBLEMS,
)  # fmt: skip


def samples(state: ManagerState, at: Micros) -> Iterator[Sample]:
    yield Sample(BUILD, 1, (__version__,))
    yield from _of_counts(state.counts())
    if state.last_round is not None:
        yield from _of_round(state.last_round, at)


def _of_counts(counts: ManagerCounts) -> Iterator[Sample]:
    yield Sample(ROUNDS, counts.rounds)
    yield Sample(EVENTS, counts.events)
    for (kind, result), number in sorted(counts.writes.items()):
        yield Sample(WRITES, number, (kind, result))


def _of_round(last: RoundSummary, at: Micros) -> Iterator[Sample]:
    yield Sample(LEADER, last.leads)
    yield Sample(ROUND_AGE, (at - last.ended) / _MICROS)
    yield Sample(REPORTING, last.reporting)
    yield Sample(PROBLEMS, len(last.problems))
    for each in last.kinds:
        yield Sample(SYNCED, each.synced, (each.kind,))
        if each.synced:
            yield Sample(OBJECTS, each.objects, (each.kind,))
            yield Sample(INVALID, each.invalid, (each.kind,))
            yield Sample(HEARD, max(at - each.heard_at, 0) / _MICROS, (each.kind,))
