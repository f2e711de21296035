"""The journal: one entry for each effect, and a ring of whole recent ticks.

Entries and ticks are values; programs print and serve them.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from operator import is_not
from typing import Any, Generic, TypeVar

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import (
    Because,
    Command,
    CommandKind,
    Event,
    Grant,
    IntentValue,
    TickReport,
    share_equal,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, QUOTA, KnobValue
from slackwater.model.plan import CommandOutcome, CommandState, Outcome, Result
from slackwater.model.problem import shorten
from slackwater.model.snapshot import NodeSnapshot, find_changed_held
from slackwater.model.units import Bandwidth, Micros, Ratio, Unlimited
from slackwater.settings.agent_settings import AgentSettings

#: Results that are worth an entry: something happened, or something that should have did not.
_REPORTED = frozenset(
    {Result.APPLIED, Result.PLANNED, Result.REFUSED, Result.UNSUPPORTED, Result.VANISHED}
)
_DONE = (Result.APPLIED, Result.PLANNED)
#: From this many on, effects of one cause in one tick become one entry.
_GROUP_SIZE = 9
#: Of what the API server says about a command.
_LONGEST_DETAIL = 300
_UNWANTED = "no policy wants it any more"
_Time = TypeVar("_Time")


class TimedEntry(msgspec.Struct, Generic[_Time], frozen=True):
    """A journal entry as others show it, with a time of their own."""

    at: _Time
    what: str
    before: str = ""
    after: str = ""
    because: str = ""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One effect, or why there was none. `what` is a knob and its cgroup, a command such as evict
    batch/job-1, or a policy."""

    tick: int
    at: Micros
    what: str
    before: str = ""
    after: str = ""
    because: str = ""
    result: str = ""
    event: Event | None = None


class TickInputs(msgspec.Struct, frozen=True):
    """What a tick had besides the snapshot: its memory, of the tick's own type, the settings of the
    enabled policies by name, and the agent's."""

    memory: Any
    policies: Mapping[str, Any]
    agent: AgentSettings


class TickRecord(msgspec.Struct, frozen=True):
    """One whole tick, complete enough to explain and replay it. `took` includes writing;
    `commands` are those that got somewhere since the tick before."""

    snapshot: NodeSnapshot
    inputs: TickInputs
    story: TickReport
    outcomes: tuple[Outcome, ...]
    entries: tuple[JournalEntry, ...]
    took: Micros
    commands: tuple[CommandOutcome, ...] = ()


class Journal:
    """Keeps the last ticks, and when each knob was last changed. One thread writes, any may read.

    The ticks of a full node are large, so fewer of them are kept and the journal stays within a few
    MiB. Readings, grants and outcomes are counted, each is about 0.5 KiB; a grant
    that did not change since the tick before is the same object, and counts once.
    """

    def __init__(self, kept_ticks: int, kept_parts: int = 6_000) -> None:
        self._kept_ticks = kept_ticks
        self._kept_parts = kept_parts
        self._ticks: tuple[TickRecord, ...] = ()
        self._parts: tuple[int, ...] = ()
        self._changed: dict[tuple[int, str], Micros] = {}

    def keep(self, record: TickRecord) -> None:
        before = self._ticks[-1].story.grants if self._ticks else ()
        held = self._ticks[-1].snapshot.held if self._ticks else ()
        record = _share_grants(record, before)
        self._parts = (*self._parts, _count_parts(record, before))
        latest = reversed(self._parts[-self._kept_ticks :])
        fitting = sum(total <= self._kept_parts for total in accumulate(latest))
        room = max(fitting, 1)
        self._ticks, self._parts = (*self._ticks, record)[-room:], self._parts[-room:]
        applied = [o.change for o in record.outcomes if o.result is Result.APPLIED]
        if find_changed_held(held, record.snapshot.held) is None:
            ours = {(each.ref.id, each.knob) for each in record.snapshot.held}
            self._changed = {key: then for key, then in self._changed.items() if key in ours}
        at = record.snapshot.at
        self._changed.update({(change.ref.id, change.knob.name): at for change in applied})

    @property
    def ticks(self) -> tuple[TickRecord, ...]:
        return self._ticks

    @property
    def latest(self) -> TickRecord | None:
        return self._ticks[-1] if self._ticks else None

    def last_change(self, ref: CgroupRef, knob: str) -> Micros | None:
        """When this run last changed a knob; None if it did not."""
        return self._changed.get((ref.id, knob))


