"""The timeline of a simulation: the agent's effects and the scenario's events, in few lines.

Neighbouring lines about one quota are folded into one, first those that go the same way, then those
whose fold hides the least, until a person can read the rest.
"""

import functools
import re

import msgspec
from msgspec.structs import replace

from slackwater.model.decision import CommandKind
from slackwater.model.plan import Result
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.record.rule_changes import RULE
from slackwater.record.rule_events import TRIGGERED

#: Lines on a screen; and as many as are kept at all, for scripts.
FEW, MANY = 40, 2000
SCENARIO, AGENT = "scenario", "agent"
_UNLIMITED = "unlimited"
#: The one container of a simulated pod, whose cgroup is called by the runtime's id.
_CONTAINER = re.compile(r"/[0-9a-f]{64}\b")
_QUOTA, _EVENT = "quota of ", "event "
#: Results that follow from a pod's end.
_AFTER_THE_END = (f"{Result.VANISHED.value}", f"{Result.APPLIED.value}: the pod is gone")
#: Lines about commands begin so: each has a line of its own.
_COMMANDS = tuple(f"{kind.value} " for kind in CommandKind)
#: A swing of up to this many times the slack may disappear in its neighbour.
_SMALL = 4
#: A line that repeats one of the last few, within so many seconds, is counted there.
_NEAR, _SOON = 8, 60.0
#: How much slack grows from one try to the next.
_PATIENCE = 1.25


class TimelineRow(msgspec.Struct, frozen=True, rename="camel"):
    """One line, by the agent or by the scenario; `at` and `until` are seconds of the simulation. A
    fold of several goes from the first `before` to the last `after`, and says between which values;
    all four are empty for what is not a change. `times` counts repetitions."""

    at: float
    until: float
    by: str
    what: str
    before: str = ""
    after: str = ""
    lowest: str = ""
    highest: str = ""
    changes: int = 0
    because: str = ""
    result: str = ""
    times: int = 1

    def folds(self) -> bool:
        """Whether it may be one of several: a quota that was written."""
        return self.changes > 0 and self.what.startswith(_QUOTA)

    def is_done_command(self) -> bool:
        """A taint that comes, goes and comes again is three lines."""
        return self.what.startswith(_COMMANDS) and not self.result

    def is_trigger(self) -> bool:
        """Whether it tells of a rule that triggered."""
        return self.what == f"{_EVENT}{TRIGGERED}"


class Timeline:
    """Holds the lines so far; never many more than MANY."""

    def __init__(self) -> None:
        self._rows: list[TimelineRow] = []

    def add_rule_event(self, at: Micros, reason: str, message: str) -> None:
        """A Kubernetes event about a rule, as the agent would send it."""
        seconds = _seconds(at)
        self._add(TimelineRow(seconds, seconds, AGENT, f"{_EVENT}{reason}", because=message))

    def add_event(self, at: Micros, what: str, because: str) -> None:
        """Something that the scenario did, not the agent."""
        self._add(TimelineRow(_seconds(at), _seconds(at), SCENARIO, what, because=because))

    def add_entry(self, entry: JournalEntry) -> None:
        """An entry of the agent's journal. Left out is what other lines say: the effect what an
        event does, a rule's event that it triggered, and a pod's end that its cgroup is gone."""
        if entry.event is not None or entry.result.startswith(_AFTER_THE_END):
            return
        if entry.after and entry.what.startswith(RULE):
            return
        applied = entry.result == Result.APPLIED.value
        is_value = applied and not entry.what.startswith(_COMMANDS)
        row = TimelineRow(
            at=_seconds(entry.at),
            until=_seconds(entry.at),
            by=AGENT,
            what=_CONTAINER.sub("/main", entry.what),
            before=entry.before,
            after=entry.after,
            lowest=min(entry.before, entry.after, key=_amount) if is_value else "",
            highest=max(entry.before, entry.after, key=_amount) if is_value else "",
            changes=int(is_value),
            because=entry.because,
            result="" if applied else entry.result,
        )
        self._add(row)
        if len(self._rows) >= 2 * MANY:
            self._rows = fold_rows(self._rows, MANY)

    def _add(self, row: TimelineRow) -> None:
        """The same again soon after, between other lines: the earlier line says so. So it does of
        the next step to a value in the same tick."""
        for place in range(len(self._rows) - 1, max(len(self._rows) - _NEAR, 0) - 1, -1):
            seen = self._rows[place]
            if row.folds() or row.is_done_command():
                break
            if _is_next_step(seen, row):
                self._rows[place] = replace(seen, after=row.after)
                return
            if _is_again(seen, row):
                again = replace(seen, until=row.until, times=seen.times + 1)
                self._rows[place] = again
                return
        self._rows.append(row)

    def rows(self, most: int = MANY) -> list[TimelineRow]:
        return fold_rows(self._rows, most)


