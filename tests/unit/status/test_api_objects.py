"""Which fields of large objects are kept, and odd ones among them."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.node_report import ActiveRule, NodeReport, RulesReport
from slackwater.kube.lease import LeaseSpec
from slackwater.model.gap import Gap
from slackwater.model.units import Bytes, MilliCpu
from slackwater.status.api_objects import (
    AgentPod,
    ClusterNode,
    JudgedPolicy,
    read_agent_pod,
    read_judged_policy,
    read_lease,
    read_node,
)
from tests.unit.status.reported import lease


def raw(value: Any) -> bytes:
    return msgspec.json.encode(value)


NODE = {
    "metadata": {
        "name": "n1",
        "labels": {"pool": "web"},
        "annotations": {"slackwater.io/report": "{}", "other": "x"},
    },
    "status": {
        "allocatable": {"cpu": "3920m", "memory": "1Gi"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
            {
                "type": "SlackwaterActing", "status": "True",
                "lastHeartbeatTime": "2026-11-17T10:00:00Z",
                "reason": "Acting", "message": "values are held",
            },
        ],
        "images": [{"names": ["a", "b"]}],
    },
}  # fmt: skip


def test_a_node() -> None:
    heard = "2026-11-17T10:00:00Z"
    said = ("Acting", "values are held")
    found = read_node(raw(NODE))
    assert found == ClusterNode(
        "n1",
        {"pool": "web"},
        MilliCpu(3920),
        "{}",
        heard,
        *said,
        RulesReport(),
        allocatable_memory=Bytes(1 << 30),
    )
    facts = found.facts(Gap("no topology"))
    assert facts.allocatable == {"cpu": 3920, "memory": 1 << 30}


def test_of_a_nodes_annotations_those_of_normalization_are_kept() -> None:
    stated = {"node.koordinator.sh/cpu-normalization-ratio": "1.20", "other": "x"}
    node = {"metadata": {"name": "n1", "annotations": stated}}
    found = read_node(raw(node))
    assert found.annotations == {"node.koordinator.sh/cpu-normalization-ratio": "1.20"}
    assert found.facts(Gap("")).allocatable == {}
    odd = {"metadata": {"name": "n1"}, "status": {"allocatable": {"memory": "lots"}}}
    assert read_node(raw(odd)).allocatable_memory is None


@pytest.mark.parametrize("cpu", ["many", "", "1e99", None, 2, 0.5])
def test_a_node_that_says_little_or_odd_things(cpu: Any) -> None:
    amounts = {} if cpu is None else {"cpu": cpu}
    found = read_node(raw({"metadata": {"name": "n1"}, "status": {"allocatable": amounts}}))
    assert found.allocatable == {2: 2000, 0.5: 500}.get(cpu)
    assert (found.report, found.heard, found.labels) == (None, None, {})
    assert (found.reason, found.message, found.rules) == ("", "", None)


def test_labels_that_nodes_share_are_kept_once() -> None:
    one, other = (read_node(raw(NODE)) for _ in range(2))
    assert next(iter(one.labels)) is next(iter(other.labels))
    assert one.labels["pool"] is other.labels["pool"]


def test_of_rules_only_what_the_manager_needs_is_kept() -> None:
    report = NodeReport(
        policies={"best_effort_share": "", "watermark_relief": ""},
        rules={"NodeQOS/a": (ActiveRule("cpu", "triggered"),), "NodeQOS/b": ()},
    )
    metadata = {"name": "n1", "annotations": {"slackwater.io/report": report.text()}}
    found = read_node(raw({"metadata": metadata}))
    assert found.rules == RulesReport({"watermark_relief": "on"}, dict(report.rules))
    odd = {"name": "n1", "annotations": {"slackwater.io/report": "odd"}}
    assert read_node(raw({"metadata": odd})).rules is None


@pytest.mark.parametrize("value", [{}, {"metadata": {}}, {"metadata": {"name": "n", "labels": 7}}])
def test_what_is_no_node(value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_node(raw(value))


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
LOG = "starting\n\n  Error: no   settings \n"


def container(**said: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"running": {}}}, said]}


def waiting(reason: str, message: str = "", **said: Any) -> dict[str, Any]:
    return container(state={"waiting": {"reason": reason, "message": message}}, **said)


@pytest.mark.parametrize(
    ("status", "trouble", "fails"),
    [
        ({"phase": "Running", **READY}, "", False),
        ({**READY, **container(restartCount=3)}, "", False),
        (
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
            "it runs, but gives its probe no good answer", False,
        ),
        ({"phase": "Pending"}, "Pending", False),
        ({}, "not ready", False),
        (waiting("ContainerCreating"), "ContainerCreating", False),
        (waiting("PodInitializing"), "PodInitializing", False),
        (waiting("CrashLoopBackOff"), "CrashLoopBackOff", True),
        (
            waiting("CrashLoopBackOff", "back-off 10s", lastState={"terminated": {"exitCode": 2}}),
            "CrashLoopBackOff: exit code 2", True,
        ),
        (
            waiting(
                "CrashLoopBackOff", "back-off",
                lastState={"terminated": {"exitCode": 1, "message": LOG}},
            ),
            "CrashLoopBackOff: Error: no settings", True,
        ),
        (waiting("ErrImagePull", "not\tfound"), "ErrImagePull: not found", True),
        (waiting("ImagePullBackOff", "x" * 999), f"ImagePullBackOff: {'x' * 379}...", True),
        (
            waiting("RunContainerError", "word " * 99), f"RunContainerError: {'word ' * 74}word...",
            True,
        ),
        (waiting("CreateContainerError", "no such mount"), "CreateContainerError: no such mount",
         True),
        ({"initContainerStatuses": waiting("RunContainerError")["containerStatuses"]},
         "RunContainerError", True),
        (
            container(restartCount=1, lastState={"terminated": {"exitCode": 1, "reason": "Error"}}),
            "restarted 1 time (Error): exit code 1", True,
        ),
        (
            container(restartCount=2, lastState={"terminated": {"exitCode": 137}}),
            "restarted 2 times: exit code 137", True,
        ),
        (container(state={"terminated": {"exitCode": 1}}), "ended: exit code 1", True),
        ({"phase": "Succeeded", **container(state={"terminated": {"exitCode": 0}})}, "Succeeded",
         False),
    ],
)  # fmt: skip
def test_an_agents_pod(status: Any, trouble: str, fails: bool) -> None:
    value = {
        "metadata": {"name": "a", "namespace": "s", "creationTimestamp": "2026-11-17T10:00:00Z"},
        "spec": {"nodeName": "n1"},
        "status": status,
    }
    found = read_agent_pod(raw(value))
    assert found == AgentPod("a", "s", "n1", "2026-11-17T10:00:00Z", trouble, fails)


def test_an_agents_pod_that_ends() -> None:
    meta = {"name": "a", "deletionTimestamp": "2026-11-17T10:00:30Z"}
    found = read_agent_pod(raw({"metadata": meta, "status": READY}))
    assert (found.ends, found.trouble) == ("2026-11-17T10:00:30Z", "")


def test_a_judged_policy_of_an_older_generation_is_not_judged() -> None:
    status = {
        "observedGeneration": 1, "summary": "throttles", "nodes": 3,
        "conditions": [
            {
                "type": "Valid", "status": "True", "reason": "Valid", "message": "",
                "lastTransitionTime": "2026-11-17T10:00:00Z",
            }
        ],
    }  # fmt: skip
    for generation, judged in ((1, True), (2, False)):
        value = {"metadata": {"name": "w", "generation": generation}, "status": status}
        found = read_judged_policy(raw(value), "NodeQOS")
        assert (found.kind, found.status.nodes, found.status.summary) == ("NodeQOS", 3, "throttles")
        assert (found.condition("Valid") is not None) is judged


@pytest.mark.parametrize("status", [None, [], {"nodes": "three"}, {"conditions": [{}]}])
def test_a_status_that_is_not_ours_is_none(status: Any) -> None:
    found = read_judged_policy(raw({"metadata": {"name": "w"}, "status": status}), "NodeQOS")
    assert found == JudgedPolicy("NodeQOS", "w")


def test_leases() -> None:
    spec = {
        "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-11-17T10:00:00.1Z",
    }  # fmt: skip
    assert read_lease(raw({"spec": spec})) == lease("me", "2026-11-17T10:00:00.1Z")
    assert read_lease(raw({"spec": {"holderIdentity": None}})) == LeaseSpec()
    assert read_lease(raw({})) == LeaseSpec()
