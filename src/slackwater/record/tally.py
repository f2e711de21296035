"""Running counts of what the agent did since its start: what a counter in /metrics shows.

Owns the counting; names for Prometheus are record.metrics'.
"""

from collections import Counter

from slackwater.model.story import Course
from slackwater.record.journal import TickRecord


class Tally:
    """One thread adds, any may read: each count is one int."""

    def __init__(self) -> None:
        self.ticks = 0
        self.early_ticks = 0
        #: Rounds that saw nothing.
        self.blind = 0
        self.tick_micros = 0
        #: By knob, level and result.
        self.changes: Counter[tuple[str, str, str]] = Counter()
        #: By knob, level and kind: repair, yield.
        self.notes: Counter[tuple[str, str, str]] = Counter()
        #: By policy and course.
        self.courses: Counter[tuple[str, str]] = Counter()
        self.problems = 0

    def add(self, record: TickRecord) -> None:
        self.ticks += 1
        self.early_ticks += record.snapshot.early
        self.tick_micros += record.took
        for outcome in record.outcomes:
            change = outcome.change
            self.changes[change.knob.name, change.ref.level.value, outcome.result.value] += 1
        for note in record.story.notes:
            self.notes[note.knob, note.target.level.value, note.kind.value] += 1
        for told in record.story.told:
            if told.course is not Course.ACTED:
                self.courses[told.policy, told.course.value] += 1
