"""Events about rules and commands: on change, not at every tick, and bounded."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.model.decision import CommandKind, PolicyAction, RuleState
from slackwater.model.plan import CommandProgress, CommandState
from slackwater.model.units import Micros
from slackwater.record.journal import TickRecord
from slackwater.record.node_events import REPEAT_AFTER
from slackwater.record.rule_events import RESTORED, TRIGGERED, TriggeredRules, due_rule_events
from tests.unit.record.rule_reports import progress, rule, rule_record
from tests.unit.record.test_node_events import NODE, SECOND, Crier
from tests.unit.record.tick_records import record

QUIET, COOLING, RESTORING = RuleState.QUIET, RuleState.COOLING, RuleState.RESTORING
ABOVE = RuleState.TRIGGERED


def words(found: list[KubeEvent]) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for each in found]


def tick(*states: RuleState) -> TickRecord:
    return rule_record(*(rule(state, f"r{place}") for place, state in enumerate(states)))


def test_a_whole_cycle_is_told_by_two_events() -> None:
    crier = Crier()
    states = [QUIET, ABOVE, ABOVE, COOLING, ABOVE, COOLING, RESTORING, RESTORING, QUIET]
    found = [event for state in states for event in crier.hear(tick(state))]
    assert words(found) == [
        (
            "AvoidanceTriggered",
            "waterline1/r0 triggered action throttle: cpu_total_usage 6500 > 6000",
        ),
        (
            "RestoreTriggered",
            "waterline1/r0 restored action throttle: cpu_total_usage 5000 <= 6000",
        ),
    ]
    assert [each.type for each in found] == [EventType.WARNING, EventType.NORMAL]
    assert {each.about for each in found} == {NODE}


def test_it_says_what_was_done_and_what_holds_it_back() -> None:
    told = rule(ABOVE, did="throttles 2 pods", held="3 pods are protected")
    [event] = Crier().hear(rule_record(told))
    assert event.message == (
        "waterline1/cpu triggered action throttle: cpu_total_usage 6500 > 6000, "
        "throttles 2 pods, 3 pods are protected"
    )
    [event] = Crier().hear(rule_record(rule(ABOVE, preview=True)))
    assert event.message.endswith("cpu_total_usage 6500 > 6000, Preview: nothing is done")


def test_events_of_different_rules_are_different_series() -> None:
    """Else only the last would be seen, and counted for all."""
    one, two = Crier().hear(tick(ABOVE, ABOVE))
    assert one.series != two.series
    assert "waterline1/r0" in one.message
    assert "waterline1/r1" in two.message
    found = Crier().hear(tick(*[ABOVE] * 30))
    assert len(found) == 9
    assert found[-1].message == "and 22 more rules; see slackwater explain"


def test_a_missing_metric_is_told_once_while_it_lasts() -> None:
    crier = Crier()
    lost = rule_record(rule(QUIET, seen=None, missing="Connection refused"))
    assert words(crier.hear(lost)) == [
        ("MetricMissing", "waterline1/cpu: its metric is missing: Connection refused")
    ]
    assert not crier.hear(lost)
    assert not crier.hear(tick(QUIET))
    assert crier.hear(lost)


def test_while_it_stays_triggered_it_is_told_again() -> None:
    crier = Crier()
    assert crier.hear(tick(ABOVE))
    assert not crier.hear(tick(ABOVE), after=REPEAT_AFTER // SECOND - 1)
    assert crier.hear(tick(ABOVE))


@pytest.mark.parametrize("gone", [rule_record(), record(), record(lines=())])
def test_a_rule_that_goes_while_triggered_is_restored(gone: TickRecord) -> None:
    crier = Crier()
    crier.hear(tick(ABOVE))
    assert words(crier.hear(gone)) == [
        (
            "RestoreTriggered",
            "waterline1/r0 restored action throttle: the rule is not followed here any more",
        )
    ]
    assert not crier.hear(gone)


def test_a_policy_that_holds_restores_nothing() -> None:
    crier = Crier()
    crier.hear(tick(ABOVE))
    assert not crier.hear(rule_record(course=PolicyAction.HELD))
    assert not crier.hear(tick(ABOVE))
    assert words(crier.hear(rule_record(course=PolicyAction.RELEASED)))[0][0] == "RestoreTriggered"


def test_a_rule_that_cools_down_at_the_start_was_told_before() -> None:
    crier = Crier()
    assert not crier.hear(tick(COOLING))
    assert words(crier.hear(tick(RESTORING)))[0][0] == "RestoreTriggered"


@given(st.lists(st.sampled_from(RuleState), max_size=30))
def test_triggers_and_restores_take_turns(states: list[RuleState]) -> None:
    told: list[str] = []
    rules: TriggeredRules = {}
    for place, state in enumerate(states):
        story = tick(state).story
        found, rules = due_rule_events(story, rules, Micros(place * SECOND))
        told += [each.reason for each in found]
    pairs = list(itertools.pairwise(told))
    assert (TRIGGERED, TRIGGERED) not in pairs
    assert (RESTORED, RESTORED) not in pairs or COOLING in states


def test_a_refused_eviction_is_told_once_for_each_reason() -> None:
    crier = Crier()
    refused = progress(CommandState.REFUSED, detail="a budget forbids it")
    found = crier.hear(rule_record(in_flight=(refused,)))
    assert words(found) == [
        (
            "CommandRefused",
            "evict batch/job-1: refused: a budget forbids it (cpu_total_usage 6500, limit 6000)",
        )
    ]
    assert found[0].about == NODE
    assert not crier.hear(rule_record(in_flight=(refused,)))
    assert crier.hear(rule_record(in_flight=(progress(CommandState.REFUSED, detail="other"),)))


def test_what_nobody_can_carry_out_is_told() -> None:
    taint = progress(
        CommandState.IMPOSSIBLE, CommandKind.TAINT, "interference.crane.io", "no cluster"
    )
    [event] = Crier().hear(rule_record(in_flight=(taint,)))
    assert (event.reason, event.type) == ("CommandImpossible", EventType.WARNING)
    assert event.message.startswith("taint interference.crane.io: impossible: no cluster")


def test_an_evicted_pod_is_told_why() -> None:
    [event] = Crier().hear(rule_record(in_flight=(progress(CommandState.DONE),)))
    assert event.about == ObjectReference("v1", "Pod", "job-1", "batch", "uid-1")
    assert (event.reason, event.message) == (
        "Evicted",
        "evicted to relieve its node: cpu_total_usage 6500, limit 6000",
    )


@pytest.mark.parametrize(
    "quiet",
    [
        progress(),
        progress(CommandState.DONE, CommandKind.TAINT, "interference.crane.io"),
        progress(CommandState.DONE, CommandKind.CONDITION, "interference-identified"),
    ],
)
def test_of_what_goes_its_way_there_is_no_event(quiet: CommandProgress) -> None:
    assert not Crier().hear(rule_record(in_flight=(quiet,)))
