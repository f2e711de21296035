"""The words about rules: short, exact, and bounded whatever an object says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.decision import RuleState
from slackwater.model.plan import CommandState
from slackwater.record.agent_view import AgentView
from slackwater.record.rules import (
    describe_command,
    describe_comparison,
    describe_counts,
    describe_effect,
    describe_hold,
    format_quantity,
    rule_rows,
    rule_title,
)
from tests.unit.record.rule_reports import progress, rule, rule_record


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (6500.0, "6500"),
        (0.0, "0"),
        (-3.0, "-3"),
        (0.05, "0.05"),
        (0.000012345, "1.234e-05"),
        (12.3456789, "12.3457"),
        (12.5, "12.5"),
        (1.25e21, "1.25e+21"),
        (5669356830.72, "5669356830.72"),
    ],
)
def test_a_quantity_is_short(value: float, text: str) -> None:
    assert format_quantity(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_quantity_is_bounded(value: float) -> None:
    assert len(format_quantity(value)) <= 24


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (6500.0, "cpu_total_usage 6500 > 6000"),
        (6000.0, "cpu_total_usage 6000 <= 6000"),  # strictly above, as Crane
        (None, "cpu_total_usage is not known, limit 6000"),
    ],
)
def test_what_is_seen_against_the_limit(seen: float | None, text: str) -> None:
    assert describe_comparison(rule(seen=seen)) == text


def test_a_rule_on_its_own_objects_probe_is_said_without_the_object_again() -> None:
    own = rule(
        policy="NodeQOS/latency", metric="NodeQOS/latency:seconds:p90", seen=0.42, limit=0.05
    )
    assert describe_comparison(own) == "seconds:p90 0.42 > 0.05"
    other = rule(policy="NodeQOS/x", metric="NodeQOS/latency:seconds:p90", seen=0.42, limit=0.05)
    assert describe_comparison(other).startswith("NodeQOS/latency:seconds")


@pytest.mark.parametrize(
    ("state", "above", "below", "text"),
    [
        (RuleState.QUIET, 0, 7, "0 of 2 above"),
        (RuleState.QUIET, 1, 0, "1 of 2 above"),
        (RuleState.TRIGGERED, 9, 0, "2 of 2 above"),
        (RuleState.TRIGGERED, 0, 1, "1 of 3 below"),
        (RuleState.COOLING, 0, 9, "3 of 3 below"),
        (RuleState.RESTORING, 0, 9, "3 of 3 below"),
    ],
)
def test_how_far_it_is_to_the_next_state(
    state: RuleState, above: int, below: int, text: str
) -> None:
    told = rule(state, above=above, below=below, restore_threshold=3)
    [row] = rule_rows(AgentView(ticks=(rule_record(told),)))
    assert describe_counts(row) == text


def test_a_preview_does_nothing() -> None:
    assert describe_effect(rule(did="throttles 2 pods")) == "throttles 2 pods"
    assert describe_effect(rule(did="throttles 2 pods", preview=True)) == "Preview: nothing is done"


def test_what_objects_say_is_bounded() -> None:
    long = "x" * 10_000
    told = rule(policy=long, name=long, metric=long, did=long, held=long)
    words = (rule_title, describe_comparison, describe_effect, describe_hold)
    assert all(len(describe(told)) <= 250 for describe in words)
    assert len(describe_command(progress(CommandState.REFUSED, detail=long))) <= 300


def test_a_command_says_how_far_it_is() -> None:
    assert describe_command(progress()) == "evict batch/job-1: queued"
    refused = progress(CommandState.REFUSED, detail="its PodDisruptionBudget forbids it")
    assert describe_command(refused) == (
        "evict batch/job-1: refused: its PodDisruptionBudget forbids it"
    )
