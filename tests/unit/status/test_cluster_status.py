"""What counts as a problem of a cluster, and its sums."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.fields import EnsuranceStatus, PolicyCondition, Truth
from slackwater.contract.node_report import ActiveRule, NodeReport
from slackwater.kube.lease import LeaseSpec
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, MilliCpu
from slackwater.status.api_objects import JudgedPolicy
from slackwater.status.cluster_status import ClusterStatus, NodeState
from tests.unit.status.reported import REPORT, ago, judged, lease, node, pod


def test_problems_come_first_and_names_are_in_order() -> None:
    nodes = [
        node("a", report=None), node("b"), node("d", heard=ago(days=1)), node("c"),
        node("e", report="?"), node("z", report=NodeReport(version="1", problems=("hot",))),
    ]  # fmt: skip
    assert [row.name for row in judged(*nodes).nodes] == ["e", "d", "z", "b", "c", "a"]


@pytest.mark.parametrize(
    "report",
    [
        NodeReport(version="1"),
        NodeReport(version="1", quota=MilliCpu(1)),
        NodeReport(version="1", used=MilliCpu(1)),
        NodeReport(version="1", quota=UNLIMITED),
    ],
)
def test_a_node_of_which_the_quota_or_the_usage_is_not_known_is_in_no_sum(
    report: NodeReport,
) -> None:
    totals = judged(node("a", report=report), node("b")).totals
    assert (totals.reporting, totals.known) == (2, 1)
    assert (totals.allocatable, totals.quota, totals.used) == (4000, 1200, 800)
    alone = judged(node("a", report=report)).totals
    assert (alone.reporting, alone.known) == (1, 0)
    assert (alone.allocatable, alone.quota, alone.used) == (None, None, None)


def test_a_node_of_unknown_size_is_in_no_sum() -> None:
    totals = judged(node(allocatable=None)).totals
    assert (totals.known, totals.quota, totals.used) == (0, None, None)


def test_totals() -> None:
    unlimited = NodeReport(version="1", quota=UNLIMITED, used=MilliCpu(100), holding=0)
    totals = judged(node("a"), node("b", report=unlimited), node("c", report=None)).totals
    assert (totals.nodes, totals.reporting, totals.without_agent) == (3, 2, 1)
    assert (totals.allocatable, totals.quota, totals.used) == (8000, 5200, 900)
    assert totals.holding == 3


def policy(name: str = "w", valid: str | None = "True", **said: Any) -> JudgedPolicy:
    conditions = (
        (
            PolicyCondition("Valid", Truth(valid), "R", said.pop("message", ""), ago(hours=1)),
            PolicyCondition("Enforced", Truth.FALSE, "NoAgent", "no agent", ago(hours=1)),
            *said.pop("triggered", ()),
        )
        if valid
        else ()
    )
    return JudgedPolicy("NodeQOS", name, 1, EnsuranceStatus(1, "throttles", 3, conditions))


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"heard": ago(hours=1)}, NodeState.STALE),
        ({"pods": []}, NodeState.GONE),
        (
            {"pods": [pod("a", "ContainerCreating", ago(seconds=9))], "heard": ago(minutes=1)},
            NodeState.STARTING,
        ),
    ],
)
def test_old_numbers_are_marked_and_in_no_sum(said: dict[str, Any], state: NodeState) -> None:
    about = {name: said[name] for name in ("pods",) if name in said}
    heard = {name: said[name] for name in ("heard",) if name in said}
    status = judged(node("a", **heard), **about)
    [row] = status.nodes
    assert (row.state, row.current, row.quota, row.used) == (state, False, 1200, 800)
    assert (status.totals.known, status.totals.quota, status.totals.used) == (0, None, None)
    assert judged(node("b")).nodes[0].current


@pytest.mark.parametrize(
    ("quota", "allocatable", "room"),
    [(10, 500, False), (11, 500, True), (40, 4000, False), (41, 4000, True), (10, None, True)],
)
def test_a_tier_that_gets_next_to_nothing_is_not_well(
    quota: int, allocatable: int | None, room: bool
) -> None:
    report = NodeReport(version="1", quota=MilliCpu(quota), used=MilliCpu(0))
    status = judged(node("a", report=report, allocatable=allocatable))
    [row] = status.nodes
    assert row.state is (NodeState.WELL if room else NodeState.NO_ROOM)
    assert status.totals.without_room == (not room)
    assert [each.startswith(f"best-effort pods get {quota}m here") for each in row.remarks] == (
        [] if room else [True]
    )
    assert not status.has_problem()


def test_no_room_does_not_hide_a_problem_nor_count_where_it_is_old() -> None:
    small = NodeReport(version="1", quota=MilliCpu(10), used=MilliCpu(0), problems=("hot",))
    [row] = judged(node("a", report=small)).nodes
    assert (row.state, len(row.remarks)) == (NodeState.PROBLEM, 1)
    [old] = judged(node("a", report=small, heard=ago(hours=1))).nodes
    assert (old.state, old.remarks) == (NodeState.STALE, ())


@pytest.mark.parametrize(
    ("reason", "idle"),
    [("Followed", False), ("Used", False), ("NeverActs", True), ("MetricMissing", True),
     ("NotFollowed", True), ("NoAgent", True), ("NotUsed", True)],
)  # fmt: skip
def test_a_policy_that_does_nothing_is_counted(reason: str, idle: bool) -> None:
    found = policy("a")
    conditions = tuple(
        msgspec.structs.replace(each, reason=reason, status=Truth.TRUE)
        for each in found.status.conditions
    )
    changed = msgspec.structs.replace(found.status, conditions=conditions)
    status = judged(node(), policies=[msgspec.structs.replace(found, status=changed)])
    assert (status.policies[0].idle, status.totals.policies_idle) == (idle, int(idle))
    assert not status.has_problem()


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
        (None, [policy(valid=None)], "no manager runs, so there is no verdict on 1 policy"),
        (
            LeaseSpec(), [policy("a", None), policy("b", None)],
            "no manager runs, so there is no verdict on 2 policies",
        ),
        (lease("m", ago(seconds=59)), [], ""),
        (lease("m", ago(seconds=61)), [], "the manager m has not renewed its lease since"),
        (lease("m", None), [], "the manager m has not renewed its lease since"),
        (lease("m", ago(seconds=1)), [policy(valid=None)], ""),
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
        "policies", "normalization",
    }  # fmt: skip
    assert set(plain["totals"]) == {
        "nodes", "reporting", "nodesWithProblems", "withoutAgent", "withoutRoom", "known",
        "allocatable", "quota", "used", "holding", "policies", "policiesInvalid",
        "policiesEnforced", "policiesTriggered", "policiesIdle",
    }  # fmt: skip
    assert plain["nodes"][0]["state"] == "well"
    assert msgspec.convert(plain, ClusterStatus).nodes[0].name == "n1"


def test_where_a_policy_is_triggered() -> None:
    told = PolicyCondition("Triggered", Truth.TRUE, "Triggered", "cpu on n1", ago(minutes=1))
    calm = PolicyCondition("Triggered", Truth.FALSE, "Restoring", "on n2", ago(minutes=1))
    status = judged(
        node(), policies=[policy("a", triggered=(told,)), policy("b", triggered=(calm,))]
    )
    shown = [(row.triggered, row.where, row.followed) for row in status.policies]
    assert shown == [("True", "cpu on n1", "no agent"), ("False", "", "no agent")]
    assert status.totals.policies_triggered == 1
    assert not status.has_problem()


def test_rules_of_a_node() -> None:
    rules = {"NodeQOS/w": (ActiveRule("cpu", "triggered", ago(minutes=1)),), "NodeQOS/x": ()}
    [row] = judged(node(report=msgspec.structs.replace(REPORT, rules=rules))).nodes
    assert (row.state, row.rules) == ("well", rules)
