"""Metrics about rules and the commands that they lead to: counts since the start, and samples,
under our names and under Crane's.

The rules are objects that tenants write, so how many of them are counted and shown is bounded.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from slackwater.model.decision import CommandKind, RuleReport, RuleState
from slackwater.model.plan import CommandOutcome, CommandState
from slackwater.record import metric_table as table
from slackwater.record.journal import TickRecord
from slackwater.record.metric_table import MetricSample
from slackwater.record.rule_changes import RuleKey, find_rule_changes

#: Rules that are shown, and that are counted before those that are gone are forgotten.
_MOST_RULES, _MOST_COUNTED = 200, 400
_UNDONE = "undone"
_FAILED = (CommandState.REFUSED.value, CommandState.IMPOSSIBLE.value)
#: By the object's title and the rule's name.
_Rule = tuple[str, str]


class RuleCounts(msgspec.Struct, frozen=True):
    """At one moment. Commands are by kind and result."""

    triggers: Mapping[_Rule, int] = {}
    restores: Mapping[_Rule, int] = {}
    gaps: Mapping[_Rule, int] = {}
    commands: Mapping[tuple[str, str], int] = {}


class RuleCounters:
    """Counts since the agent's start; its owner lets one thread in at a time."""

    def __init__(self) -> None:
        self._in_force: frozenset[RuleKey] = frozenset()
        self._triggers: Counter[_Rule] = Counter()
        self._restores: Counter[_Rule] = Counter()
        self._gaps: Counter[_Rule] = Counter()
        self._commands: Counter[tuple[str, str]] = Counter()
        #: The newest is last.
        self._taken_evictions: dict[str, None] = {}

    def add(self, record: TickRecord) -> None:
        for outcome in record.commands:
            self._add_outcome(outcome)
        story = record.story
        if not self._in_force and not any(line.rules for line in story.told):
            return
        changes = find_rule_changes(story, self._in_force)
        self._in_force = frozenset(changes.in_force)
        self._triggers.update(key[1:] for key in changes.triggered)
        self._restores.update(key[1:] for key in changes.restored)
        rules = [(rule.policy, rule.rule) for line in story.told for rule in line.rules]
        missing = (rule for line in story.told for rule in line.rules if rule.seen is None)
        self._gaps.update((rule.policy, rule.rule) for rule in missing)
        for counts in (self._triggers, self._restores, self._gaps):
            if len(counts) > _MOST_COUNTED:
                known = set(rules[:_MOST_COUNTED])
                for key in [each for each in counts if each not in known]:
                    del counts[key]

    def _add_outcome(self, outcome: CommandOutcome) -> None:
        """An eviction is told when the server took it, and again until its pod is gone. Its key is
        that of one pod, which is evicted once."""
        kind, key = outcome.command.kind, outcome.command.key
        done = outcome.state is CommandState.DONE
        if kind is CommandKind.EVICT and done:
            if key in self._taken_evictions:
                return
            self._taken_evictions[key] = None
            if len(self._taken_evictions) > _MOST_COUNTED:
                del self._taken_evictions[next(iter(self._taken_evictions))]
        result = _UNDONE if outcome.undone and done else outcome.state.value
        self._commands[kind.value, result] += 1

    def counts(self) -> RuleCounts:
        return RuleCounts(
            dict(self._triggers), dict(self._restores), dict(self._gaps), dict(self._commands)
        )


def rule_samples(counts: RuleCounts, latest: TickRecord | None) -> Iterator[MetricSample]:
    """`latest` is None while there is no tick, or the agent is blind."""
    for labels, count in counts.commands.items():
        yield MetricSample(table.COMMANDS, count, labels)
    if latest is None:
        return
    in_flight = Counter(
        (each.command.kind.value, each.state.value) for each in latest.snapshot.in_flight
    )
    for labels, count in in_flight.items():
        yield MetricSample(table.COMMANDS_IN_FLIGHT, count, labels)
    rules = _shown_rules(latest)
    if rules:
        yield MetricSample(table.RULE_PODS, count_throttled_pods(latest))
        yield MetricSample(table.NODE_TAINTED, is_tainted(latest))
    for rule in rules:
        yield from _one_rule(rule, counts)