def _share_grants(record: TickRecord, before: tuple[Grant, ...]) -> TickRecord:
    grants = share_equal(before, record.story.grants)
    if grants is record.story.grants:
        return record
    story = msgspec.structs.replace(record.story, grants=grants)
    return msgspec.structs.replace(record, story=story)


def _count_parts(record: TickRecord, before: tuple[Grant, ...]) -> int:
    """How many values only this tick has."""
    grants = record.story.grants
    if len(before) == len(grants):
        news = sum(map(is_not, before, grants))
    else:
        known = {id(grant) for grant in before}
        news = sum(id(grant) not in known for grant in grants)
    return max(len(record.snapshot.readings) + news + len(record.outcomes), 1)


def make_entries(
    snapshot: NodeSnapshot,
    outcomes: Iterable[Outcome],
    story: TickReport,
    commands: Iterable[CommandOutcome] = (),
) -> tuple[JournalEntry, ...]:
    """A tick's entries: events, effects, commands, and notes about knobs."""
    tick, at = snapshot.tick, snapshot.at
    events = [
        JournalEntry(
            tick, at, event.name, after=f"{event.milli}m", because=line.reason, event=event
        )
        for line in story.told
        for event in line.events
    ]
    effects = _effect_entries(outcomes, snapshot, story.grants)
    notes = [
        JournalEntry(tick, at, f"{note.knob} of {note.target.path}", because=note.text)
        for note in story.notes
    ]
    return (*events, *effects, *(command_entry(each, tick) for each in commands), *notes)


def plan_command_entries(
    snapshot: NodeSnapshot, commands: Iterable[Command]
) -> tuple[JournalEntry, ...]:
    """Of a dry run: what would be asked of the API server."""
    return tuple(
        JournalEntry(
            snapshot.tick,
            snapshot.at,
            command.title(),
            *_command_values(command),
            _format_because(command.by, command.because),
            Result.PLANNED.value,
        )
        for command in commands
    )


def command_entry(outcome: CommandOutcome, tick: int) -> JournalEntry:
    command, done = outcome.command, outcome.state is CommandState.DONE
    before, after = _command_values(command)
    if outcome.undone:
        before, after = after, before
    before = outcome.before or before
    because = "nobody asks for it any more"
    if not outcome.undone:
        because = _format_because(command.by, command.because)
    result = Result.APPLIED.value if done else outcome.state.value
    detail = shorten(outcome.detail, _LONGEST_DETAIL)
    return JournalEntry(
        tick,
        outcome.at,
        command.title(),
        before,
        after,
        because,
        ": ".join(filter(None, (result, detail))),
    )


def _command_values(command: Command) -> tuple[str, str]:
    """What stands there without the command, and with it."""
    match command.kind:
        case CommandKind.TAINT:
            return "none", command.value
        case CommandKind.CONDITION:
            return "False", command.value or "True"
        case CommandKind.EVICT:
            return "running", "evicted"
        case CommandKind.NODE_RESOURCE:
            return "none", command.value


def _effect_entries(
    outcomes: Iterable[Outcome], snapshot: NodeSnapshot, grants: Iterable[Grant]
) -> Iterator[JournalEntry]:
    """One for each change; many of one cause become one: those that follow one quota above them on
    cgroup v1, and sets of CPUs for the same reason. The tick's record has all outcomes."""
    outcomes = tuple(outcomes)
    concerned = {outcome.change.ref.id for outcome in outcomes}
    granted = {
        (grant.target.id, grant.knob): grant for grant in grants if grant.target.id in concerned
    }
    groups: dict[tuple[str, str, Result], list[Outcome]] = {}
    for outcome in outcomes:
        change = outcome.change
        grant = granted.get((change.ref.id, change.knob.name))
        cause = _common_cause(change.knob.name, grant) if outcome.result in _DONE else ""
        if cause:
            groups.setdefault((change.knob.name, cause, outcome.result), []).append(outcome)
        elif entry := make_entry(outcome, snapshot, grant):
            yield entry
    for (knob, cause, _), group in groups.items():
        if len(group) >= _GROUP_SIZE:
            yield _group_entry(group, knob, cause, snapshot)
            continue
        for outcome in group:
            if entry := make_entry(outcome, snapshot, granted.get((outcome.change.ref.id, knob))):
                yield entry