def _seconds(at: Micros) -> float:
    return round(at / 1_000_000, 3)


def _is_alike(seen: TimelineRow, row: TimelineRow) -> bool:
    return (seen.what, seen.because, seen.by) == (row.what, row.because, row.by)


def _is_again(seen: TimelineRow, row: TimelineRow) -> bool:
    values = (seen.before, seen.after, seen.result) == (row.before, row.after, row.result)
    return values and _is_alike(seen, row) and round(row.at - seen.until, 3) <= _SOON


def _is_next_step(seen: TimelineRow, row: TimelineRow) -> bool:
    """A set of CPUs that moves is widened first."""
    follows = row.changes > 0 and (seen.until, seen.after) == (row.at, row.before)
    return follows and _is_alike(seen, row) and seen.times == 1


def fold_rows(rows: list[TimelineRow], most: int) -> list[TimelineRow]:
    """At most `most`, if folding gets there: what is not a change stays."""
    rows = _fold_once(rows, 0)
    slack = 1.0
    while len(rows) > most and slack < 1 << 30:
        rows = _fold_once(rows, slack)
        slack *= _PATIENCE
    return rows


def _fold_once(rows: list[TimelineRow], slack: float) -> list[TimelineRow]:
    """Lines about several values that move together are neighbours of their own kind: only what is
    not a change of a value comes between two lines about one value."""
    folded: list[TimelineRow] = []
    latest: dict[str, int] = {}
    for row in rows:
        if not row.changes:
            latest.clear()
        place = latest.get(row.what)
        if place is not None and _can_merge(folded[place], row, slack):
            folded[place] = _merge_rows(folded[place], row)
            continue
        if row.folds():
            latest[row.what] = len(folded)
        folded.append(row)
    return folded


def _can_merge(one: TimelineRow, other: TimelineRow, slack: float) -> bool:
    if not (one.folds() and other.folds() and one.what == other.what):
        return False
    limitless = [_UNLIMITED in (row.before, row.after) for row in (one, other)]
    if any(limitless):
        # The first throttle and a release are lines of their own; a fight is one line.
        return all(limitless) and one.before == other.before
    if (_direction(one) > 0) == (_direction(other) > 0):
        return True
    # What both cover together is hardly more than one of them does, and one of them is small.
    spans = sorted((_span(one), _span(other)))
    return _span(_merge_rows(one, other)) - spans[1] <= slack and spans[0] <= _SMALL * slack


def _merge_rows(one: TimelineRow, other: TimelineRow) -> TimelineRow:
    return replace(
        other,
        at=one.at,
        before=one.before,
        lowest=min(one.lowest, other.lowest, key=_amount),
        highest=max(one.highest, other.highest, key=_amount),
        changes=one.changes + other.changes,
    )


def _direction(row: TimelineRow) -> float:
    return _amount(row.after) - _amount(row.before)


def _span(row: TimelineRow) -> float:
    return _amount(row.highest) - _amount(row.lowest)


@functools.lru_cache(maxsize=1 << 14)
def _amount(text: str) -> float:
    """ "1200m" as 1200; anything else is infinite."""
    number = text.removesuffix("m")
    return int(number) if number.isdigit() else float("inf")
