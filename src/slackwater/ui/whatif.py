"""What if: one setting changed, and recorded ticks decided anew.

What may be changed are the settings of today's policies, and the value of each rule that the
recording has. The replay is open: docs/reference/replay.md says what that means.
"""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.agent.recording_replay import Aspect, Difference, Overlay, as_recorded, replay
from slackwater.contract.crane.ensurance import MetricRule
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import QuantityError, parse_quantity
from slackwater.policies.catalog import POLICIES, SETTINGS
from slackwater.policies.ensurance.bound_rules import BoundRule
from slackwater.policies.ensurance.watermark_settings import WatermarkRules
from slackwater.record.recording import Recording, RecordingError
from slackwater.record.rules import format_quantity
from slackwater.settings.agent_document import Settings
from slackwater.settings.setting import Setting
from slackwater.ui.sources import NotAvailableError

#: In front of a rule's title, among the keys of settings.
RULE = "rule:"
_WATERMARK = "watermark_relief"
#: Of differences that are listed; all are counted.
MOST_SHOWN = 100
_MICROS = 1_000_000


class Choice(msgspec.Struct, frozen=True):
    """Something that may be changed: its key, in which group it is listed, its value in the
    recording, what it may be, and what it does."""

    key: str
    group: str
    label: str
    now: str
    bound: str
    description: str = ""


class ChangedThing(msgspec.Struct, frozen=True):
    """What differs, summed up over the ticks: what it was and is in the last tick that differs."""

    what: str
    aspect: str
    ticks: int
    then: str
    now: str
    because: str


class TickMark(msgspec.Struct, frozen=True):
    """One tick of the recording: seconds since the first, and how much differs in it."""

    tick: int
    at: float
    differences: int


class WhatIf(msgspec.Struct, frozen=True):
    """The recording under the changed setting, compared with what was recorded. `marks` are for
    every tick, `shown` the first differences."""

    ticks: int
    different: int
    recorded_by: str
    marks: tuple[TickMark, ...]
    things: tuple[ChangedThing, ...]
    shown: tuple[Difference, ...]
    total: int
    problems: tuple[str, ...]


def list_choices(recording: Recording) -> tuple[Choice, ...]:
    """Those that had a part in the recording first: its rules, then the policies that were on."""
    last = recording.ticks[-1].settings.policies
    base = _recorded_settings(recording)
    rules = tuple(
        Choice(
            f"{RULE}{rule.title()}",
            "rules of the recording",
            f"{rule.title()}: {rule.rule.metric_rule.name} above",
            format_quantity(rule.rule.metric_rule.exact_limit),
            "a quantity above 0",
        )
        for rule in _rules(base)
    )
    rows = sorted(SETTINGS.rows, key=lambda row: row.path[0] not in last)
    return rules + tuple(
        Choice(
            row.key,
            row.path[0] if row.path[0] in last else f"{row.path[0]} (was off)",
            row.key,
            _value_in(base, row),
            row.bound,
            row.description,
        )
        for row in rows
        if row.path[0] in base.policies
    )


def run_whatif(recording: Recording, key: str, value: str) -> WhatIf:
    """Raises NotAvailableError where the value or the recording is none that can be used."""
    overlay = make_overlay(recording, key, value)
    try:
        done = replay(recording, POLICIES, overlay)
    except (RecordingError, InvalidError) as error:
        raise NotAvailableError(str(error)) from None
    first = recording.ticks[0].line.snapshot.at
    counts: dict[int, int] = {}
    for each in done.differences:
        counts[each.tick] = counts.get(each.tick, 0) + 1
    marks = tuple(
        TickMark(line.snapshot.tick, (line.snapshot.at - first) / _MICROS, found)
        for line in (recorded.line for recorded in recording.ticks)
        for found in (counts.get(line.snapshot.tick, 0),)
    )
    return WhatIf(
        ticks=done.ticks,
        different=done.different,
        recorded_by=done.recorded_by,
        marks=marks,
        things=tuple(_sum_up(done.differences)),
        shown=done.differences[:MOST_SHOWN],
        total=len(done.differences),
        problems=done.problems,
    )


