"""Rules and commands as `top` and `explain` have them, and that the reference names every field."""

from pathlib import Path

import msgspec
import pytest

from slackwater.model.decision import PolicyAction, RuleState
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros
from slackwater.record.agent_view import AgentView
from slackwater.record.journal import TickRecord
from slackwater.record.overview import make_overview
from slackwater.record.rules import CommandRow, RuleRow, command_rows, rule_rows
from tests.unit.policies.nodes import node
from tests.unit.record.rule_reports import progress, rule, rule_record
from tests.unit.record.stories import OFFSET, Told, rows

REFERENCE = Path(__file__).parents[3] / "docs/reference"
SECOND = 1_000_000
TRIGGERED = rule(
    RuleState.TRIGGERED,
    since=Micros(5 * SECOND),
    until=Micros(305 * SECOND),
    did="throttles 2 pods",
    held="1 pod is protected",
)
ROW = RuleRow(
    policy="NodeQOS/waterline1",
    rule="cpu",
    metric="cpu_total_usage",
    action="throttle",
    state="triggered",
    seen=6500,
    limit=6000,
    above=2,
    below=0,
    avoidance_threshold=2,
    restore_threshold=2,
    since="2026-01-01T00:00:05.000Z",
    until="2026-01-01T00:05:05.000Z",
    did="throttles 2 pods",
    held="1 pod is protected",
)


def view(*ticks: TickRecord) -> AgentView:
    return AgentView(ticks=ticks, offset=OFFSET)


def test_a_row_has_everything() -> None:
    assert rule_rows(view(rule_record(TRIGGERED))) == (ROW,)
    assert make_overview(view(rule_record(TRIGGERED))).rules == (ROW,)


def test_those_that_are_not_quiet_come_first() -> None:
    made = rule_record(
        rule(name="b"), rule(name="a"), rule(RuleState.COOLING, "z"), rule(name="c", policy="A/b")
    )
    assert [each.title() for each in rule_rows(view(made))] == [
        "NodeQOS/waterline1/z",
        "A/b/c",
        "NodeQOS/waterline1/a",
        "NodeQOS/waterline1/b",
    ]


def test_too_many_are_cut() -> None:
    many = rule_record(
        *(rule(name=f"r{place}") for place in range(1000)), in_flight=(progress(),) * 1000
    )
    assert len(rule_rows(view(many))) == len(command_rows(view(many))) == 200


def test_commands_that_are_in_flight() -> None:
    refused = msgspec.structs.replace(
        progress(CommandState.REFUSED, detail="a budget forbids it"), retry_at=Micros(9 * SECOND)
    )
    wanted = CommandRow(
        "evict batch/job-1",
        "refused",
        "2026-01-01T00:00:05.000Z",
        "cpu_total_usage 6500, limit 6000",
        "a budget forbids it",
        "2026-01-01T00:00:09.000Z",
    )
    assert command_rows(view(rule_record(in_flight=(refused,)))) == (wanted,)
    assert command_rows(view()) == ()
    assert rule_rows(view()) == ()


@pytest.mark.parametrize("target", ["", "node"])
def test_the_node_is_explained_with_its_rules(target: str) -> None:
    shown = view(rule_record(TRIGGERED, in_flight=(progress(),)))
    [row] = rows(shown, target)
    assert (row.knob, row.rules, len(row.commands)) == (None, (ROW,), 1)
    assert not rows(shown, "besteffort")[0].rules


def test_beside_knobs_the_rules_have_a_row_of_their_own() -> None:
    told = Told().tick(node(usage=200))
    last = told.journal.ticks[-1]
    story = msgspec.structs.replace(
        last.story, told=(*last.story.told, *rule_record(TRIGGERED).story.told)
    )
    shown = told.view(ticks=(msgspec.structs.replace(last, story=story),))
    *knobs, general = rows(shown)
    assert [each.knob for each in knobs] == ["quota"]
    assert general.rules == (ROW,)


def test_a_policy_that_holds_shows_its_rules_of_before() -> None:
    held = rule_record(course=PolicyAction.HELD)
    assert rule_rows(view(rule_record(TRIGGERED), held)) == (ROW,)


@pytest.mark.parametrize("page", ["top.md", "explain.md"])
@pytest.mark.parametrize("kind", [RuleRow, CommandRow])
def test_every_field_is_in_the_reference(page: str, kind: type[msgspec.Struct]) -> None:
    form = (REFERENCE / page).read_text().partition("## `-o json`")[2]
    for field in msgspec.structs.fields(kind):
        assert field.encode_name in form, field.encode_name
