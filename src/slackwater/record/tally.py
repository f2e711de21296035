"""Running counts of what the agent did since its start: what a counter in /metrics shows.

Owns the counting; names for Prometheus are record.metrics'.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from slackwater.model.plan import Outcome
from slackwater.model.story import NoteKind
from slackwater.model.units import Micros, MilliCpu
from slackwater.record.journal import TickRecord

#: Upper ends of the buckets of a tick's duration: one that reads tiers takes 1 ms, one that reads
#: 500 containers 10 ms; beyond 100 ms the shortest period is missed.
BUCKETS = (Micros(1_000), Micros(5_000), Micros(20_000), Micros(100_000), Micros(1_000_000))


class Counts(msgspec.Struct, frozen=True):
    """All counts at one moment. `durations` has one count more than there are BUCKETS."""

    ticks: int
    early_ticks: int
    blind_rounds: int
    durations: tuple[int, ...]
    duration_sum: Micros
    #: By knob, level and result.
    changes: Mapping[tuple[str, str, str], int]
    #: By knob, level and kind.
    notes: Mapping[tuple[str, str, NoteKind], int]
    #: By policy and course.
    courses: Mapping[tuple[str, str], int]
    #: By the event's name and resource.
    events: Mapping[tuple[str, str], int]
    #: What each policy's last event asked for, by policy, event and resource.
    asked: Mapping[tuple[str, str, str], MilliCpu]
    problems: int


class Tally:
    """One thread adds, any may read."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._ticks = self._early_ticks = self._blind_rounds = self._problems = 0
        self._durations = [0] * (len(BUCKETS) + 1)
        self._duration_sum = 0
        self._changes: Counter[tuple[str, str, str]] = Counter()
        self._notes: Counter[tuple[str, str, NoteKind]] = Counter()
        self._courses: Counter[tuple[str, str]] = Counter()
        self._events: Counter[tuple[str, str]] = Counter()
        self._asked: dict[tuple[str, str, str], MilliCpu] = {}

    def add(self, record: TickRecord) -> None:
        self.add_outcomes(record.outcomes)
        with self._alone:
            self._ticks += 1
            self._early_ticks += record.snapshot.early
            self._durations[bisect_left(BUCKETS, record.took)] += 1
            self._duration_sum += record.took
            for note in record.story.notes:
                self._notes[note.knob, note.target.level.value, note.kind] += 1
            for told in record.story.told:
                self._courses[told.policy, told.course.value] += 1
                for event in told.events:
                    self._events[event.name, event.resource] += 1
                    self._asked[told.policy, event.name, event.resource] = event.milli

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Outcomes of no tick: a release."""
        with self._alone:
            for outcome in outcomes:
                change = outcome.change
                self._changes[change.knob.name, change.ref.level.value, outcome.result.value] += 1

    def add_blind_round(self) -> None:
        with self._alone:
            self._blind_rounds += 1

    def add_problems(self, news: Collection[str]) -> None:
        """Problems of the configuration that were not there the round before."""
        with self._alone:
            self._problems += len(news)

    def counts(self) -> Counts:
        with self._alone:
            return Counts(
                ticks=self._ticks,
                early_ticks=self._early_ticks,
                blind_rounds=self._blind_rounds,
                durations=tuple(self._durations),
                duration_sum=Micros(self._duration_sum),
                changes=dict(self._changes),
                notes=dict(self._notes),
                courses=dict(self._courses),
                events=dict(self._events),
                asked=dict(self._asked),
                problems=self._problems,
            )
