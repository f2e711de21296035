"""What counts as a problem of a cluster, row by row."""

import datetime as dt
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cluster.cluster_status import (
    ClusterStatus,
    Facts,
    cluster_status,
)
from slackwater.cluster.node_row import NodeRow, NodeState
from slackwater.cluster.seen_objects import (
    AgentPod,
    ClusterNode,
    Condition,
    JudgedPolicy,
    SeenLease,
)
from slackwater.contract.node_report import NodeReport
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, MilliCpu

NOW = dt.datetime(2026, 11, 17, 10, tzinfo=dt.UTC)


def ago(**span: float) -> str:
    return (NOW - dt.timedelta(**span)).isoformat().replace("+00:00", "Z")


REPORT = NodeReport(
    version="0.1.0",
    since=ago(minutes=3),
    period="1s",
    quota=MilliCpu(1200),
    used=MilliCpu(800),
    holding=3,
    policies={"best_effort_share": "", "quota_burst": "no label"},
)


def node(name: str = "n1", **said: Any) -> ClusterNode:
    report = said.pop("report", REPORT)
    text = report.text() if isinstance(report, NodeReport) else report
    said = {"allocatable": MilliCpu(4000), "heard": ago(minutes=1), **said}
    return ClusterNode(name, {}, report=text, **said)


def pod(on: str = "n1", trouble: str = "", created: str = ago(hours=1), **said: Any) -> AgentPod:
    return AgentPod(f"agent-{on}", "slackwater-system", on, created, trouble, **said)


def judged(*nodes: ClusterNode, **said: Any) -> ClusterStatus:
    """Every node with a report has an agent's pod, where nothing else is said."""
    pods = [pod(each.name) for each in nodes if each.report is not None]
    said = {"lease": SeenLease("m-1", ago(seconds=2), 15), "pods": pods, **said}
    return cluster_status(Facts("https://c:6443", nodes, **said), NOW)


def only_node(*nodes: ClusterNode, **said: Any) -> NodeRow:
    [row] = judged(*nodes, **said).nodes
    return row


def test_a_node_that_is_well() -> None:
    row = only_node(node(), pods=[pod()])
    assert row == NodeRow(
        "n1", NodeState.WELL, 4000, 1200, 800, 3,
        {"best_effort_share": "on", "quota_burst": "no label"},
        ago(minutes=3), ago(minutes=1), "0.1.0",
    )  # fmt: skip


