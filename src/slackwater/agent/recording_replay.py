"""Replays a recording with today's policies and compares what they decide. Pure.

The loop is open: the snapshots show what was written then, whatever today's policies would have
written. So what policies say and what they are granted is compared first; a change is compared
only where its grant is the same.

A recording of an older version is still worth a replay: settings and memory that today's types do
not take are reported, and the policy is off or starts anew.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from slackwater.agent.tick import PolicyState, TickMemory, TickResult, tick
from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import (
    Command,
    Grant,
    PolicyAction,
    PolicyReport,
    RuleReport,
    Verb,
)
from slackwater.model.knob import KNOBS, QUOTA, KnobKey
from slackwater.model.snapshot import WritePrecision
from slackwater.model.unit_property import settle_in_unit
from slackwater.model.units import Micros
from slackwater.policies.policy import Policy
from slackwater.record.journal import format_amount, format_value
from slackwater.record.recording import (
    RecordedSettings,
    RecordedTick,
    Recording,
    RecordingError,
    TickLine,
    decode_key,
)
from slackwater.record.rules import describe_comparison, rule_title
from slackwater.resolution.planning import Drift, PlannedChanges
from slackwater.settings.agent_document import Settings
from slackwater.settings.agent_settings import AgentSettings

#: Recorded settings into those to replay with.
Overlay = Callable[[Settings], Settings]
ReportProblem = Callable[[str], None]
_Key = tuple[int, str]
_Read = TypeVar("_Read")

RELEASED = "released"
OFF = "off"
NOTHING = "nothing"


class Aspect(enum.Enum):
    """What differs."""

    COURSE = "course"  # what a policy did, or why
    GRANT = "grant"
    CHANGE = "change"  # what is written, though the grant is the same
    RULE = "rule"  # the state of a rule about a metric
    COMMAND = "command"  # an eviction, a taint or a condition


class Difference(msgspec.Struct, frozen=True):
    """One policy or knob in one tick. `at` counts from the recording's first tick; `because` is
    today's reason."""

    tick: int
    at: Micros
    aspect: Aspect
    what: str
    then: str
    now: str
    because: str


class Replayed(msgspec.Struct, frozen=True, rename="camel"):
    """`problems` are what of the recording could not be used."""

    recorded_by: str
    ticks: int
    same: int
    different: int
    differences: tuple[Difference, ...]
    problems: tuple[str, ...]
    api_version: str = "slackwater.io/v1"
    kind: str = "ReplayReport"


def as_recorded(settings: Settings) -> Settings:
    return settings


def replay(
    recording: Recording, policies: Sequence[Policy], overlay: Overlay = as_recorded
) -> Replayed:
    """From the first tick's memory on today's own is carried. Raises RecordingError where a
    snapshot is none that an agent could have seen."""
    problems: dict[str, None] = {}
    first = recording.ticks[0].line.snapshot.at
    found = [
        tuple(_differences(line, done, Micros(line.snapshot.at - first)))
        for line, done in _ticked(recording, policies, overlay, problems.setdefault)
    ]
    different = sum(bool(each) for each in found)
    return Replayed(
        recorded_by=recording.version,
        ticks=len(found),
        same=len(found) - different,
        different=different,
        differences=tuple(each for one_tick in found for each in one_tick),
        problems=tuple(problems),
    )


def _ticked(
    recording: Recording,
    policies: Sequence[Policy],
    overlay: Overlay,
    report_problem: ReportProblem,
) -> Iterable[tuple[TickLine, TickResult]]:
    guessed = _guess_precision(recording.ticks)
    memory = _read_memory(recording.ticks[0].line.memory, policies, report_problem)
    said: RecordedSettings | None = None
    settings = Settings()
    remembers = False
    for recorded in recording.ticks:
        line = recorded.line
        if recorded.settings is not said:
            said = recorded.settings
            settings = overlay(_read_settings(said, policies, report_problem))
        if remembers and _is_blank(line.memory):
            memory = TickMemory()  # the agent was started again, or everything was released
        on = _enabled_policies(settings, policies)
        snapshot = line.snapshot
        if snapshot.precision is None:
            snapshot = msgspec.structs.replace(snapshot, precision=guessed)
        try:
            done = tick(snapshot, memory, policies, on, settings.agent)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise RecordingError(f"tick {line.snapshot.tick} cannot be run: {error}") from None
        memory = done.memory
        remembers = bool(line.story.told)
        yield line, done


def _guess_precision(ticks: Sequence[RecordedTick]) -> WritePrecision:
    """Older recordings do not say by which route values were written. Slices whose quotas were all
    whole percents were systemd's."""
    lines = [recorded.line for recorded in ticks]
    written = [outcome.new for line in lines for outcome in line.outcomes]
    written += [held.ours for line in lines for held in line.snapshot.held]
    slices = all(line.snapshot.kubepods.path.endswith(".slice") for line in lines)
    if slices and written and all(settle_in_unit(QUOTA, value) == value for value in written):
        return WritePrecision(unit_knobs=frozenset(knob.name for knob in KNOBS))
    return WritePrecision()


