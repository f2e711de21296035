"""What happened, in few lines: effects, states and the scenario's own events, in their order.

Owns the folding: neighbours about one quota become one line, first those that go the same way,
then whatever hides the least, until a person can read the rest.
"""

import functools
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from slackwater.model.units import Micros
from slackwater.record.journal import Entry

#: Lines on a screen; and as many as are kept at all, for scripts.
FEW, MANY = 40, 2000
SCENARIO = "scenario"
_UNLIMITED = "unlimited"
#: A swing of so many times the slack may go under in its neighbour.
_SMALL = 4
#: So many lines back, and so long ago, the same line is not repeated but counted.
_NEAR, _SOON = 8, Micros(60_000_000)
#: How much slack grows from one try to the next.
_PATIENCE = 1.25


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """One line, by the agent or by the scenario. A fold of several goes from the first `before` to
    the last `after`, and says between which values; all four are empty for what is no change."""

    at: Micros
    until: Micros
    what: str
    because: str
    before: str = ""
    after: str = ""
    lowest: str = ""
    highest: str = ""
    changes: int = 0
    result: str = ""
    by: str = "agent"
    times: int = 1

    def folds(self) -> bool:
        """Whether it may be one of several: a quota that was written."""
        return self.changes > 0


class Timeline:
    """Guards the lines so far; never many more than MANY."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def happened(self, at: Micros, what: str, because: str) -> None:
        """By the scenario, not by the agent."""
        self._add(Row(at, at, what, because, by=SCENARIO))

    def told(self, entry: Entry) -> None:
        """An entry of the journal's. Events repeat what the effect says."""
        if entry.event is not None:
            return
        applied = entry.result == "applied"
        row = Row(
            entry.at,
            entry.at,
            entry.what,
            entry.because,
            entry.before,
            entry.after,
            min(entry.before, entry.after, key=_amount) if applied else "",
            max(entry.before, entry.after, key=_amount) if applied else "",
            int(applied),
            "" if applied else entry.result,
        )
        self._add(row)
        if len(self._rows) >= 2 * MANY:
            self._rows = folded(self._rows, MANY)

    def _add(self, row: Row) -> None:
        """The same again soon after, between other lines: the earlier line says so."""
        for place in range(len(self._rows) - 1, max(len(self._rows) - _NEAR, 0) - 1, -1):
            seen = self._rows[place]
            if not row.folds() and _is_again(seen, row):
                again = replace(seen, until=row.until, times=seen.times + 1)
                self._rows[place] = again
                return
        self._rows.append(row)

    def rows(self, most: int = MANY) -> list[Row]:
        return folded(self._rows, most)


def _is_again(seen: Row, row: Row) -> bool:
    alike = (seen.what, seen.because, seen.by) == (row.what, row.because, row.by)
    return alike and seen.result == row.result and row.at - seen.until <= _SOON


def folded(rows: list[Row], most: int) -> list[Row]:
    """At most so many, if folding gets there: what is no change stays."""
    rows = list(_fold(rows, 0))
    slack = 1.0
    while len(rows) > most and slack < 1 << 30:
        rows = list(_fold(rows, slack))
        slack *= _PATIENCE
    return rows


def _fold(rows: list[Row], slack: float) -> Iterator[Row]:
    current: Row | None = None
    for row in rows:
        if current is not None and _joins(current, row, slack):
            current = _joined(current, row)
            continue
        if current is not None:
            yield current
        current = row
    if current is not None:
        yield current


def _joins(one: Row, other: Row, slack: float) -> bool:
    if not (one.folds() and other.folds() and one.what == other.what):
        return False
    limitless = [_UNLIMITED in (row.before, row.after) for row in (one, other)]
    if any(limitless):
        # The first throttle and a release are lines of their own; a fight is one line.
        return all(limitless) and one.before == other.before
    if (_way(one) > 0) == (_way(other) > 0):
        return True
    # What both cover together is hardly more than one of them does, and one of them is small.
    spans = sorted((_span(one), _span(other)))
    return _span(_joined(one, other)) - spans[1] <= slack and spans[0] <= _SMALL * slack


def _joined(one: Row, other: Row) -> Row:
    return Row(
        one.at,
        other.until,
        one.what,
        other.because,
        one.before,
        other.after,
        min(one.lowest, other.lowest, key=_amount),
        max(one.highest, other.highest, key=_amount),
        one.changes + other.changes,
        other.result,
    )


def _way(row: Row) -> float:
    return _amount(row.after) - _amount(row.before)


def _span(row: Row) -> float:
    return _amount(row.highest) - _amount(row.lowest)


@functools.lru_cache(maxsize=1 << 14)
def _amount(text: str) -> float:
    """ "1200m" as 1200; what is no such amount is beyond all."""
    number = text.removesuffix("m")
    return int(number) if number.isdigit() else float("inf")