ROWS: list[tuple[str, ClusterNode, list[AgentPod] | Gap, NodeState, str]] = [
    ("no report", node(report=None), [], NodeState.NO_AGENT, ""),
    ("no report, agents elsewhere", node(report=None), [pod("n2")], NodeState.NO_AGENT, ""),
    (
        "starting", node(report=None), [pod(created=ago(seconds=30))], NodeState.STARTING, "",
    ),
    (
        "no report from a pod", node(report=None), [pod()], NodeState.PROBLEM,
        "its agent's pod agent-n1 runs, but has not reported",
    ),
    (
        "a pod that fails", node(report=None), [pod(trouble="CrashLoopBackOff")],
        NodeState.PROBLEM, "its agent's pod agent-n1 is not ready: CrashLoopBackOff",
    ),
    (
        "a pod that fails later", node(), [pod(trouble="Pending")], NodeState.PROBLEM,
        "its agent's pod agent-n1 is not ready: Pending",
    ),
    (
        "a young pod that fails", node(report=None),
        [pod(trouble="ErrImagePull: not found", created=ago(seconds=5), fails=True)],
        NodeState.PROBLEM, "its agent's pod agent-n1 is not ready: ErrImagePull: not found",
    ),
    (
        "no pod at all", node(), [], NodeState.GONE,
        "its agent is gone, and what it set last may still stand; install it again, or run",
    ),
    (
        "gone, and nothing is held", node(report=NodeReport(version="1", holding=0)), [],
        NodeState.GONE, "`kubectl annotate node n1 slackwater.io/report-` removes it",
    ),
    (
        "gone and silent", node(heard=ago(days=3)), [], NodeState.GONE, "its agent is gone",
    ),
    (
        "gone after it put everything back",
        node(report=NodeReport(version="1", holding=0), reason="Released", message="at exit"), [],
        NodeState.NO_AGENT, "",
    ),
    (
        "gone although something could not be put back", node(reason="Released"), [],
        NodeState.GONE, "its agent is gone, and what it set last may still stand",
    ),
    (
        "released by hand", node(reason="Released", message="released by hand; restart it"),
        [pod()], NodeState.RELEASED, "its agent rests: released by hand; restart it",
    ),
    (
        "released without words", node(reason="Released"), [pod()], NodeState.RELEASED,
        "its agent rests: it put everything back",
    ),
    (
        "blind", node(reason="Blind", message="the tree is gone"), [pod()], NodeState.BLIND,
        "its agent sees nothing: the tree is gone",
    ),
    (
        "blind, pods not seen", node(reason="Blind"), Gap("forbidden"), NodeState.BLIND,
        "its agent sees nothing: it does not say why",
    ),
    (
        "blind long ago", node(reason="Blind", heard=ago(hours=1)), [pod()], NodeState.STALE,
        "its agent has not been heard for 1 h",
    ),
    ("acting", node(reason="Acting", message="values are held"), [pod()], NodeState.WELL, ""),
    ("pods may not be seen", node(), Gap("forbidden"), NodeState.WELL, ""),
    ("without a heartbeat", node(heard=None), [pod()], NodeState.WELL, ""),
    ("an odd heartbeat", node(heard="yesterday"), [pod()], NodeState.WELL, ""),
    (
        "the agent's pod is gone", node(), [pod("n2")], NodeState.GONE,
        "its agent is gone, and what it set last may still stand",
    ),
    ("just heard", node(heard=ago(minutes=15)), [pod()], NodeState.WELL, ""),
    (
        "not heard for long", node(heard=ago(minutes=16)), [pod()], NodeState.STALE,
        "its agent has not been heard for 16 min; what it set last still stands",
    ),
    (
        "not heard for days", node(heard=ago(days=3)), [pod()], NodeState.STALE,
        "its agent has not been heard for 3 d; what it set last still stands",
    ),
    (
        "its own problems", node(report=NodeReport(version="1", problems=("too hot",))), [pod()],
        NodeState.PROBLEM, "too hot",
    ),
    (
        "not JSON", node(report="{"), [pod()], NodeState.UNREADABLE,
        "its report cannot be read: slackwater.io/report is '{', but must be JSON",
    ),
    (
        "a wrong amount", node(report='{"bestEffort": {"quota": "lots"}}'), [pod()],
        NodeState.UNREADABLE,
        "its report cannot be read: slackwater.io/report: bestEffort.quota is 'lots', but must be",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "pods", "state", "problem"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_nodes(
    found: ClusterNode, pods: list[AgentPod] | Gap, state: NodeState, problem: str
) -> None:
    status = judged(found, pods=pods)
    [row] = status.nodes
    assert row.state is state
    assert bool(row.problems) is bool(problem)
    assert problem in "".join(row.problems)
    assert "\n" not in "".join(row.problems)
    if problem:
        assert status.has_problem()


def test_an_unlimited_quota() -> None:
    row = only_node(node(report=NodeReport(version="1", quota=UNLIMITED, used=MilliCpu(100))))
    assert (row.quota, row.used) == ("unlimited", 100)


def test_problems_come_first_and_names_are_in_order() -> None:
    nodes = [
        node("a", report=None), node("b"), node("d", heard=ago(days=1)), node("c"),
        node("e", report="?"), node("z", report=NodeReport(version="1", problems=("hot",))),
    ]  # fmt: skip
    assert [row.name for row in judged(*nodes).nodes] == ["e", "d", "z", "b", "c", "a"]


def test_totals() -> None:
    unlimited = NodeReport(version="1", quota=UNLIMITED, used=MilliCpu(100), holding=0)
    totals = judged(node("a"), node("b", report=unlimited), node("c", report=None)).totals
    assert (totals.nodes, totals.reporting, totals.without_agent) == (3, 2, 1)
    assert (totals.allocatable, totals.quota, totals.used) == (8000, 5200, 900)
    assert totals.holding == 3


def policy(name: str = "w", valid: str | None = "True", **said: Any) -> JudgedPolicy:
    conditions = (
        (Condition("Valid", valid, "R", said.pop("message", "")), Condition("Enforced", "False"))
        if valid
        else ()
    )
    return JudgedPolicy("NodeQOS", name, 1, 1, "throttles", 3, conditions)


def test_policies_that_are_wrong_come_first_and_say_why() -> None:
    status = judged(node(), policies=[policy("a"), policy("b", "False", message="no such action")])
    assert [(row.name, row.valid, row.enforced) for row in status.policies] == [
        ("b", "False", "False"), ("a", "True", "False"),
    ]  # fmt: skip
    assert status.policies[0].problems == ("no such action",)
    assert status.totals.policies_invalid == 1
    assert status.has_problem()


def test_all_is_well() -> None:
    status = judged(node(), pods=[pod()], policies=[policy()])
    assert not status.has_problem()
    assert (status.problems, status.notes) == ((), ())
    assert status.manager is not None
    assert (status.manager.leader, status.manager.alive) == ("m-1", True)


def test_an_empty_cluster_is_well() -> None:
    assert not judged().has_problem()


def test_no_agent_at_all_says_how_to_get_one() -> None:
    [problem] = judged(node(report=None)).problems
    assert problem.startswith("no node has an agent; ")
    assert "slackwater install" in problem


@pytest.mark.parametrize(
    ("missing", "kinds", "them"),
    [(["NodeQOS"], "kind NodeQOS", "it"), (["NodeQOS", "PodQOS"], "kinds NodeQOS, PodQOS", "them")],
)
def test_kinds_that_are_missing(missing: list[str], kinds: str, them: str) -> None:
    """The definitions alone: what a Helm release has set stays."""
    [problem] = judged(node(), missing=missing).problems
    assert problem == (
        f"the cluster does not know the {kinds}; `slackwater install --print --definitions | "
        f"kubectl apply --server-side -f -` installs {them}"
    )


def test_problems_are_counted_as_they_are_shown() -> None:
    hot = NodeReport(version="1", problems=("hot", "loud"))
    wrong = policy("b", "False", message="no such action")
    status = judged(node(report=hot), policies=[wrong], missing=["PodQOS"])
    assert status.problem_count() == 4
    assert judged(node()).problem_count() == 0


def test_a_cluster_that_was_left_in_order_has_no_agent() -> None:
    report = NodeReport(version="1", holding=0)
    status = judged(node(report=report, reason="Released"), pods=[])
    assert [row.state for row in status.nodes] == [NodeState.NO_AGENT]
    assert (status.totals.reporting, status.totals.without_agent) == (0, 1)
    assert [each.partition(";")[0] for each in status.problems] == ["no node has an agent"]


@pytest.mark.parametrize(
    ("lease", "policies", "problem"),
    [
        (None, [], ""),
        (None, [policy()], ""),
        (None, [policy(valid=None)], "no manager runs, so nobody has judged 1 policy"),
        (
            SeenLease(), [policy("a", None), policy("b", None)],
            "no manager runs, so nobody has judged 2 policies",
        ),
        (SeenLease("m", ago(seconds=59), 15), [], ""),
        (SeenLease("m", ago(seconds=61), 15), [], "the manager m has not renewed its lease since"),
        (SeenLease("m", None, 15), [], "the manager m has not renewed its lease since"),
        (SeenLease("m", ago(seconds=1), 15), [policy(valid=None)], ""),
    ],
)  # fmt: skip
def test_the_manager(lease: Any, policies: list[JudgedPolicy], problem: str) -> None:
    status = judged(node(), lease=lease, policies=policies)
    assert [each for each in status.problems if problem not in each] == []
    assert bool(status.problems) is bool(problem)


def test_what_may_not_be_seen_is_a_note_and_no_problem() -> None:
    status = judged(
        node(), pods=Gap("pods is forbidden"), lease=Gap("leases is forbidden"),
        unseen={"PodQOS": "podqoss is forbidden"}, policies=[policy(valid=None)],
    )  # fmt: skip
    assert not status.has_problem()
    assert status.notes == (
        "PodQOS is not shown: podqoss is forbidden",
        "whether agents run is not known: pods is forbidden",
        "whether a manager runs is not known: leases is forbidden",
    )


def test_it_is_stable_json() -> None:
    plain = msgspec.to_builtins(judged(node(), policies=[policy()]))
    assert (plain["apiVersion"], plain["kind"]) == ("slackwater.io/v1", "ClusterStatus")
    assert plain["at"] == "2026-11-17T10:00:00Z"
    assert set(plain) == {
        "apiVersion", "kind", "at", "server", "manager", "totals", "problems", "notes", "nodes",
        "policies",
    }  # fmt: skip
    assert set(plain["totals"]) == {
        "nodes", "reporting", "nodesWithProblems", "withoutAgent", "allocatable", "quota", "used",
        "holding", "policies", "policiesInvalid", "policiesEnforced",
    }  # fmt: skip
    assert plain["nodes"][0]["state"] == "well"
    assert msgspec.convert(plain, ClusterStatus).nodes[0].name == "n1"


@given(st.text(max_size=60))
def test_no_report_is_an_exception(text: str) -> None:
    row = only_node(node(report=text))
    assert row.state in (NodeState.UNREADABLE, NodeState.WELL)
    assert "\n" not in "".join(row.problems)


@given(st.text(max_size=30))
def test_no_time_is_an_exception(text: str) -> None:
    row = only_node(node(heard=text, report=NodeReport(version="1", since=text)))
    assert row.since == text