def _differences(then: TickLine, now: TickResult, at: Micros) -> Iterable[Difference]:
    number = then.snapshot.tick
    before, after = _by_knob(then.story.grants), _by_knob(now.story.grants)
    moved = [key for key in before | after if _sum(before.get(key)) != _sum(after.get(key))]
    for key in moved:
        what = _name((before.get(key) or after[key]).target, key)
        said = _grant_texts(before.get(key), after.get(key))
        why = _why(after.get(key))
        yield Difference(number, at, Aspect.GRANT, what, *said, why)
    concerned = {
        step.by
        for key in moved
        for grant in (before.get(key), after.get(key))
        for step in (grant.contributions if grant else ())
    }
    for course in _courses(then.story.told, now.story.told, concerned):
        yield Difference(number, at, Aspect.COURSE, *course)
    for rule in _rules(then.story.told, now.story.told):
        yield Difference(number, at, Aspect.RULE, *rule)
    for command in _commands(then.story.commands, now.story.commands):
        yield Difference(number, at, Aspect.COMMAND, *command)
    names, made, planned = _changes(then, now.planned)
    for key in made | planned:
        texts = made.get(key, NOTHING), planned.get(key, NOTHING)
        if texts[0] != texts[1] and key not in moved:
            why = _why(after.get(key))
            yield Difference(number, at, Aspect.CHANGE, names[key], *texts, why)


def _by_knob(grants: Iterable[Grant]) -> dict[_Key, Grant]:
    return {(grant.target.id, grant.knob): grant for grant in grants}


def _name(target: CgroupRef, key: _Key) -> str:
    return f"{key[1]} of {target.path}"


def _sum(grant: Grant | None) -> object:
    """A grant without its words: another wording grants nothing else."""
    if grant is None:
        return None
    steps = [(step.by, step.verb, step.value, step.after) for step in grant.contributions]
    return grant.value, steps, grant.clipped_by, grant.contest


def _grant_texts(then: Grant | None, now: Grant | None) -> tuple[str, str]:
    """Amounts; where those are equal, how they came about."""
    amounts = [
        format_amount(grant.knob, grant.value) if grant else NOTHING for grant in (then, now)
    ]
    if amounts[0] != amounts[1] or then is None or now is None:
        return amounts[0], amounts[1]
    return f"{amounts[0]}: {_steps(then)}", f"{amounts[1]}: {_steps(now)}"


def _steps(grant: Grant) -> str:
    steps = [
        f"{step.by} {step.verb.value} {format_amount(grant.knob, step.value)}"
        for step in grant.contributions
    ]
    return ", ".join(steps) or "no contribution"


def _why(grant: Grant | None) -> str:
    if grant is None:
        return "no policy wants it changed"
    steps = [(step.by, step.because) for step in grant.contributions]
    return "; ".join(f"{by}: {why.signal} {why.seen}, {why.limit}" for by, why in steps)


def _courses(
    then: Iterable[PolicyReport], now: Iterable[PolicyReport], concerned: set[str]
) -> Iterable[tuple[str, str, str, str]]:
    """Policies that took another course, or the same one for another reason. One that acted both
    times is told by its grants where those differ."""
    before = {told.policy: told for told in then}
    after = {told.policy: told for told in now}
    for policy in before | after:
        old, new = before.get(policy), after.get(policy)
        words = _course(old), _course(new)
        if words[0] != words[1]:
            yield policy, *words, new.reason if new else "it is off, or there is no such policy"
        elif old is None or new is None or old.reason == new.reason:
            continue
        elif new.course is not PolicyAction.ACTED or policy not in concerned:
            yield policy, old.reason, new.reason, f"it {words[1]} both times"


def _rules(
    then: Iterable[PolicyReport], now: Iterable[PolicyReport]
) -> Iterable[tuple[str, str, str, str]]:
    """Rules that are in another state."""
    before, after = _rules_by_title(then), _rules_by_title(now)
    for title in before | after:
        old, new = before.get(title), after.get(title)
        words = [rule.state.value if rule else NOTHING for rule in (old, new)]
        if words[0] != words[1]:
            why = "there is no such rule" if new is None else describe_comparison(new)
            yield title, words[0], words[1], why


def _rules_by_title(told: Iterable[PolicyReport]) -> dict[str, RuleReport]:
    return {rule_title(rule): rule for line in told for rule in line.rules}


def _commands(
    then: Iterable[Command], now: Iterable[Command]
) -> Iterable[tuple[str, str, str, str]]:
    """Commands that were asked for then and are not now, or the other way round."""
    before, after = ({each.key: each for each in commands} for commands in (then, now))
    for key, command in (before | after).items():
        if key in before and key in after:
            continue
        words = ("asked for", NOTHING) if key in before else (NOTHING, "asked for")
        because = command.because
        why = f"{command.by}: {because.signal} {because.seen}, {because.limit}"
        yield command.title(), *words, why if key in after else "no policy asks for it"