def make_overlay(recording: Recording, key: str, value: str) -> Overlay:
    """What one change makes of recorded settings. Raises NotAvailableError for a bad value."""
    if not key:
        return as_recorded
    if key.startswith(RULE):
        return _rule_overlay(recording, key.removeprefix(RULE), value)
    if key not in {row.key for row in SETTINGS.rows}:
        raise NotAvailableError(f"there is no setting {quoted(key)}")
    try:
        SETTINGS.with_texts(None, {key: value})
    except InvalidError as error:
        raise NotAvailableError(_without_flags(str(error))) from None
    return lambda recorded: SETTINGS.with_texts(recorded, {key: value})


def _rule_overlay(recording: Recording, title: str, value: str) -> Overlay:
    if title not in {rule.title() for rule in _rules(_recorded_settings(recording))}:
        raise NotAvailableError(f"the recording has no rule {quoted(title)}")
    try:
        if parse_quantity(value).numerator <= 0:
            raise QuantityError(value)
    except QuantityError:
        wanted = "a quantity above 0, such as 4000, 4k or 50m"
        raise NotAvailableError(Problem(title, quoted(value), wanted).sentence()) from None
    return lambda recorded: _with_limit(recorded, title, value)


def _with_limit(recorded: Settings, title: str, limit: str) -> Settings:
    section = recorded.policies.get(_WATERMARK)
    if not isinstance(section, WatermarkRules):
        return recorded
    rules = tuple(
        _limited(rule, limit) if rule.title() == title else rule for rule in section.rules
    )
    changed = msgspec.structs.replace(section, rules=rules)
    return msgspec.structs.replace(recorded, policies={**recorded.policies, _WATERMARK: changed})


def _limited(bound: BoundRule, limit: str) -> BoundRule:
    metric: MetricRule = msgspec.structs.replace(bound.rule.metric_rule, value=limit)
    rule = msgspec.structs.replace(bound.rule, metric_rule=metric)
    return msgspec.structs.replace(bound, rule=rule)


def _recorded_settings(recording: Recording) -> Settings:
    """In force at the recording's end, as the replay reads them; a section that cannot be read has
    its defaults."""
    found: dict[str, object] = dict(SETTINGS.defaults.policies)
    said: Mapping[str, msgspec.Raw] = recording.ticks[-1].settings.policies
    for policy in POLICIES:
        if policy.name in said:
            kind = policy.bound_settings or policy.settings
            try:
                found[policy.name] = msgspec.json.decode(said[policy.name], type=kind)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    return msgspec.structs.replace(SETTINGS.defaults, policies=found)


def _rules(settings: Settings) -> tuple[BoundRule, ...]:
    section = settings.policies.get(_WATERMARK)
    return section.rules if isinstance(section, WatermarkRules) else ()


def _value_in(settings: Settings, row: Setting) -> str:
    """As a person would write it."""
    found: object = settings.policies.get(row.path[0])
    for step in row.path[1:]:
        found = getattr(found, step)
    return msgspec.structs.replace(row, default_value=found).default


def _without_flags(sentence: str) -> str:
    """Names of flags and variables say nothing on a page."""
    head, found, rest = sentence.partition(" (--")
    return f"{head}{rest.partition(')')[2]}" if found else sentence


def _sum_up(differences: tuple[Difference, ...]) -> Iterator[ChangedThing]:
    """Grants first, then by how many ticks they differ in."""
    by_thing: dict[tuple[Aspect, str], list[Difference]] = {}
    for each in differences:
        by_thing.setdefault((each.aspect, each.what), []).append(each)
    order = sorted(
        by_thing.items(), key=lambda item: (item[0][0] is not Aspect.GRANT, -len(item[1]))
    )
    for (aspect, what), found in order:
        last = found[-1]
        yield ChangedThing(what, aspect.value, len(found), last.then, last.now, last.because)
