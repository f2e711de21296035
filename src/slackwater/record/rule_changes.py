"""Which rules about metrics triggered, and which were restored, from one tick to the next. Pure.

A rule's action is in force while the rule is triggered or cools down. One that is above its value
once more before its action was undone has not triggered anew; one that goes while its action is in
force is restored. A policy that holds says nothing about its rules, and they stay as they were.
"""

from collections.abc import Collection, Mapping

import msgspec

from slackwater.model.decision import PolicyAction, RuleReport, RuleState, TickReport

#: The policy that reports a rule, the object's title, and the rule's name.
RuleKey = tuple[str, str, str]
_IN_FORCE = (RuleState.TRIGGERED, RuleState.COOLING)


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