def _common_cause(knob: str, grant: Grant | None) -> str:
    """What many changes of a knob may have in common; empty where each is told for itself."""
    if knob == CPUS.name:
        return _format_reasons(grant) if grant else _UNWANTED
    return grant.follows if grant else ""


def _group_entry(
    group: list[Outcome], knob: str, cause: str, snapshot: NodeSnapshot
) -> JournalEntry:
    below, because = "", cause
    if knob != CPUS.name:
        below = f" below {cause}"
        because = "on cgroup v1 no quota is above that one: those that fit are set, the others not"
    return JournalEntry(
        tick=snapshot.tick,
        at=snapshot.at,
        what=f"{knob} of {len({outcome.change.ref.id for outcome in group})} groups{below}",
        before=_format_range(outcome.change.old for outcome in group),
        after=_format_range(outcome.change.new for outcome in group),
        because=because,
        result=group[0].result.value,
    )


def _format_range(values: Iterable[KnobValue]) -> str:
    """The only value, or from the smallest to the largest; sets of CPUs have no such order."""
    found = sorted(set(values), key=_sort_key)
    if len(found) > 1 and isinstance(found[0], CpuSet):
        return f"{len(found)} sets of CPUs"
    ends = dict.fromkeys((format_value(found[0]), format_value(found[-1])))
    return " to ".join(ends)


def _sort_key(value: KnobValue) -> float:
    match value:
        case Bandwidth(limit, period) if not isinstance(limit, Unlimited):
            return limit / period
        case int():
            return value
        case _:
            return float("inf")


def make_entry(
    outcome: Outcome, snapshot: NodeSnapshot, grant: Grant | None
) -> JournalEntry | None:
    """The entry of a change, unless nothing changed or the same detail was reported before."""
    if outcome.result not in _REPORTED:
        return None
    if outcome.result is Result.UNSUPPORTED and not outcome.detail:
        return None
    if outcome.result in _DONE and outcome.change.old == outcome.change.new:
        return None
    because = _format_reasons(grant) if grant else _UNWANTED
    return outcome_entry(outcome, snapshot.tick, snapshot.at, because)


def outcome_entry(outcome: Outcome, tick: int, at: Micros, because: str) -> JournalEntry:
    """The entry of an outcome, whatever its result."""
    change = outcome.change
    return JournalEntry(
        tick=tick,
        at=at,
        what=f"{change.knob.name} of {change.ref.path}",
        before=format_value(change.old),
        after=format_value(change.new),
        because=because,
        result=": ".join(filter(None, (outcome.result.value, outcome.detail))),
    )


def _format_reasons(grant: Grant) -> str:
    return "; ".join(_format_because(step.by, step.because) for step in grant.contributions)


def _format_because(by: str, because: Because) -> str:
    return f"{by}: {because.signal} {because.seen}, {because.limit}"


def format_amount(knob: str, value: IntentValue) -> str:
    """What was asked for or granted, for people: a quota in milliCPU, a ratio, else the value."""
    match value:
        case Ratio(numerator, denominator):
            return f"{numerator}/{denominator}"
        case int() if knob == QUOTA.name:
            return f"{value}m"
        case _:
            return format_value(value)


def format_value(value: KnobValue | Gap) -> str:
    """A knob's value for people: milliCPU for a quota."""
    match value:
        case Bandwidth():
            milli = value.milli()
            return "unlimited" if isinstance(milli, Unlimited) else f"{milli}m"
        case Unlimited():
            return "unlimited"
        case CpuSet():
            return value.format()
        case Gap(reason):
            return reason
        case bool():
            return str(int(value))  # as the kernel's file has it
        case _:
            return str(value)
