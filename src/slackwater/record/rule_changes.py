"""Which rules about metrics triggered, were restored, or lost their metric, from one tick to the
next, and the journal's entries about that. Pure.

A rule's action is in force while the rule is triggered or cools down. One that is above its value
once more before its action was undone has not triggered anew; one that goes while its action is in
force is restored. A policy that holds says nothing about its rules, and they stay as they were.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from slackwater.model.decision import PolicyAction, RuleReport, RuleState, TickReport
from slackwater.model.snapshot import NodeSnapshot
from slackwater.record.journal import JournalEntry
from slackwater.record.rules import describe_missing, describe_rule, rule_title

#: The policy that reports a rule, the object's title, and the rule's name.
RuleKey = tuple[str, str, str]
_IN_FORCE = (RuleState.TRIGGERED, RuleState.COOLING)
#: How the entries about a rule begin.
RULE = "rule "
GONE = "the rule is not followed here any more"


class RuleChanges(msgspec.Struct, frozen=True):
    """`restored` has no report of a rule that is gone. `in_force` are the rules whose action is in
    force after the tick; one of a policy that holds has no report."""

    triggered: Mapping[RuleKey, RuleReport]
    restored: Mapping[RuleKey, RuleReport | None]
    in_force: Mapping[RuleKey, RuleReport | None]


def find_rule_changes(story: TickReport, before: Collection[RuleKey]) -> RuleChanges:
    """`before` are the rules whose action was in force."""
    held = {line.policy for line in story.told if line.course is PolicyAction.HELD}
    now = {
        (line.policy, rule.policy, rule.rule): rule for line in story.told for rule in line.rules
    }
    in_force: dict[RuleKey, RuleReport | None] = {
        key: rule for key, rule in now.items() if rule.state in _IN_FORCE
    }
    in_force |= {key: None for key in before if key not in now and key[0] in held}
    return RuleChanges(
        triggered={
            key: rule
            for key, rule in now.items()
            if rule.state is RuleState.TRIGGERED and key not in before
        },
        restored={key: now.get(key) for key in before if key not in in_force},
        in_force=in_force,
    )


def follow_rules(
    story: TickReport, before: Mapping[RuleKey, RuleReport]
) -> Mapping[RuleKey, RuleReport]:
    """The last report of each rule that is followed."""
    held = {line.policy for line in story.told if line.course is PolicyAction.HELD}
    kept = {key: rule for key, rule in before.items() if key[0] in held}
    now = ((line.policy, rule) for line in story.told for rule in line.rules)
    return kept | {(name, rule.policy, rule.rule): rule for name, rule in now}


def rule_entries(
    snapshot: NodeSnapshot,
    before: Mapping[RuleKey, RuleReport],
    now: Mapping[RuleKey, RuleReport],
) -> Iterator[JournalEntry]:
    """When a rule triggers and when it is restored, whatever the reason, those in Preview too; and
    when its metric goes missing and comes back."""
    for key, rule in now.items():
        yield from _entries_of(snapshot, before.get(key), rule)
    for key, gone in before.items():
        if key not in now and gone.state in _IN_FORCE:
            yield _entry(snapshot, gone, GONE, gone.state.value, "gone")


def _entries_of(
    snapshot: NodeSnapshot, before: RuleReport | None, rule: RuleReport
) -> Iterator[JournalEntry]:
    was, is_now = (before.state if before else RuleState.QUIET), rule.state
    triggered = is_now is RuleState.TRIGGERED and was not in _IN_FORCE
    if triggered or (was in _IN_FORCE and is_now not in _IN_FORCE):
        yield _entry(snapshot, rule, describe_rule(rule), was.value, is_now.value)
    was_missing = before.missing if before else ""
    if rule.missing and not was_missing:
        yield _entry(snapshot, rule, describe_missing(rule))
    elif was_missing and not rule.missing:
        yield _entry(snapshot, rule, f"its metric is there again: {describe_rule(rule)}")


def _entry(
    snapshot: NodeSnapshot, rule: RuleReport, because: str, before: str = "", after: str = ""
) -> JournalEntry:
    what = f"{RULE}{rule_title(rule)}"
    return JournalEntry(snapshot.tick, snapshot.at, what, before, after, because)
