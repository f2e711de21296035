"""What Kubernetes events say about rules on metrics and about the commands they lead to. Pure.

A rule is told while its metric is missing, when it triggers, when it is restored, and again while
it stays triggered, as the server drops events after an hour. A rule that is above its value once
more before its action was undone has not triggered anew. A command is told while it is refused or
nobody can carry it out, an eviction on its pod.
"""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.kube.events import EventType, ObjectReference
from slackwater.model.decision import (
    CommandKind,
    RuleReport,
    RuleState,
    TickReport,
)
from slackwater.model.plan import CommandProgress, CommandState
from slackwater.model.units import Micros
from slackwater.record.rule_changes import GONE, RuleKey, find_rule_changes
from slackwater.record.rules import (
    describe_because,
    describe_command,
    describe_missing,
    describe_rule,
)

#: Crane's words, which alerts look for, and ours.
TRIGGERED, RESTORED = "AvoidanceTriggered", "RestoreTriggered"
METRIC_MISSING = "MetricMissing"
REFUSED, IMPOSSIBLE, EVICTED = "CommandRefused", "CommandImpossible", "Evicted"
_REPEAT_AFTER = Micros(1800 * 1_000_000)
#: Of rules in one round.
_MOST_RULES = 8


class TriggeredRule(msgspec.Struct, frozen=True):
    """A rule whose action is in force, and when that was told."""

    name: str
    action: str
    told: Micros


TriggeredRules = Mapping[RuleKey, TriggeredRule]


class RuleEvent(msgspec.Struct, frozen=True):
    """An event without its object. With a pod's uid it is about that pod. Those of different rules
    are told apart."""

    reason: str
    message: str
    type: EventType = EventType.NORMAL
    pod: str = ""
    uid: str = ""
    rule: str = ""

    def pod_reference(self) -> ObjectReference | None:
        namespace, _, name = self.pod.partition("/")
        return ObjectReference("v1", "Pod", name, namespace, self.uid) if self.uid else None


def due_rule_events(
    story: TickReport, before: TriggeredRules, at: Micros
) -> tuple[tuple[RuleEvent, ...], TriggeredRules]:
    """What is to be told now, and the rules that are triggered after that."""
    changes = find_rule_changes(story, before.keys())
    after: dict[RuleKey, TriggeredRule] = {}
    told: list[RuleEvent] = []
    for key, rule in changes.in_force.items():
        known = before.get(key)
        if rule is None:
            after |= {key: known} if known else {}
            continue
        event = _triggered(rule, known, at)
        told += [event] if event else []
        last = at if event or known is None else known.told
        after[key] = TriggeredRule(_name(rule), rule.action, last)
    for key, rule in changes.restored.items():
        why = describe_rule(rule) if rule else GONE
        known = before[key]
        message = f"{known.name} restored action {known.action}: {why}"
        told.append(RuleEvent(RESTORED, message, rule=known.name))
    return tuple(_bounded(told)), after


def _triggered(rule: RuleReport, known: TriggeredRule | None, at: Micros) -> RuleEvent | None:
    """Of one that cools down after a restart of the agent nothing is told: it was."""
    if rule.state is not RuleState.TRIGGERED:
        return None
    if known is not None and at - known.told < _REPEAT_AFTER:
        return None
    name = _name(rule)
    message = f"{name} triggered action {rule.action}: {describe_rule(rule)}"
    return RuleEvent(TRIGGERED, message, EventType.WARNING, rule=name)


def missing_metric_event(rule: RuleReport) -> RuleEvent | None:
    """While a rule protects nobody because its metric is missing."""
    if not rule.missing:
        return None
    name = _name(rule)
    message = f"{name}: {describe_missing(rule)}"
    return RuleEvent(METRIC_MISSING, message, EventType.WARNING, rule=name)


def _name(rule: RuleReport) -> str:
    """As Crane has it, without the kind: waterline1/cpu."""
    return f"{rule.policy.partition('/')[2] or rule.policy}/{rule.rule}"


def _bounded(told: list[RuleEvent]) -> Iterator[RuleEvent]:
    """Of each reason the first few, and how many more there are."""
    for reason in (TRIGGERED, RESTORED):
        alike = [each for each in told if each.reason == reason]
        yield from alike[:_MOST_RULES]
        more = len(alike) - _MOST_RULES
        if more > 0:
            message = f"and {more} more rules; see slackwater explain"
            yield msgspec.structs.replace(alike[0], message=message, rule="")


def command_event(progress: CommandProgress) -> RuleEvent | None:
    """What is told of a command while it is where it is; None where nobody waits for it."""
    command = progress.command
    said = f"{describe_command(progress)} ({describe_because(command.because)})"
    match progress.state:
        case CommandState.REFUSED:
            return RuleEvent(REFUSED, said, EventType.WARNING)
        case CommandState.IMPOSSIBLE:
            return RuleEvent(IMPOSSIBLE, said, EventType.WARNING)
        case CommandState.DONE if command.kind is CommandKind.EVICT:
            why = f"evicted to relieve its node: {describe_because(command.because)}"
            return RuleEvent(EVICTED, why, EventType.WARNING, command.target, command.uid)
        case _:
            return None
