"""The manager's verdicts, row by row; and that they come to rest."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.crane.fields import (
    ENFORCED,
    TRIGGERED,
    VALID,
    EnsuranceStatus,
    PolicyCondition,
    Truth,
)
from slackwater.contract.resources import NODE_QOS_ENSURANCE_POLICIES
from slackwater.kube.informer import InformerView
from slackwater.manager.controllers.policy_status import (
    CONTROLLER,
    INVALID,
    PolicyContext,
    context_of,
    find_validity,
    is_current,
    judge_policy,
)
from slackwater.manager.policy_object import PolicyObject
from slackwater.model.gap import Gap
from slackwater.status.api_objects import ClusterNode
from tests.unit.manager.objects import (
    EARLIER,
    NOW,
    WORLD,
    action,
    metric,
    pod_qos,
    policy,
    rule,
    value_of,
    view_of,
)

NO_KIND = PolicyContext(nodes=WORLD.nodes, actions=Gap("the cluster does not know the kind"))


def valid_of(status: EnsuranceStatus) -> PolicyCondition:
    found = find_validity(status)
    assert found is not None
    return found


ROWS: list[tuple[str, PolicyObject, PolicyContext, Truth, str, str]] = [
    ("all good", policy(), WORLD, Truth.TRUE, "Valid", ""),
    ("old name", policy(resource=NODE_QOS_ENSURANCE_POLICIES), WORLD, Truth.TRUE, "Valid", ""),
    (
        "unknown action", policy(rule("nope")), WORLD, Truth.FALSE, "Invalid",
        "rule cpu-usage: there is no AvoidanceAction 'nope'",
    ),
    (
        "unknown metric", policy(rule(metric="nonsense")), WORLD, Truth.FALSE, "Unreadable",
        "spec.rules[0].metricRule.name is 'nonsense', but must be one of",
    ),
    (
        "unreadable", policy(rule(value=-1)), WORLD, Truth.FALSE, "Unreadable",
        "spec.rules[0].metricRule.value is -1, but must be",
    ),
    (
        "no such kind", policy(), NO_KIND, Truth.UNKNOWN, "ActionsUnknown",
        "the cluster does not know the kind",
    ),
    (
        "a broken action",
        policy(rule("bad")),
        PolicyContext({}, {}, broken_actions={"bad": "its step is 300", "other": "?"}),
        Truth.FALSE, "Invalid",
        "the AvoidanceAction bad is there, but cannot be used: its step is 300",
    ),
    ("an action", action(), WORLD, Truth.TRUE, "Valid", ""),
    (
        "an action without effect", action(step=0), WORLD, Truth.FALSE, "Invalid",
        "stepCPURatio is 0",
    ),
    (
        "an action that cannot be read", action(step=300), WORLD, Truth.FALSE, "Unreadable",
        "stepCPURatio is 300",
    ),
    ("pods", pod_qos("throttle"), WORLD, Truth.TRUE, "Valid", ""),
    (
        "pods that allow nothing that there is", pod_qos("nope"), WORLD, Truth.FALSE, "Invalid",
        "there is no AvoidanceAction 'nope'",
    ),
    (
        "pods where actions are unknown", pod_qos("throttle"), NO_KIND, Truth.UNKNOWN,
        "ActionsUnknown", "does not know",
    ),
    ("a metric", metric(), WORLD, Truth.TRUE, "Valid", ""),
    (
        "a metric of a probe that is not there",
        metric(source={"probe": {"kind": "PodQOS", "name": "web"}, "series": "a"}),
        WORLD, Truth.FALSE, "Invalid",
        "spec.source.probe: there is no PodQOS/web with an httpGet probe",
    ),
    (
        "a metric of a probe",
        metric(source={"probe": {"kind": "PodQOS", "name": "web"}, "series": "a"}),
        PolicyContext({}, {}, probes=frozenset({"PodQOS/web"})), Truth.TRUE, "Valid", "",
    ),
    (
        "a rule about a metric of users",
        policy(rule(metric="queue-depth")),
        msgspec.structs.replace(WORLD, metrics=frozenset({"queue-depth"})),
        Truth.TRUE, "Valid", "",
    ),
    (
        "a rule about a metric that nobody defines",
        policy(rule(metric="queue-depth")),
        msgspec.structs.replace(WORLD, metrics=frozenset()),
        Truth.FALSE, "Invalid", "rule cpu-usage: there is no EnsuranceMetric 'queue-depth'",
    ),
    (
        "a rule about a plug-in's metric",
        policy(rule(metric="example.com/queue-depth")),
        msgspec.structs.replace(WORLD, metrics=frozenset()),
        Truth.TRUE, "Valid", "",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "world", "status", "reason", "message"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_verdicts(
    found: PolicyObject, world: PolicyContext, status: Truth, reason: str, message: str
) -> None:
    valid = valid_of(judge_policy(found, world, NOW))
    assert (valid.status, valid.reason) == (status, reason)
    assert message in valid.message
    assert bool(valid.message) is bool(message)
    assert valid.message.count("\n") == 0


@pytest.mark.parametrize(
    ("found", "types"),
    [
        (policy(), (ENFORCED, TRIGGERED, VALID)),
        (action(), (ENFORCED, VALID)),
        (pod_qos("throttle"), (ENFORCED, VALID)),
        (policy(rule(value=-1)), (ENFORCED, VALID)),
    ],
    ids=str,
)
def test_each_kind_has_its_conditions(found: PolicyObject, types: tuple[str, ...]) -> None:
    conditions = judge_policy(found, WORLD, NOW).conditions
    assert tuple(sorted(each.type for each in conditions)) == types


@pytest.mark.parametrize(
    ("selector", "nodes"), [(None, 3), ({"pool": "web"}, 1), ({"pool": "none"}, 0)]
)
def test_nodes_that_are_meant_are_counted(selector: Any, nodes: int) -> None:
    found = policy(selector=selector) if selector else policy()
    assert judge_policy(found, WORLD, NOW).nodes == nodes


@pytest.mark.parametrize("found", [action(), pod_qos("throttle")], ids=str)
def test_what_is_not_about_nodes_counts_none(found: PolicyObject) -> None:
    assert judge_policy(found, WORLD, NOW).nodes is None


def test_the_summary_says_what_it_does() -> None:
    found = policy(rule(avoidanceThreshold=2, restoreThreshold=2))
    assert judge_policy(found, WORLD, NOW).summary == (
        "throttle when cpu_total_usage > 6000, twice in a row; back after 2 below"
    )


def with_status(found: PolicyObject, status: EnsuranceStatus) -> PolicyObject:
    return msgspec.structs.replace(found, status=status)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_was_written_stands(row: Any) -> None:
    """Through JSON, as the API server keeps it, and later: nothing is left to write."""
    found, world = row[1], row[2]
    wanted = judge_policy(found, world, EARLIER)
    assert not is_current(found, wanted)
    kept = msgspec.json.decode(msgspec.json.encode(wanted), type=EnsuranceStatus)
    later = with_status(found, kept)
    assert is_current(later, judge_policy(later, world, NOW))


def test_a_conditions_time_is_its_last_change() -> None:
    before = with_status(policy(), judge_policy(policy(), WORLD, EARLIER))
    assert valid_of(judge_policy(before, WORLD, NOW)).last_transition_time == EARLIER
    broken = msgspec.structs.replace(policy(rule("nope")), status=before.status)
    wanted = judge_policy(broken, WORLD, NOW)
    assert valid_of(wanted).last_transition_time == NOW
    times = {each.type: each.last_transition_time for each in wanted.conditions}
    assert times[ENFORCED] == EARLIER


def test_a_new_generation_is_written_though_the_verdict_is_the_same() -> None:
    before = policy(generation=1)
    after = with_status(policy(generation=2), judge_policy(before, WORLD, EARLIER))
    wanted = judge_policy(after, WORLD, NOW)
    assert not is_current(after, wanted)
    assert wanted.observed_generation == 2
    assert {each.observed_generation for each in wanted.conditions} == {2}


def test_conditions_of_others_and_their_order_are_no_difference() -> None:
    wanted = judge_policy(policy(), WORLD, EARLIER)
    other = PolicyCondition("Progressing", Truth.TRUE, "Other", "", EARLIER)
    mixed = msgspec.structs.replace(wanted, conditions=(other, *reversed(wanted.conditions)))
    found = with_status(policy(), mixed)
    assert is_current(found, judge_policy(found, WORLD, NOW))


def test_what_somebody_else_changed_is_a_difference() -> None:
    wanted = judge_policy(policy(), WORLD, EARLIER)
    found = with_status(policy(), msgspec.structs.replace(wanted, summary="mine"))
    assert not is_current(found, judge_policy(found, WORLD, NOW))


def test_a_long_story_is_cut_to_what_the_api_server_takes() -> None:
    world = PolicyContext(nodes={}, actions={}, broken_actions={"bad": "x" * 40_000})
    assert len(valid_of(judge_policy(policy(rule("bad")), world, NOW)).message) <= 4000


@given(
    nodes=st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["pool", "zone"]), st.sampled_from(["web", "batch"])),
        max_size=8,
    ),
    wanted=st.sampled_from(["web", "batch"]),
)
def test_the_count_is_that_of_the_nodes_with_the_label(
    nodes: dict[str, dict[str, str]], wanted: str
) -> None:
    world = PolicyContext(nodes=nodes, actions=WORLD.actions)
    meant = sum(labels.get("pool") == wanted for labels in nodes.values())
    found = policy(selector={"pool": wanted})
    assert judge_policy(found, world, NOW).nodes == meant


def test_the_context_is_nodes_and_actions() -> None:
    good, bad = action("good"), action("bad", step=300)
    actions = InformerView({"good": good, "bad": bad}, synced=True)
    nodes = InformerView({"n1": ClusterNode("n1", {"pool": "web"})}, synced=True)
    context = context_of(view_of(nodes, AvoidanceAction=actions), NOW)
    assert context.nodes == {"n1": {"pool": "web"}}
    assert context.actions == {"good": value_of(good)}
    assert list(context.broken_actions) == ["bad"]
    assert "stepCPURatio is 300" in context.broken_actions["bad"]


def test_without_the_kind_there_are_no_actions_to_know() -> None:
    context = context_of(view_of(AvoidanceAction=InformerView({}, unknown_kind=True)), NOW)
    assert context.actions == Gap("the cluster does not know the kind AvoidanceAction")


def test_every_object_of_every_kind_gets_a_status() -> None:
    known, unknown = action(), policy(rule("later"))
    view = view_of(
        AvoidanceAction=InformerView({"throttle": known}, synced=True),
        NodeQOS=InformerView({"waterline": unknown}, synced=True),
    )
    first, second = CONTROLLER.reconcile(view, NOW).writes
    assert [str(first), str(second)] == [
        "status of AvoidanceAction throttle",
        "status of NodeQOS waterline",
    ]
    assert (first.outcome, first.event, first.is_current) == ("Valid=True", None, False)
    assert (second.outcome, second.uid) == ("Valid=False", unknown.uid)
    assert second.because == "rule cpu-usage: there is no AvoidanceAction 'later'"
    assert second.event is not None
    assert second.event.reason == INVALID


def test_what_has_its_status_is_current_and_sends_no_event() -> None:
    found = policy(rule("later"))
    view = view_of(NodeQOS=InformerView({"waterline": found}, synced=True))
    [first] = CONTROLLER.reconcile(view, EARLIER).writes
    done = with_status(found, first.body)
    later = view_of(NodeQOS=InformerView({"waterline": done}, synced=True))
    [again] = CONTROLLER.reconcile(later, NOW).writes
    assert again.is_current
    assert again.event is None
    assert again.meaning == first.meaning
