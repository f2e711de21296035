"""Commands in the journal: what, from what to what, why, and how it ended."""

from typing import Any

import msgspec
import pytest

from slackwater.model.decision import CommandKind, TickReport
from slackwater.model.plan import CommandOutcome, CommandState
from slackwater.record.journal import make_entries, plan_command_entries
from tests.unit.policies.nodes import node
from tests.unit.record.rule_reports import command_outcome, progress

TAINT: dict[str, Any] = {"kind": CommandKind.TAINT, "target": "interference.crane.io"}
CONDITION: dict[str, Any] = {"kind": CommandKind.CONDITION, "target": "interference-identified"}
BECAUSE = "watermark_relief: cpu_total_usage 6500, limit 6000"


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (
            command_outcome(**TAINT),
            ("taint interference.crane.io", "none", "PreferNoSchedule", BECAUSE, "applied"),
        ),
        (
            command_outcome(**TAINT, undone=True),
            (
                "taint interference.crane.io",
                "PreferNoSchedule",
                "none",
                "nobody asks for it any more",
                "applied",
            ),
        ),
        (
            command_outcome(**CONDITION),
            ("condition interference-identified", "False", "True", BECAUSE, "applied"),
        ),
        (
            command_outcome(detail="the pod is gone"),
            ("evict batch/job-1", "running", "evicted", BECAUSE, "applied: the pod is gone"),
        ),
        (
            command_outcome(CommandState.REFUSED, detail="a budget forbids it"),
            ("evict batch/job-1", "running", "evicted", BECAUSE, "refused: a budget forbids it"),
        ),
        (
            command_outcome(CommandState.IMPOSSIBLE, detail="there is no API server"),
            (
                "evict batch/job-1",
                "running",
                "evicted",
                BECAUSE,
                "impossible: there is no API server",
            ),
        ),
    ],
)
def test_a_command_is_an_entry(outcome: CommandOutcome, words: tuple[str, ...]) -> None:
    [entry] = make_entries(node(tick=7), (), TickReport(), (outcome,))
    assert (entry.what, entry.before, entry.after, entry.because, entry.result) == words
    assert (entry.tick, entry.at) == (7, outcome.at)


def test_a_state_that_changes_says_what_it_was() -> None:
    raised = msgspec.structs.replace(command_outcome(**TAINT), before="NoSchedule")
    [entry] = make_entries(node(), (), TickReport(), (raised,))
    assert (entry.before, entry.after) == ("NoSchedule", "PreferNoSchedule")


def test_what_the_server_says_is_bounded() -> None:
    outcome = command_outcome(CommandState.REFUSED, detail="x" * 10_000)
    [entry] = make_entries(node(), (), TickReport(), (outcome,))
    assert len(entry.result) < 400


def test_a_dry_run_plans_them() -> None:
    [entry] = plan_command_entries(node(), (progress().command,))
    assert (entry.what, entry.after, entry.result) == ("evict batch/job-1", "evicted", "planned")
