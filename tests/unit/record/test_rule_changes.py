"""What the journal says about rules: each change once, those in Preview too."""

from typing import Any

from slackwater.model.decision import PolicyAction, RuleReport, RuleState
from slackwater.record.journal import TickRecord
from slackwater.record.rule_changes import RuleKey, follow_rules, rule_entries
from tests.unit.record.rule_reports import rule, rule_record

QUIET, COOLING, RESTORING = RuleState.QUIET, RuleState.COOLING, RuleState.RESTORING
ABOVE = RuleState.TRIGGERED


def told(*records: TickRecord) -> list[tuple[str, str, str, str]]:
    found: list[tuple[str, str, str, str]] = []
    before: dict[RuleKey, RuleReport] = {}
    for each in records:
        now = dict(follow_rules(each.story, before))
        found += [
            (entry.what, entry.before, entry.after, entry.because)
            for entry in rule_entries(each.snapshot, before, now)
        ]
        before = now
    return found


def states(*found: RuleState, **more: Any) -> list[TickRecord]:
    return [rule_record(rule(each, **more)) for each in found]


def test_a_cycle_is_two_entries_in_preview_too() -> None:
    cycle = (QUIET, ABOVE, COOLING, ABOVE, COOLING, RESTORING, QUIET)
    what = "rule NodeQOS/waterline1/cpu"
    assert told(*states(*cycle)) == [
        (what, "quiet", "triggered", "cpu_total_usage 6500 > 6000"),
        (what, "cooling", "restoring", "cpu_total_usage 5000 <= 6000"),
    ]
    assert len(told(*states(*cycle, preview=True))) == 2


def test_a_metric_that_goes_missing_and_comes_back() -> None:
    lost = rule(QUIET, seen=None, missing="Connection refused", held="Connection refused")
    found = told(*states(QUIET), rule_record(lost), rule_record(lost), *states(QUIET))
    assert [each[3] for each in found] == [
        "its metric is missing: Connection refused",
        "its metric is there again: cpu_total_usage 5000 <= 6000",
    ]


def test_one_that_was_held_for_too_long() -> None:
    held = rule(QUIET, seen=None, held="Connection refused; missing for 30 s")
    [_, (_, before, after, because)] = told(*states(ABOVE), rule_record(held))
    assert (before, after) == ("triggered", "quiet")
    assert because.endswith("is not known, limit 6000, Connection refused; missing for 30 s")


def test_one_that_goes_and_a_policy_that_holds() -> None:
    holds = rule_record(course=PolicyAction.HELD)
    assert len(told(*states(ABOVE), holds, *states(ABOVE))) == 1
    assert told(*states(ABOVE), rule_record())[-1][2:] == (
        "gone",
        "the rule is not followed here any more",
    )
