"""What counts as a problem of a node, row by row."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.node_report import NodeReport
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, MilliCpu
from slackwater.status.api_objects import AgentPod, ClusterNode
from slackwater.status.cluster_status import NodeState, NodeStatusRow
from tests.unit.status.reported import REPORT, ago, judged, node, only_node, pod


def test_a_node_that_is_well() -> None:
    row = only_node(node(), pods=[pod()])
    assert row == NodeStatusRow(
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
        "replaced, an old report", node(report=NodeReport(version="1", problems=("hot",))),
        [pod(trouble="ContainerCreating", created=ago(seconds=15))], NodeState.STARTING, "",
    ),
    (
        "replaced for long", node(), [pod(trouble="ContainerCreating", created=ago(seconds=121))],
        NodeState.PROBLEM, "is not ready: ContainerCreating",
    ),
    (
        "replaced, and fails", node(),
        [pod(trouble="CrashLoopBackOff", created=ago(seconds=15), fails=True)],
        NodeState.PROBLEM, "is not ready: CrashLoopBackOff",
    ),
    (
        "it reported, its probe comes later", node(heard=ago(seconds=5)),
        [pod(trouble="Running", created=ago(seconds=15))], NodeState.STARTING, "",
    ),
    (
        "young and blind", node(reason="Blind", message="no tree", heard=ago(seconds=5)),
        [pod(trouble="Running", created=ago(seconds=15))], NodeState.BLIND, "no tree",
    ),
    (
        "young, the one before was blind",
        node(reason="Blind", message="no tree", heard=ago(seconds=40)),
        [pod(trouble="Running", created=ago(seconds=15))], NodeState.STARTING, "",
    ),
    (
        "the old pod ends", node(), [pod(trouble="Running", ends=ago(seconds=-20))],
        NodeState.STARTING, "",
    ),
    (
        "the old pod fails as it ends", node(),
        [pod(trouble="ended: exit code 1", ends=ago(seconds=-20), fails=True)],
        NodeState.STARTING, "",
    ),
    (
        "a pod that cannot end", node(), [pod(trouble="Running", ends=ago(seconds=121))],
        NodeState.PROBLEM, "its agent's pod agent-n1 is not ready: Running",
    ),
    (
        "the old one ends, the new one is there", node(),
        [pod(created=ago(seconds=10)), pod(trouble="Running", ends=ago(seconds=500))],
        NodeState.WELL, "",
    ),
    (
        "a young pod that fails", node(report=None),
        [pod(trouble="ErrImagePull: not found", created=ago(seconds=5), fails=True)],
        NodeState.PROBLEM, "its agent's pod agent-n1 is not ready: ErrImagePull: not found",
    ),
    (
        "no pod at all", node(), [], NodeState.GONE,
        "or run `slackwater release` on the node and then `kubectl annotate node n1 slackwater.io/",
    ),
    (
        "gone, and nothing is held", node(report=NodeReport(version="1", holding=0)), [],
        NodeState.GONE, "`kubectl annotate node n1 slackwater.io/report-` removes it",
    ),
    (
        "gone and silent", node(heard=ago(days=3)), [], NodeState.GONE, "its agent is gone",
    ),
    (
        "gone after it restored everything",
        node(report=NodeReport(version="1", holding=0), reason="Released", message="at exit"), [],
        NodeState.NO_AGENT, "",
    ),
    (
        "gone although something could not be restored", node(reason="Released"), [],
        NodeState.GONE, "its agent is gone, and its last values may still be in force",
    ),
    (
        "released manually", node(reason="Released", message="released manually; restart it"),
        [pod()], NodeState.RELEASED, "its agent is paused: released manually; restart it",
    ),
    (
        "released without words", node(reason="Released"), [pod()], NodeState.RELEASED,
        "its agent is paused: it restored everything",
    ),
    (
        "blind", node(reason="Blind", message="the tree is gone"), [pod()], NodeState.BLIND,
        "its agent cannot read the node: the tree is gone; its last values are still in force",
    ),
    (
        "blind, pods not seen", node(reason="Blind"), Gap("forbidden"), NodeState.BLIND,
        "its agent cannot read the node: it does not say why",
    ),
    (
        "blind long ago", node(reason="Blind", heard=ago(hours=1)), [pod()], NodeState.STALE,
        "its agent has not reported for 1 h",
    ),
    ("acting", node(reason="Acting", message="values are held"), [pod()], NodeState.WELL, ""),
    ("pods may not be seen", node(), Gap("forbidden"), NodeState.WELL, ""),
    ("without a heartbeat", node(heard=None), [pod()], NodeState.WELL, ""),
    ("an odd heartbeat", node(heard="yesterday"), [pod()], NodeState.WELL, ""),
    (
        "the agent's pod is gone", node(), [pod("n2")], NodeState.GONE,
        "its agent is gone, and its last values may still be in force",
    ),
    ("just heard", node(heard=ago(minutes=15)), [pod()], NodeState.WELL, ""),
    (
        "not heard for long", node(heard=ago(minutes=16)), [pod()], NodeState.STALE,
        "its agent has not reported for 16 min; its last values are still in force",
    ),
    (
        "not heard for days", node(heard=ago(days=3)), [pod()], NodeState.STALE,
        "its agent has not reported for 3 d; its last values are still in force",
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


@pytest.mark.parametrize(
    ("message", "problems", "told"),
    [
        ("no tree", ("no tree", "odd"), ("odd",)),
        ("no tree of pods at all", ("no tree of...", "odd"), ("odd",)),
        ("no tree", (), ()),
    ],
)
def test_why_an_agent_is_blind_is_said_once(
    message: str, problems: tuple[str, ...], told: tuple[str, ...]
) -> None:
    report = msgspec.structs.replace(REPORT, problems=problems)
    status = judged(node(report=report, reason="Blind", message=message))
    why = f"its agent cannot read the node: {message}; its last values are still in force"
    assert status.nodes[0].problems == (why, *told)
    assert status.problem_count() == 1 + len(told)


def test_a_blind_agent_that_set_nothing_does_not_say_that_it_stands() -> None:
    report = NodeReport(version="1", holding=0)
    row = only_node(node(report=report, reason="Blind", message="no tree"))
    assert row.problems == ("its agent cannot read the node: no tree",)


@given(st.text(max_size=60))
def test_no_report_is_an_exception(text: str) -> None:
    row = only_node(node(report=text))
    assert row.state in (NodeState.UNREADABLE, NodeState.WELL)
    assert "\n" not in "".join(row.problems)


@given(st.text(max_size=30))
def test_no_time_is_an_exception(text: str) -> None:
    row = only_node(node(heard=text, report=NodeReport(version="1", since=text)))
    assert row.since == text