def _course(told: PolicyReport | None) -> str:
    return told.course.value if told else OFF


def _changes(
    then: TickLine, planned: PlannedChanges
) -> tuple[Mapping[_Key, str], dict[_Key, str], dict[_Key, str]]:
    """Each knob's name, what was to be written then, and now."""
    granted = _by_knob(then.story.grants)
    made = {
        key: format_value(each.new) if key in granted else RELEASED
        for each in then.outcomes
        # Equal ends are the executor's own: it keeps a value over another's change.
        if (key := (each.ref.id, each.knob)) not in granted or each.old != each.new
    }
    today = {(each.ref.id, each.knob.name): format_value(each.new) for each in planned.changes}
    today |= {(held.ref.id, held.knob): RELEASED for held in planned.releases}
    refs = {(each.ref.id, each.knob): each.ref for each in then.outcomes}
    refs |= {(each.ref.id, each.knob.name): each.ref for each in planned.changes}
    refs |= {(held.ref.id, held.knob): held.ref for held in planned.releases}
    return {key: _name(ref, key) for key, ref in refs.items()}, made, today


class _Memory(msgspec.Struct, frozen=True):
    """The tick's memory, policy by policy: one that cannot be read costs no other."""

    policies: dict[str, msgspec.Raw] = {}
    drift: dict[KnobKey, Drift] = {}


def _read_settings(
    recorded: RecordedSettings, policies: Sequence[Policy], report_problem: ReportProblem
) -> Settings:
    """All of them as one document. A policy that was off is disabled in it, and so is one whose
    settings cannot be read."""
    known = {policy.name for policy in policies}
    for name in sorted(recorded.policies.keys() - known):
        report_problem(f"the policy {name} was on, and there is none of this name now")
    agent = _read(recorded.agent, AgentSettings)
    if isinstance(agent, str):
        report_problem(f"the agent's settings cannot be read, so the defaults count: {agent}")
    sections = {policy.name: policy.settings() for policy in policies}
    for policy in sorted(policies, key=lambda each: each.name):
        if policy.name not in recorded.policies:
            continue
        kind = policy.bound_settings or policy.settings
        section = _read(recorded.policies[policy.name], kind)
        if isinstance(section, str):
            report_problem(f"the settings of {policy.name} cannot be read, so it is off: {section}")
        else:
            sections[policy.name] = section
    return Settings(AgentSettings() if isinstance(agent, str) else agent, sections)


def _enabled_policies(settings: Settings, policies: Sequence[Policy]) -> dict[str, Any]:
    """The settings of each policy that is on, by its name. One that takes what objects add to them
    was off where it has none of that."""
    return {
        policy.name: section
        for policy in policies
        if (section := settings.policies[policy.name]).enabled
        and isinstance(section, policy.bound_settings or policy.settings)
    }


def _read_memory(
    recorded: msgspec.Raw, policies: Sequence[Policy], report_problem: ReportProblem
) -> TickMemory:
    memory = _read(recorded, _Memory)
    if isinstance(memory, str):
        report_problem(f"the memory cannot be read, so all start anew: {memory}")
        return TickMemory()
    states: dict[str, PolicyState] = {}
    for policy in policies:
        if policy.name not in memory.policies:
            continue
        state = _state(memory.policies[policy.name], policy)
        if isinstance(state, str):
            report_problem(
                f"the memory of {policy.name} cannot be read, so it starts anew: {state}"
            )
        else:
            states[policy.name] = state
    return TickMemory(states, memory.drift)


def _is_blank(recorded: msgspec.Raw) -> bool:
    """Whether nothing was remembered, as at an agent's start."""
    return _read(recorded, _Memory) == _Memory()


def _state(recorded: msgspec.Raw, policy: Policy) -> PolicyState | str:
    try:
        document = _with_whole_intents(msgspec.json.decode(recorded))
        state = msgspec.convert(document, PolicyState, str_keys=True)
        memory = msgspec.convert(state.memory, type(policy.first_memory), str_keys=True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    return msgspec.structs.replace(state, memory=memory)


def _with_whole_intents(state: Any) -> Any:  # noqa: ANN401 - JSON of any version
    """Older recordings: a quota intent did not name its knob, and any other not its verb."""
    match state:
        case {"intents": [*intents]}:
            whole = [
                {"knob": QUOTA.name, "verb": Verb.SET.value, **each}
                if isinstance(each, dict)
                else each
                for each in intents
            ]
            return {**state, "intents": whole}
        case _:
            return state


def _read(recorded: msgspec.Raw, kind: type[_Read]) -> _Read | str:
    """The value, or why there is none."""
    try:
        return msgspec.json.decode(recorded, type=kind, dec_hook=decode_key)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
