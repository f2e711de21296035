"""What is said about rules on metrics, and about the commands that they lead to: the words that
events, `explain`, `top` and the journal share.

Names and sentences come from objects that tenants write, so all of it is bounded.
"""

from collections.abc import Iterator, Sequence

from slackwater.model.decision import Because, PolicyAction, RuleReport, RuleState
from slackwater.model.plan import CommandProgress
from slackwater.model.problem import shorten
from slackwater.record.journal import TickRecord

#: Of one part of a sentence: a metric's name, what was done, why not.
_LONGEST_PART = 200
_LARGE = 10**15


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


def describe_comparison(rule: RuleReport) -> str:
    """cpu_total_usage 6500 > 6000, or why there is no measurement."""
    metric, limit = shorten(rule.metric, _LONGEST_PART), format_quantity(rule.limit)
    if rule.seen is None:
        return f"{metric} is not known, limit {limit}"
    sign = ">" if rule.seen > rule.limit else "<="
    return f"{metric} {format_quantity(rule.seen)} {sign} {limit}"


def describe_counts(rule: RuleReport) -> str:
    """2 of 2 above, or 1 of 3 below: how far it is to the next state."""
    if rule.state is RuleState.QUIET:
        return f"{min(rule.above, rule.avoidance_threshold)} of {rule.avoidance_threshold} above"
    if rule.below or rule.state is not RuleState.TRIGGERED:
        return f"{min(rule.below, rule.restore_threshold)} of {rule.restore_threshold} below"
    return f"{min(rule.above, rule.avoidance_threshold)} of {rule.avoidance_threshold} above"


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
