"""Metrics about rules and commands: transitions are counted, gone rules forgotten."""

from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.decision import (
    Because,
    CommandKind,
    Contribution,
    Grant,
    PolicyAction,
    RuleState,
    Verb,
)
from slackwater.model.plan import CommandState
from slackwater.model.units import MilliCpu
from slackwater.record.exposition import render_agent_metrics
from slackwater.record.journal import TickRecord
from slackwater.record.metric_table import CRANE_METRICS
from slackwater.record.rule_metrics import (
    RuleCounters,
    count_throttled_pods,
    crane_samples,
    is_tainted,
    rule_samples,
)
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.record.metric_facts import facts, full
from tests.unit.record.rule_reports import RELIEF, command_outcome, progress, rule, rule_record
from tests.unit.record.tick_records import record

QUIET, UP, COOL, DOWN = RuleState
TAINT: dict[str, Any] = {"kind": CommandKind.TAINT, "target": "interference.crane.io"}
CPU = ("NodeQOS/waterline1", "cpu")


def counted(*ticks: TickRecord) -> RuleCounters:
    counters = RuleCounters()
    for each in ticks:
        counters.add(each)
    return counters


def state(now: RuleState, **said: Any) -> TickRecord:
    return rule_record(rule(now, **said))


@pytest.mark.parametrize(
    ("ticks", "triggers", "restores"),
    [
        ([state(QUIET)], 0, 0),
        ([state(UP), state(UP)], 1, 0),
        ([state(UP), state(COOL), state(UP)], 1, 0),
        ([state(UP), state(COOL), state(DOWN), state(QUIET)], 1, 1),
        ([state(UP), state(DOWN), state(UP)], 2, 1),
        ([state(UP), rule_record()], 1, 1),
        ([state(UP), record()], 1, 1),
        ([state(UP), rule_record(course=PolicyAction.HELD), state(UP)], 1, 0),
        ([state(UP), rule_record(course=PolicyAction.RELEASED)], 1, 1),
        ([state(UP, preview=True)], 1, 0),
    ],
)
def test_triggers_and_restores(ticks: list[TickRecord], triggers: int, restores: int) -> None:
    counts = counted(*ticks).counts()
    assert counts.triggers.get(CPU, 0) == triggers
    assert counts.restores.get(CPU, 0) == restores


def test_ticks_without_a_measurement_are_counted() -> None:
    missing = state(QUIET, seen=None)
    assert counted(missing, missing, state(QUIET)).counts().gaps == {CPU: 2}
    samples = {s.metric.name for s in rule_samples(counted(missing).counts(), missing)}
    assert "slackwater_rule_seen" not in samples


def test_rules_that_are_gone_are_forgotten() -> None:
    counters = RuleCounters()
    for place in range(2000):
        counters.add(rule_record(rule(UP, f"r{place}")))
    assert len(counters.counts().triggers) <= 400


@pytest.mark.parametrize(
    ("outcomes", "commands"),
    [
        # When the server took it, and when the pod is gone: one eviction.
        ([command_outcome(), command_outcome(detail="the pod is gone")], {("evict", "done"): 1}),
        ([command_outcome()] * 3, {("evict", "done"): 1}),
        ([command_outcome(), command_outcome(target="a/b")], {("evict", "done"): 2}),
        ([command_outcome(CommandState.REFUSED)] * 2, {("evict", "refused"): 2}),
        ([command_outcome(CommandState.IMPOSSIBLE)], {("evict", "impossible"): 1}),
        (
            [command_outcome(**TAINT), command_outcome(**TAINT, undone=True)],
            {("taint", "done"): 1, ("taint", "undone"): 1},
        ),
    ],
)
def test_commands_by_how_they_went(outcomes: list[Any], commands: dict[Any, int]) -> None:
    made = msgspec.structs.replace(rule_record(), commands=tuple(outcomes))
    assert counted(made).counts().commands == commands