def _shown_rules(latest: TickRecord) -> list[RuleReport]:
    found = [rule for line in latest.story.told for rule in line.rules]
    return list({(rule.policy, rule.rule): rule for rule in found[:_MOST_RULES]}.values())


def _one_rule(rule: RuleReport, counts: RuleCounts) -> Iterator[MetricSample]:
    labels = (rule.policy, rule.rule)
    preview = "true" if rule.preview else "false"
    yield MetricSample(table.RULE_INFO, 1, (*labels, rule.metric, rule.action, preview))
    for state in RuleState:
        yield MetricSample(table.RULE_STATE, rule.state is state, (*labels, state.value))
    if rule.seen is not None:
        yield MetricSample(table.RULE_SEEN, rule.seen, labels)
    yield MetricSample(table.RULE_LIMIT, rule.limit, labels)
    yield MetricSample(table.RULE_TRIGGERS, counts.triggers.get(labels, 0), labels)
    yield MetricSample(table.RULE_RESTORES, counts.restores.get(labels, 0), labels)
    yield MetricSample(table.RULE_GAPS, counts.gaps.get(labels, 0), labels)


def count_throttled_pods(latest: TickRecord) -> int:
    """Pods with a value that a policy with rules has a part in."""
    ruling = {line.policy for line in latest.story.told if line.rules}
    return len(
        {
            grant.target.owner
            for grant in latest.story.grants
            if any(step.by in ruling for step in grant.contributions)
        }
    )


def is_tainted(latest: TickRecord) -> bool:
    """Asked for, and not on its way any more."""
    wanted = {each.key for each in latest.story.commands if each.kind is CommandKind.TAINT}
    waiting = {each.command.key for each in latest.snapshot.in_flight}
    return bool(wanted - waiting)


def crane_samples(counts: RuleCounts, latest: TickRecord) -> Iterator[MetricSample]:
    """Crane's names and label values, by what is true here."""
    rules = _shown_rules(latest)
    tainted, throttled = is_tainted(latest), count_throttled_pods(latest)
    states = {rule.state for rule in rules if not rule.preview}
    yield MetricSample(table.ANALYZER_STATUS, not tainted, ("", "enableScheduling"))
    # Two objects of both kinds with one name are one key for Crane, which has one kind.
    by_key = {_crane_key(rule): rule for rule in rules}
    for key, rule in by_key.items():
        yield from _crane_rule(key, rule, counts)
    evicting = any(
        each.command.kind is CommandKind.EVICT and each.counts_as_relief()
        for each in latest.snapshot.in_flight
    )
    statuses = {
        ("schedule", "avoid"): tainted,
        ("throttle", "avoid"): throttled and RuleState.TRIGGERED in states,
        ("throttle", "restore"): throttled and RuleState.RESTORING in states,
        ("evict", "avoid"): evicting,
    }
    for labels, status in statuses.items():
        yield MetricSample(table.EXECUTOR_STATUS, bool(status), labels)
    for kind, component in ((CommandKind.EVICT, "evict"), (CommandKind.TAINT, "schedule")):
        errors = sum(counts.commands.get((kind.value, result), 0) for result in _FAILED)
        yield MetricSample(table.EXECUTOR_ERRORS, errors, (component, "avoid"))
    evicted = counts.commands.get((CommandKind.EVICT.value, CommandState.DONE.value), 0)
    yield MetricSample(table.EVICTIONS, evicted)


def _crane_key(rule: RuleReport) -> str:
    return f"{rule.policy.partition('/')[2] or rule.policy}.{rule.rule}"


def _crane_rule(key: str, rule: RuleReport, counts: RuleCounts) -> Iterator[MetricSample]:
    known = (rule.policy, rule.rule)
    now = {
        "avoidance": rule.state is RuleState.TRIGGERED,
        "restore": rule.state is RuleState.RESTORING,
        "analyzeError ": rule.seen is None,
    }
    for kind, value in now.items():
        yield MetricSample(table.ANALYZER_STATUS, value, (key, kind))
    for kind, counted in (("avoidance", counts.triggers), ("restore", counts.restores)):
        yield MetricSample(table.ANALYZER_COUNT, counted.get(known, 0), (key, kind))
