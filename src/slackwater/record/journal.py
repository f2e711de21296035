"""The journal: one entry for each effect, and a ring of whole recent ticks.

Owns what is told, not how: an entry is a value, and so is a tick; programs print and serve them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Event, Grant
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobValue
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.story import Story
from slackwater.model.units import Bandwidth, Micros, Unlimited
from slackwater.settings.agent import AgentSettings

#: Results that are worth an entry: something happened, or something that should have did not.
_TOLD = frozenset(
    {Result.APPLIED, Result.PLANNED, Result.REFUSED, Result.UNSUPPORTED, Result.VANISHED}
)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One effect, or why there was none. `what` is a knob and its cgroup, or a policy."""

    tick: int
    at: Micros
    what: str
    before: str = ""
    after: str = ""
    because: str = ""
    result: str = ""
    event: Event | None = None


class Inputs(msgspec.Struct, frozen=True):
    """What a tick had besides the snapshot: its memory, which is the tick's own type, the settings
    of the policies that were on, by name, and the agent's."""

    memory: Any
    policies: Mapping[str, Any]
    agent: AgentSettings


class TickRecord(msgspec.Struct, frozen=True):
    """One whole tick, as it can be explained and replayed. `took` is until all was written."""

    snapshot: NodeSnapshot
    inputs: Inputs
    story: Story
    outcomes: tuple[Outcome, ...]
    entries: tuple[Entry, ...]
    took: Micros


class Journal:
    """Keeps the last ticks, and when each knob was last changed. One thread writes, any may read.

    A tick that read every container is large: fewer of those are kept, so that the journal stays
    within a few MiB (a reading is about 0.5 KiB).
    """

    def __init__(self, kept_ticks: int, kept_readings: int = 6_000) -> None:
        self._kept_ticks = kept_ticks
        self._kept_readings = kept_readings
        self._ticks: tuple[TickRecord, ...] = ()
        self._changed: dict[tuple[int, str], Micros] = {}

    def keep(self, record: TickRecord) -> None:
        largest = max(len(record.snapshot.readings), 1)
        room = max(min(self._kept_ticks, self._kept_readings // largest), 1)
        self._ticks = (*self._ticks[-(room - 1) :], record) if room > 1 else (record,)
        applied = [o.change for o in record.outcomes if o.result is Result.APPLIED]
        if applied:
            at = record.snapshot.at
            ours = {(held.ref.id, held.knob) for held in record.snapshot.held}
            news = {(change.ref.id, change.knob.name): at for change in applied}
            kept = {key: then for key, then in self._changed.items() if key in ours}
            self._changed = kept | news

    @property
    def ticks(self) -> tuple[TickRecord, ...]:
        return self._ticks

    @property
    def latest(self) -> TickRecord | None:
        return self._ticks[-1] if self._ticks else None

    def changed(self, ref: CgroupRef, knob: str) -> Micros | None:
        """When this run last changed a knob; None where it did not."""
        return self._changed.get((ref.id, knob))


def entries_of(
    snapshot: NodeSnapshot, outcomes: Iterable[Outcome], story: Story
) -> tuple[Entry, ...]:
    """A tick's entries: events, effects, and what happened to knobs besides."""
    tick, at = snapshot.tick, snapshot.at
    events = [
        Entry(tick, at, event.name, after=f"{event.milli}m", because=line.reason, event=event)
        for line in story.told
        for event in line.events
    ]
    effects = (entry_of(outcome, snapshot, story.grants) for outcome in outcomes)
    notes = [
        Entry(tick, at, f"{note.knob} of {note.target.path}", because=note.text)
        for note in story.notes
    ]
    return (*events, *(entry for entry in effects if entry is not None), *notes)


def entry_of(outcome: Outcome, snapshot: NodeSnapshot, grants: tuple[Grant, ...]) -> Entry | None:
    """The entry of a change; an unchanged value is no effect, and a detail said before is not
    said again."""
    change = outcome.change
    if outcome.result not in _TOLD:
        return None
    if outcome.result is Result.UNSUPPORTED and not outcome.detail:
        return None
    key = (change.ref.id, change.knob.name)
    grant = next((g for g in grants if (g.target.id, g.knob) == key), None)
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
