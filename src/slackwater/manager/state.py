"""What the manager's loop shows to other threads: its last round, counts, and their metrics.

A follower is ready: it sees what the leader sees and can take over.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from slackwater import __version__
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


class RoundSummary(msgspec.Struct, frozen=True):
    """How a round ended. `unsynced` are the kinds that were never listed, `problems` all that is
    wrong now."""

    ended: Micros
    leads: bool = False
    leader: str = ""
    reporting: int = 0
    kinds: tuple[KindSummary, ...] = ()
    unsynced: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ManagerCounts(msgspec.Struct, frozen=True):
    """Since the start. Writes by kind and result."""

    rounds: int = 0
    writes: Mapping[tuple[str, str], int] = {}
    events: int = 0


class ManagerState:
    """Guards what crosses threads: the loop writes it, the HTTP server's threads read it."""

    def __init__(self, started: Micros) -> None:
        self.health = HealthState(started, STALLED_AFTER)
        self._lock = threading.Lock()
        self._last: RoundSummary | None = None
        self._rounds = 0
        self._events = 0
        self._writes: Counter[tuple[str, str]] = Counter()

    @property
    def last_round(self) -> RoundSummary | None:
        """None before the first round."""
        return self._last

    def end_round(self, ended: RoundSummary) -> None:
        with self._lock:
            self._rounds += 1
            self._last = ended
        self.health.beat(ended.ended)

    def count_write(self, kind: str, result: str) -> None:
        with self._lock:
            self._writes[kind, result] += 1

    def count_event(self) -> None:
        with self._lock:
            self._events += 1

    def counts(self) -> ManagerCounts:
        with self._lock:
            return ManagerCounts(self._rounds, dict(self._writes), self._events)


def why_not_ready(state: ManagerState) -> str:
    last = state.last_round
    if last is None:
        return "no round yet"
    return "; ".join(last.unsynced)


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
