"""Whether nodes follow an object, and where it is triggered: verdicts from agents' reports."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.crane.fields import ENFORCED, TRIGGERED, Truth
from slackwater.contract.node_report import ActiveRule, RulesReport
from slackwater.contract.resources import NODE_QOS_ENSURANCE_POLICIES
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import ClusterView
from slackwater.manager.controllers.policy_enforcement import (
    EnforcementContext,
    NodeRules,
    enforcement_of,
    judge_enforcement,
    name_some,
)
from slackwater.manager.controllers.policy_status import CONTROLLER
from slackwater.manager.policy_object import PolicyObject
from slackwater.status.api_objects import ClusterNode
from tests.unit.manager.objects import NOW, action, pod_qos, policy, rule, view_of

NODES = {name: {"pool": "web"} for name in ("n1", "n2", "n3", "n4", "n5")}
TITLE = "NodeQOS/waterline"
ON = {"watermark_relief": "on"}
HEARD = "2026-11-17T09:59:00Z"
STALE = "2026-11-17T09:44:59Z"
UP, COOL, DOWN = (ActiveRule("cpu", state) for state in ("triggered", "cooling", "restoring"))
OTHER = ActiveRule("memory", "triggered")
PREVIEW = ActiveRule("cpu", "triggered", preview=True)


def following(**active: tuple[ActiveRule, ...]) -> EnforcementContext:
    """These nodes follow the waterline; each with its active rules."""
    return EnforcementContext(
        {name: NodeRules(followed={TITLE: rules}) for name, rules in active.items()}
    )


def off(*names: str, why: str = "") -> EnforcementContext:
    return EnforcementContext(dict.fromkeys(names, NodeRules(why)))


ALL = following(n1=(), n2=(), n3=(), n4=(), n5=())
YES, NO, UNKNOWN = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN


@pytest.mark.parametrize(
    ("context", "status", "reason", "message"),
    [
        (ALL, YES, "Followed", "all 5 nodes follow it"),
        (
            following(n1=(), n2=()),
            YES,
            "Followed",
            "2 of 5 nodes follow it; not n3, n4, n5",
        ),
        (following(n5=()), YES, "Followed", "1 of 5 nodes follows it; not n1, n2, n3 and 1 more"),
        (EnforcementContext(), NO, "NoAgent", "no agent reports from n1, n2, n3 and 2 more"),
        (following(elsewhere=()), NO, "NoAgent", "no agent reports from n1, n2, n3 and 2 more"),
        (
            off("n1", why="watermarkRelief.enabled is false"),
            NO,
            "NotFollowed",
            "n1 does not follow it: watermarkRelief.enabled is false",
        ),
        (
            off("n1", "n2"),
            NO,
            "NotFollowed",
            "n1 does not follow it: its agent did not take it up yet, or refused it, nor does n2",
        ),
    ],
)
def test_who_follows(context: EnforcementContext, status: Truth, reason: str, message: str) -> None:
    verdict, triggered = judge_enforcement(policy(), NODES, context)
    assert (verdict.type, verdict.status, verdict.reason) == (ENFORCED, status, reason)
    assert verdict.message == message
    assert (triggered.status is UNKNOWN) is (status is NO)


LOST = ActiveRule("latency", "quiet", missing="Connection refused")


@pytest.mark.parametrize(
    ("context", "status", "message"),
    [
        (
            following(n1=(LOST,), n2=(LOST,), n3=(LOST,), n4=(LOST,), n5=(LOST,)),
            NO,
            "all 5 nodes follow it; the metric of latency is missing on n1, n2, n3 and 2 more: "
            + LOST.missing,
        ),
        (
            following(n1=(), n2=(), n3=(LOST,), n4=(UP,), n5=()),
            YES,
            "all 5 nodes follow it; the metric of latency is missing on n3: Connection refused",
        ),
    ],
)
def test_a_rule_without_its_metric_is_not_enforced(
    context: EnforcementContext, status: Truth, message: str
) -> None:
    verdict, triggered = judge_enforcement(policy(), NODES, context)
    assert (verdict.status, verdict.reason) == (status, "MetricMissing")
    assert verdict.message == message
    assert triggered.reason == ("Quiet" if status is NO else "Triggered")


SMALL = ActiveRule("cpu-usage", "quiet", vain="cpu_total_usage is 2000 at the most on this node")


@pytest.mark.parametrize(
    ("context", "status", "message"),
    [
        (
            following(n1=(SMALL,), n2=(SMALL,), n3=(SMALL,), n4=(SMALL,), n5=(SMALL,)),
            NO,
            "all 5 nodes follow it; cpu-usage can do nothing on n1, n2, n3 and 2 more: "
            + SMALL.vain,
        ),
        (
            following(n1=(), n2=(), n3=(SMALL,), n4=(UP,), n5=()),
            YES,
            "all 5 nodes follow it; cpu-usage can do nothing on n3: " + SMALL.vain,
        ),
    ],
)
def test_a_rule_that_can_never_act_is_not_enforced(
    context: EnforcementContext, status: Truth, message: str
) -> None:
    verdict, _ = judge_enforcement(policy(), NODES, context)
    assert (verdict.status, verdict.reason, verdict.message) == (status, "NeverActs", message)


def test_a_missing_metric_is_told_first() -> None:
    """It may come back; why the rule is in vain then shows."""
    both = ActiveRule("cpu-usage", "quiet", missing="Connection refused", vain="so small")
    verdict, _ = judge_enforcement(policy(), NODES, following(n1=(both,)))
    assert verdict.reason == "MetricMissing"


def test_a_selector_that_matches_no_node() -> None:
    verdict, _ = judge_enforcement(policy(selector={"pool": "gone"}), NODES, ALL)
    assert (verdict.status, verdict.reason, verdict.message) == (
        NO,
        "NoNodes",
        "its selector matches no node",
    )


def test_the_older_kind_is_another_object() -> None:
    found = policy(resource=NODE_QOS_ENSURANCE_POLICIES)
    assert judge_enforcement(found, NODES, ALL)[0].reason == "NotFollowed"


@pytest.mark.parametrize(
    ("context", "status", "reason", "message"),
    [
        (ALL, NO, "Quiet", ""),
        (following(n1=(UP,), n2=()), YES, "Triggered", "cpu on n1"),
        (following(n1=(UP, OTHER), n2=(COOL,)), YES, "Triggered", "cpu, memory on n1, n2"),
        (
            following(n1=(UP,), n2=(UP,), n3=(UP,), n4=(UP,), n5=(DOWN,)),
            YES,
            "Triggered",
            "cpu on n1, n2, n3 and 1 more",
        ),
        (following(n1=(PREVIEW,)), YES, "Triggered", "cpu on n1; Preview: nothing is done"),
        (following(n1=(PREVIEW,), n2=(UP,)), YES, "Triggered", "cpu on n1, n2"),
        (
            following(n1=(DOWN,), n2=()),
            NO,
            "Restoring",
            "what was done is being undone on n1",
        ),
    ],
)
def test_where_it_is_triggered(
    context: EnforcementContext, status: Truth, reason: str, message: str
) -> None:
    _, verdict = judge_enforcement(policy(), NODES, context)
    assert (verdict.type, verdict.status, verdict.reason) == (TRIGGERED, status, reason)
    assert verdict.message == message


NAMED = {TITLE: frozenset({"throttle"}), "NodeQOS/idle": frozenset({"evict"})}
FOLLOWED = EnforcementContext(actions_named=NAMED, followed=frozenset({TITLE}))


@pytest.mark.parametrize(
    ("found", "status", "reason", "message"),
    [
        (action(), YES, "Used", "by NodeQOS/waterline"),
        (action("evict"), NO, "NotFollowed", "no node follows NodeQOS/idle"),
        (action("nobody"), NO, "NotUsed", "no rule names it"),
        (pod_qos("throttle"), YES, "Used", "by NodeQOS/waterline"),
        (
            pod_qos("evict"),
            NO,
            "NotUsed",
            "no rule that a node follows names an action that it allows",
        ),
        (policy(rule(value=-1)), NO, "Unreadable", "no agent follows what cannot be read"),
    ],
    ids=str,
)
def test_what_is_used_by_rules(
    found: PolicyObject, status: Truth, reason: str, message: str
) -> None:
    [verdict] = judge_enforcement(found, NODES, FOLLOWED)
    assert (verdict.type, verdict.status, verdict.reason) == (ENFORCED, status, reason)
    assert verdict.message == message


def node(name: str, **said: Any) -> ClusterNode:
    known: dict[str, Any] = {"rules": RulesReport(ON, {TITLE: ()}), "heard": HEARD}
    return ClusterNode(name, {"pool": "web"}, **(known | said))


def world(*nodes: ClusterNode) -> ClusterView:
    return view_of(
        InformerView({each.name: each for each in nodes}, synced=True),
        NodeQOS=InformerView({"waterline": policy()}, synced=True),
        AvoidanceAction=InformerView({"throttle": action()}, synced=True),
    )


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        (node("n1"), True),
        (node("n1", heard=None), True),
        (node("n1", heard=STALE), False),
        (node("n1", reason="Released"), False),
        (node("n1", rules=None), False),
    ],
)
def test_an_agent_counts_while_it_reports(found: ClusterNode, counts: bool) -> None:
    """One that was silent for a quarter of an hour, or has put everything back, does not."""
    context = enforcement_of(world(found), NOW)
    assert ("n1" in context.agents) is counts
    assert context.followed == ({TITLE} if counts else set())
    assert context.actions_named == {TITLE: {"throttle"}}


def test_conditions_come_from_what_nodes_report() -> None:
    view = world(node("n1", rules=RulesReport(ON, {TITLE: (UP,)})), node("n2", rules=None))
    throttle, waterline = CONTROLLER.reconcile(view, NOW).writes
    said = {each.type: (each.status, each.message) for each in waterline.body.conditions}
    assert said[ENFORCED] == (YES, "1 of 2 nodes follows it; not n2")
    assert said[TRIGGERED] == (YES, "cpu on n1")
    said = {each.type: (each.status, each.message) for each in throttle.body.conditions}
    assert said[ENFORCED] == (YES, "by NodeQOS/waterline")


@given(st.lists(st.text("ab", min_size=1, max_size=253), max_size=300))
def test_however_many_are_named_it_is_short(names: list[str]) -> None:
    assert len(name_some(names)) <= 3 * 255 + len(" and 300 more")


def test_since_and_state_of_a_rule_read_leniently() -> None:
    """An agent of a later version may know more states."""
    later = ActiveRule("cpu", "dreaming")
    context = following(n1=(later,))
    assert judge_enforcement(policy(), {"n1": {}}, context)[1].reason == "Restoring"
    assert msgspec.json.decode(msgspec.json.encode(later), type=ActiveRule) == later
