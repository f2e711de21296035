"""What is said about rules on metrics, and about the commands that they lead to: the words that
events, `explain`, `top` and the journal share, and the rows behind -o json.

Names and sentences come from objects that tenants write, so all of it is bounded.
"""

from collections.abc import Iterator, Sequence

import msgspec

from slackwater.model.decision import Because, PolicyAction, RuleReport, RuleState
from slackwater.model.plan import CommandProgress
from slackwater.model.problem import shorten
from slackwater.record.agent_view import AgentView
from slackwater.record.journal import TickRecord

#: Of one part of a sentence: a metric's name, what was done, why not.
_LONGEST_PART = 200
_LARGE = 10**15
#: Of rules and of commands, in what is shown.
_MOST_ROWS = 200


def latest_rules(ticks: Sequence[TickRecord]) -> Iterator[RuleReport]:
    """As each policy last reported them: one that holds for a moment says nothing about its rules,
    and what it asked for stands."""
    for line in ticks[-1].story.told if ticks else ():
        if line.rules or line.course is not PolicyAction.HELD:
            yield from line.rules
            continue
        earlier = (
            told.rules
            for record in reversed(ticks)
            for told in record.story.told
            if told.policy == line.policy and told.rules
        )
        yield from next(earlier, ())


def rule_title(rule: RuleReport) -> str:
    """NodeQOS/waterline/cpu: the object and its rule."""
    return shorten(f"{rule.policy}/{rule.rule}", _LONGEST_PART)


def format_quantity(value: float) -> str:
    """6500, 0.05, 1.2e+21: exact to four digits behind the point, where it is of any size that
    people read."""
    if abs(value) >= _LARGE or 0 < abs(value) < 1:
        return f"{value:.4g}"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def describe_comparison(rule: "RuleReport | RuleRow") -> str:
    """cpu_total_usage 6500 > 6000, or why there is no measurement."""
    # A rule on its own object's probe has the object's name in its title already.
    own = rule.metric.removeprefix(f"{rule.policy}:")
    metric, limit = shorten(own, _LONGEST_PART), format_quantity(rule.limit)
    if rule.seen is None:
        return f"{metric} is not known, limit {limit}"
    sign = ">" if rule.seen > rule.limit else "<="
    return f"{metric} {format_quantity(rule.seen)} {sign} {limit}"


def describe_counts(rule: "RuleRow") -> str:
    """2 of 2 above, or 1 of 3 below: how far it is to the next state."""
    above = f"{min(rule.above, rule.avoidance_threshold)} of {rule.avoidance_threshold} above"
    below = f"{min(rule.below, rule.restore_threshold)} of {rule.restore_threshold} below"
    match RuleState(rule.state):
        case RuleState.QUIET:
            return above
        case RuleState.TRIGGERED:
            return below if rule.below else above
        case RuleState.COOLING | RuleState.RESTORING:
            return below


def describe_effect(rule: RuleReport) -> str:
    """What is in force because of the rule; nothing for one that did nothing."""
    if rule.preview:
        return "Preview: nothing is done"
    return shorten(rule.did, _LONGEST_PART)


def describe_because(because: Because) -> str:
    return shorten(f"{because.signal} {because.seen}, {because.limit}", _LONGEST_PART)


def describe_hold(rule: RuleReport) -> str:
    return shorten(rule.held, _LONGEST_PART)


def describe_command(progress: CommandProgress) -> str:
    """evict batch/job-1: refused: its PodDisruptionBudget does not allow it"""
    said = f"{progress.command.title()}: {progress.state.value}"
    detail = shorten(progress.detail, _LONGEST_PART)
    return f"{said}: {detail}" if detail else said


def describe_rule(rule: RuleReport) -> str:
    """What it saw, what it did, what holds it back."""
    parts = (describe_comparison(rule), describe_effect(rule), describe_hold(rule))
    return ", ".join(filter(None, parts))


def describe_missing(rule: RuleReport) -> str:
    return f"its metric is missing: {shorten(rule.missing, _LONGEST_PART)}"


class RuleRow(msgspec.Struct, frozen=True, rename="camel"):
    """One rule: its state (quiet, triggered, cooling, restoring) and since when; what it sees, null
    where it sees nothing, against which limit, in the metric's unit; how many measurements in a row
    were above and below, and how many it asks for; what is in force because of it, what holds it
    back, and until when it waits."""

    policy: str
    rule: str
    metric: str
    action: str
    state: str
    seen: float | None
    limit: float
    above: int
    below: int
    avoidance_threshold: int
    restore_threshold: int
    preview: bool = False
    since: str | None = None
    until: str | None = None
    did: str = ""
    held: str = ""

    def title(self) -> str:
        return shorten(f"{self.policy}/{self.rule}", _LONGEST_PART)


class CommandRow(msgspec.Struct, frozen=True, rename="camel"):
    """A command that was taken up and is not finished: how far it is (queued, done, refused,
    impossible), since when, why, and when a refused one is tried again."""

    what: str
    state: str
    since: str
    because: str
    detail: str = ""
    retry_at: str | None = None


def rule_rows(view: AgentView) -> tuple[RuleRow, ...]:
    """Those that are not quiet first, then by name; bounded."""
    rules = sorted(latest_rules(view.ticks), key=_order)
    return tuple(_rule_row(view, rule) for rule in rules[:_MOST_ROWS])


def _order(rule: RuleReport) -> tuple[bool, str, str]:
    return rule.state is RuleState.QUIET, rule.policy, rule.rule


def _rule_row(view: AgentView, rule: RuleReport) -> RuleRow:
    return RuleRow(
        policy=rule.policy,
        rule=rule.rule,
        metric=shorten(rule.metric, _LONGEST_PART),
        action=rule.action,
        state=rule.state.value,
        seen=rule.seen,
        limit=rule.limit,
        above=rule.above,
        below=rule.below,
        avoidance_threshold=rule.avoidance_threshold,
        restore_threshold=rule.restore_threshold,
        preview=rule.preview,
        since=None if rule.since is None else view.timestamp(rule.since),
        until=None if rule.until is None else view.timestamp(rule.until),
        did=describe_effect(rule),
        held=describe_hold(rule),
    )


def command_rows(view: AgentView) -> tuple[CommandRow, ...]:
    """As far as the last tick saw."""
    in_flight = view.latest.snapshot.in_flight if view.latest else ()
    return tuple(
        CommandRow(
            what=each.command.title(),
            state=each.state.value,
            since=view.timestamp(each.since),
            because=describe_because(each.command.because),
            detail=shorten(each.detail, _LONGEST_PART),
            retry_at=view.timestamp(each.retry_at) if each.retry_at else None,
        )
        for each in in_flight[:_MOST_ROWS]
    )
