"""Nodes as their agents report, their pods, and what the status makes of them."""

import datetime as dt
from typing import Any

from slackwater.contract.node_report import NodeReport
from slackwater.kube.lease import LeaseSpec
from slackwater.model.units import MilliCpu
from slackwater.status.api_objects import AgentPod, ClusterNode
from slackwater.status.cluster_status import (
    ClusterFacts,
    ClusterStatus,
    NodeStatusRow,
    cluster_status,
)

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


def lease(holder: str, renewed: str | None) -> LeaseSpec:
    return LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=15)


def judged(*nodes: ClusterNode, **said: Any) -> ClusterStatus:
    """Every node with a report has an agent's pod, where nothing else is said."""
    pods = [pod(each.name) for each in nodes if each.report is not None]
    said = {"lease": lease("m-1", ago(seconds=2)), "pods": pods, **said}
    return cluster_status(ClusterFacts("https://c:6443", nodes, **said), NOW)


def only_node(*nodes: ClusterNode, **said: Any) -> NodeStatusRow:
    [row] = judged(*nodes, **said).nodes
    return row
