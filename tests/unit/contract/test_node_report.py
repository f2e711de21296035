"""The annotation slackwater.io/report: what is written reads back, whoever wrote it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.node_report import (
    ANNOTATION,
    CONDITION,
    MOST_ACTIVE_RULES,
    MOST_OBJECTS,
    ActiveRule,
    AgentCondition,
    NodeReport,
    NodeStatusPatch,
    read_report,
    read_rules,
    read_status_patch,
    status_patch_object,
)
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, MilliCpu

#: One line of text: so the sentences of problems are.
lines = st.text("abc äß:.'\"", max_size=8).map(lambda text: " ".join(text.split()))
words = st.text("abc", min_size=1, max_size=4)
#: Why a policy is off is a sentence that begins with a word.
reports = st.builds(
    NodeReport,
    version=st.none() | words,
    since=st.none() | st.just("2026-11-17T09:00:00Z"),
    period=st.none() | st.just("1s"),
    quota=st.none() | st.just(UNLIMITED) | st.integers(0, 10**6).map(MilliCpu),
    used=st.none() | st.integers(0, 10**6).map(MilliCpu),
    holding=st.none() | st.integers(0, 500),
    policies=st.dictionaries(words, st.just("") | words, max_size=3),
    problems=st.lists(lines, max_size=3).map(tuple),
    rules=st.dictionaries(
        words,
        st.lists(
            st.builds(ActiveRule, words, words, st.just("") | words, st.booleans()), max_size=2
        ).map(tuple),
        max_size=3,
    ),
)


@given(reports)
def test_what_is_written_reads_back(report: NodeReport) -> None:
    assert read_report(report.text()) == report


def test_the_spelling_is_the_agreed_one() -> None:
    report = NodeReport(
        version="1.2.3",
        since="2026-11-17T09:00:00Z",
        period="1s",
        quota=MilliCpu(1200),
        used=MilliCpu(800),
        holding=3,
        policies={"best_effort_share": "", "quota_burst": "no label"},
        problems=("a sentence",),
    )
    assert json.loads(report.text()) == {
        "version": "1.2.3",
        "since": "2026-11-17T09:00:00Z",
        "period": "1s",
        "bestEffort": {"quota": "1200m", "used": "800m"},
        "holding": 3,
        "policies": {"best_effort_share": "on", "quota_burst": "off: no label"},
        "problems": ["a sentence"],
    }


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        (NodeReport(), {"policies": {}, "problems": []}),
        (
            NodeReport(quota=UNLIMITED),
            {"bestEffort": {"quota": "unlimited"}, "policies": {}, "problems": []},
        ),
        (
            NodeReport(quota=MilliCpu(0), holding=0),
            {"bestEffort": {"quota": "0m"}, "holding": 0, "policies": {}, "problems": []},
        ),
    ],
)
def test_what_is_not_known_is_left_out_and_zero_is_not(
    report: NodeReport, shown: dict[str, Any]
) -> None:
    assert json.loads(report.text()) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "slackwater.io/report is '{', but must be JSON"),
        ("[]", "slackwater.io/report is a list, but must be a mapping"),
        ('{"holding": -1}', "slackwater.io/report: holding is -1, but must be a number from 0 on"),
        ('{"bestEffort": {"quota": "x"}}', "bestEffort.quota is 'x', but must be a CPU quantity"),
        ('{"bestEffort": {"used": "-1"}}', "bestEffort.used is '-1', but must be a CPU quantity"),
        ('{"problems": "no"}', "problems is 'no', but must be a list"),
    ],
)
def test_what_is_no_report_is_one_sentence(text: str, said: str) -> None:
    found = read_report(text)
    assert isinstance(found, Gap)
    assert said in found.reason


def test_another_version_is_read_as_far_as_it_goes() -> None:
    found = read_report('{"version": "9", "mood": "good", "policies": {"new": "off"}}')
    assert found == NodeReport(version="9", policies={"new": "off"})
    assert isinstance(found, NodeReport)
    assert found.switched_on() == ()


def test_policies_that_are_on() -> None:
    report = NodeReport(policies={"b": "", "a": "", "c": "no label"})
    assert report.switched_on() == ("a", "b")


NOW = "2026-11-17T09:30:00Z"
SINCE = "2026-11-17T09:00:00Z"
status_patches = st.builds(
    NodeStatusPatch,
    reports,
    st.builds(
        AgentCondition, st.sampled_from(("True", "False", "Unknown")), words, words, st.just(SINCE)
    ),
)


@given(status_patches)
def test_what_is_applied_is_read_again(status_patch: NodeStatusPatch) -> None:
    assert read_status_patch(status_patch_object("here", status_patch, NOW)) == status_patch


@given(status_patches)
def test_only_our_own_fields_are_applied(status_patch: NodeStatusPatch) -> None:
    """Server-side apply owns what it is sent: nothing of anybody else may be in it."""
    made: dict[str, Any] = status_patch_object("here", status_patch, NOW)
    assert made["metadata"] == {
        "name": "here",
        "annotations": {ANNOTATION: status_patch.report.text()},
    }
    [condition] = made["status"]["conditions"]
    assert condition["type"] == CONDITION
    assert condition["lastHeartbeatTime"] == NOW
    assert condition["lastTransitionTime"] == SINCE
    assert set(made) == {"apiVersion", "kind", "metadata", "status"}
    assert set(made["status"]) == {"conditions"}


def test_a_new_condition_is_so_since_now() -> None:
    status_patch = NodeStatusPatch(
        NodeReport(), AgentCondition("True", "Acting", "values are held")
    )
    made: dict[str, Any] = status_patch_object("here", status_patch, NOW)
    assert made["status"]["conditions"][0]["lastTransitionTime"] == NOW


ACTING = [{"type": CONDITION, "status": "True", "reason": "Acting", "message": "m"}]
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"metadata": {"annotations": {ANNOTATION: "{}"}}},
        {"status": {"conditions": ACTING}},
        {"metadata": {"annotations": {ANNOTATION: "{"}}, "status": {"conditions": ACTING}},
        {"metadata": {"annotations": {ANNOTATION: "{}"}}, "status": {"conditions": "odd"}},
        {"metadata": {"annotations": {ANNOTATION: "{}"}}, "status": {"conditions": READY}},
        "no object",
    ],
)  # fmt: skip
def test_half_a_face_is_none(node: object) -> None:
    assert read_status_patch(node) is None


RULES = {"NodeQOS/waterline1": (ActiveRule("cpu", "triggered", "2026-11-17T09:00:00Z"),)}


def test_rules_are_spelled_shortly() -> None:
    """Quiet ones are not there, only their object."""
    report = NodeReport(rules={**RULES, "NodeQOS/quiet": ()})
    assert json.loads(report.text())["rules"] == {
        "NodeQOS/waterline1": [
            {"rule": "cpu", "state": "triggered", "since": "2026-11-17T09:00:00Z"}
        ],
        "NodeQOS/quiet": [],
    }
    assert "rules" not in json.loads(NodeReport().text())


@given(reports)
def test_the_quick_way_to_read_rules_finds_the_same(report: NodeReport) -> None:
    found = read_rules(report.text())
    assert found is not None
    assert found.rules == report.rules


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"rules": 7}',
        '{"rules": {"a": [{}]}}',
        '{"a": "\ud800"}',
        '{"a": ' + "[" * 5000,
    ],
)
def test_rules_of_a_report_that_cannot_be_read(text: str) -> None:
    assert read_rules(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"policies": {"watermark_relief": "on"}}', ""),
        ('{"policies": {"watermark_relief": "off: no rule is for it"}}', "no rule is for it"),
        ('{"policies": {"best_effort_share": "on"}}', "its agent knows no rules"),
    ],
)
def test_why_no_rule_is_followed(text: str, why: str) -> None:
    found = read_rules(text)
    assert found is not None
    assert found.why_off() == why


def test_a_report_of_a_node_with_too_many_rules_is_bounded() -> None:
    rule = {"rule": "x", "state": "triggered"}
    said = {"rules": {f"o{place}": [rule] * 200 for place in range(300)}}
    report = read_report(json.dumps(said))
    assert isinstance(report, NodeReport)
    assert len(report.rules) == MOST_OBJECTS
    assert {len(each) for each in report.rules.values()} == {MOST_ACTIVE_RULES}
