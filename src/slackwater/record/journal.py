"""The journal: one entry for each effect, and a ring of whole recent ticks.

Owns what is told, not how: an entry is a value, and so is a tick; programs print and serve them.
"""

from collections import deque

import msgspec

from slackwater.model.decision import Grant
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobValue
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros, Unlimited

#: Results that are worth an entry: something happened, or something that should have did not.
_TOLD = frozenset({Result.APPLIED, Result.REFUSED, Result.UNSUPPORTED, Result.VANISHED})


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One effect, or why there was none. `what` is a knob and its cgroup, or a policy."""

    tick: int
    at: Micros
    what: str
    before: str = ""
    after: str = ""
    because: str = ""
    result: str = ""


class TickRecord(msgspec.Struct, frozen=True):
    """One whole tick, as it can be explained and replayed."""

    snapshot: NodeSnapshot
    grants: tuple[Grant, ...]
    entries: tuple[Entry, ...]


class Journal:
    """Keeps the last ticks; who tells them is a program's business."""

    def __init__(self, kept_ticks: int) -> None:
        self._ticks: deque[TickRecord] = deque(maxlen=kept_ticks)

    def keep(self, record: TickRecord) -> None:
        self._ticks.append(record)

    @property
    def ticks(self) -> tuple[TickRecord, ...]:
        return tuple(self._ticks)


def entry_of(outcome: Outcome, snapshot: NodeSnapshot, grants: tuple[Grant, ...]) -> Entry | None:
    """The entry of a change; an unchanged value is no effect, and a detail said before is not
    said again."""
    change = outcome.change
    if outcome.result not in _TOLD:
        return None
    if outcome.result is Result.UNSUPPORTED and not outcome.detail:
        return None
    grant = next((g for g in grants if g.target.id == change.ref.id), None)
    because = _reasons(grant) if grant else "nobody wants it any more"
    return told(outcome, snapshot.tick, snapshot.at, because)


def told(outcome: Outcome, tick: int, at: Micros, because: str) -> Entry:
    """The entry of an outcome, whatever it was."""
    change = outcome.change
    return Entry(
        tick=tick,
        at=at,
        what=f"{change.knob.name} of {change.ref.path}",
        before=spelled(change.old),
        after=spelled(change.new),
        because=because,
        result=": ".join(filter(None, (outcome.result.value, outcome.detail))),
    )


def _reasons(grant: Grant) -> str:
    steps = [
        f"{step.by}: {step.because.signal} {step.because.seen}, {step.because.limit}"
        for step in grant.contributions
    ]
    return "; ".join(steps)


def spelled(value: KnobValue | Gap) -> str:
    """A knob's value for people: milliCPU for a quota."""
    match value:
        case Bandwidth():
            milli = value.milli()
            return "unlimited" if isinstance(milli, Unlimited) else f"{milli}m"
        case Unlimited():
            return "unlimited"
        case Gap(reason):
            return reason
        case _:
            return str(value)