def with_story(made: TickRecord, **said: Any) -> TickRecord:
    return msgspec.structs.replace(made, story=msgspec.structs.replace(made.story, **said))


def test_the_node_is_tainted_once_the_server_took_it() -> None:
    taint = progress(CommandState.QUEUED, **TAINT)
    asked = with_story(state(UP), commands=(taint.command,))
    assert not is_tainted(state(UP))
    assert is_tainted(asked)
    waiting = msgspec.structs.replace(asked.snapshot, in_flight=(taint,))
    assert not is_tainted(msgspec.structs.replace(asked, snapshot=waiting))


def test_pods_that_rules_throttle() -> None:
    def grant(number: int, knob: str, by: str) -> Grant:
        ref = CgroupRef(f"pod{number}", 100 + number, Level.POD, Tier.BURSTABLE, f"uid-{number}")
        step = Contribution(by, Verb.CAP, MilliCpu(1), MilliCpu(1), Because("", "", ""))
        return Grant(ref, knob, MilliCpu(1), (step,))

    grants = (
        grant(1, "quota", RELIEF),
        grant(1, "weight", RELIEF),
        grant(2, "weight", RELIEF),
        grant(3, "quota", "quota_burst"),
    )
    assert count_throttled_pods(with_story(state(UP), grants=grants)) == 2


def crane(made: TickRecord, *before: TickRecord) -> dict[str, float]:
    counts = counted(*before, made).counts()
    return {"/".join((s.metric.name, *s.labels)): s.value for s in crane_samples(counts, made)}


def test_cranes_names_say_what_is_true_here() -> None:
    shown = crane(state(UP))
    prefix = "crane_craneAgent_"
    assert shown[f"{prefix}analyzer_status//enableScheduling"] == 1
    assert shown[f"{prefix}analyzer_status/waterline1.cpu/avoidance"] == 1
    assert shown[f"{prefix}analyzer_status/waterline1.cpu/restore"] == 0
    assert shown[f"{prefix}analyzer_status/waterline1.cpu/analyzeError "] == 0
    assert shown[f"{prefix}analyzer_status_total/waterline1.cpu/avoidance"] == 1
    assert shown[f"{prefix}executor_status/schedule/avoid"] == 0
    assert shown[f"{prefix}executor_evict_total"] == 0
    missing = crane(state(QUIET, seen=None))
    assert missing[f"{prefix}analyzer_status/waterline1.cpu/analyzeError "] == 1
    evicting = rule_record(rule(UP), in_flight=(progress(),))
    refused = msgspec.structs.replace(
        evicting, commands=(command_outcome(CommandState.REFUSED), command_outcome())
    )
    shown = crane(refused)
    assert shown[f"{prefix}executor_status/evict/avoid"] == 1
    assert shown[f"{prefix}executor_error_total/evict/avoid"] == 1
    assert shown[f"{prefix}executor_evict_total"] == 1


def test_two_kinds_with_one_name_are_one_series_of_cranes() -> None:
    """Prometheus refuses a scrape with the same series twice."""
    made = rule_record(rule(UP), rule(UP, policy="NodeQOSEnsurancePolicy/waterline1"))
    samples = list(crane_samples(counted(made).counts(), made))
    assert len({(s.metric.name, s.labels) for s in samples}) == len(samples)


@pytest.mark.parametrize("on", [True, False])
def test_they_are_served_where_the_setting_says_so(on: bool) -> None:
    made = full()
    agent = AgentSettings(crane_metrics=on)
    made = msgspec.structs.replace(made, inputs=msgspec.structs.replace(made.inputs, agent=agent))
    _, text = render_agent_metrics(facts(made), "")
    names = {family.name for family in text_string_to_metric_families(text.decode())}
    crane = {each.name.removesuffix("_total") for each in CRANE_METRICS}
    assert {name for name in names if name.startswith("crane_")} == (crane if on else set())
    _, blind = render_agent_metrics(facts(made, blind=True), "")
    assert b"crane_" not in blind
