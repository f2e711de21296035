"""A rule on a real API server: what its agent does about it is told in events, in the Node's report
and metrics, and by the manager on the object itself."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.agent_process import eventually
from tests.cluster.agent_stage import Stage
from tests.cluster.managers import condition, crew, ensurance, install_kinds, remove_policies
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane

TAINT = "interference.crane.io"


@pytest.fixture
def bed() -> Iterator[Bed]:
    made = Bed(KERNELS[kernel_name()][0], f"cluster-{uuid.uuid4().hex[:8]}")
    yield made
    made.close()


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, bed: Bed, tmp_path: Path) -> Iterator[Stage]:
    install_kinds(control_plane)
    made = Stage(control_plane, namespace, bed, tmp_path)
    yield made
    made.close()
    remove_policies(control_plane)
    control_plane.kubectl("delete", "node", made.node)


def waterline(stage: Stage, strategy: str = "None") -> list[dict[str, Any]]:
    """Memory is always above it; it stops scheduling."""
    rule = {
        "name": "memory",
        "actionName": f"stop-{stage.namespace}",
        "strategy": strategy,
        "metricRule": {"name": "memory_total_usage", "value": 1},
    }
    probe = {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
    selector = {"matchLabels": {"kubernetes.io/hostname": stage.node}}
    return [
        ensurance("AvoidanceAction", f"stop-{stage.namespace}", {"coolDownSeconds": 1}),
        ensurance(
            "NodeQOS",
            f"w-{stage.namespace}",
            {"nodeQualityProbe": probe, "rules": [rule], "selector": selector},
        ),
    ]


def busy_pod(stage: Stage, name: str) -> str:
    """A pod with a busy loop in its cgroups, which asks for next to nothing; its uid."""
    resources = {"requests": {"cpu": "1m"}}
    stage.plane.apply({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": stage.namespace, "labels": {"kind": "batch"}},
        "spec": {
            "nodeName": stage.node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "x", "resources": resources}],
        },
    })  # fmt: skip
    container = uuid.uuid4().hex * 2
    state = {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": 0,
             "containerID": f"containerd://{container}", "state": {"running": {}}}  # fmt: skip
    status = {"status": {"phase": "Running", "containerStatuses": [state]}}
    where = ("-n", stage.namespace)
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    stage.plane.kubectl("patch", "pod", name, *where, *patch)
    uid: str = stage.plane.get("pod", name, *where)["metadata"]["uid"]
    for path in (f"pod{uid}", f"pod{uid}/{container}"):
        stage.bed.make(f"{stage.bed.kubepods}/burstable/{path}")
    stage.bed.burn(f"{stage.bed.kubepods}/burstable/pod{uid}/{container}")
    return uid


def throttling(stage: Stage, metric: str, value: int) -> list[dict[str, Any]]:
    """One rule that throttles the pods of this namespace."""
    action, probe = f"hold-{stage.namespace}", {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
    rule = {
        "name": "load",
        "actionName": action,
        "metricRule": {"name": metric, "value": value},
    }
    cpu = {"cpuThrottle": {"stepCPURatio": 10, "minCPURatio": 10}}
    here = {"scopeName": "Namespace", "operator": "In", "values": [stage.namespace]}
    selector = {"matchLabels": {"kubernetes.io/hostname": stage.node}}
    return [
        ensurance("AvoidanceAction", action, {"coolDownSeconds": 1, "throttle": cpu}),
        ensurance("PodQOS", f"p-{stage.namespace}", {
            "scopeSelector": {"matchExpressions": [here]},
            "allowedActions": [action],
        }),
        ensurance("NodeQOS", f"w-{stage.namespace}",
                  {"nodeQualityProbe": probe, "rules": [rule], "selector": selector}),
    ]  # fmt: skip


def pod_events(stage: Stage, uid: str) -> list[tuple[str, str]]:
    """Reasons and messages about the pod, of its agent."""
    found = stage.plane.get("events", "-n", stage.namespace)["items"]
    return [
        (each["reason"], each["message"])
        for each in found
        if each["involvedObject"].get("uid") == uid and each["source"].get("host") == stage.node
    ]


def taints(stage: Stage) -> list[str]:
    found = stage.plane.get("node", stage.node)["spec"].get("taints", [])
    return [each["key"] for each in found]


def messages(stage: Stage, reason: str) -> list[str]:
    found = stage.events(reason)
    assert {each["involvedObject"]["kind"] for each in found} <= {"Node"}
    return [each["message"] for each in found]


def test_a_rule_from_its_trigger_to_its_end(stage: Stage, tmp_path: Path) -> None:
    stage.label(f"kubernetes.io/hostname={stage.node}")
    agent = stage.start()
    name = f"w-{stage.namespace}"
    stage.plane.apply(*waterline(stage))
    eventually("the taint", lambda: TAINT in taints(stage))
    [told] = eventually("the event", lambda: messages(stage, "AvoidanceTriggered"))
    assert told.startswith(f"{name}/memory triggered action stop-{stage.namespace}: memory_total_")
    assert told.endswith(" > 1, stops scheduling")
    rules = eventually("the report", lambda: stage.report().get("rules"))
    [[active]] = rules.values()
    assert list(rules) == [f"NodeQOS/{name}"]
    assert (active["rule"], active["state"]) == ("memory", "triggered")
    with crew(stage.plane.kubeconfig(), stage.namespace, tmp_path) as managers:
        managers.add()
        eventually("the verdict", lambda: condition(stage.plane, name, "Triggered"))
        assert condition(stage.plane, name, "Enforced")["message"] == "1 node follows it"
        shown = condition(stage.plane, name, "Triggered")
        assert (shown["status"], shown["message"]) == ("True", f"memory on {stage.node}")
    [row] = agent.get("/v1/top")["rules"]
    assert (row["state"], row["did"]) == ("triggered", "stops scheduling")
    stage.plane.kubectl("delete", "nodeqos", name)
    eventually("no taint", lambda: TAINT not in taints(stage))
    [told] = eventually("the event", lambda: messages(stage, "RestoreTriggered"))
    assert told == (
        f"{name}/memory restored action stop-{stage.namespace}: the rule is not followed here any "
        "more"
    )


def test_a_preview_is_told_and_does_nothing(stage: Stage) -> None:
    stage.label(f"kubernetes.io/hostname={stage.node}")
    stage.start()
    stage.plane.apply(*waterline(stage, "Preview"))
    [told] = eventually("the event", lambda: messages(stage, "AvoidanceTriggered"))
    assert told.endswith(" > 1, Preview: nothing is done")
    assert TAINT not in taints(stage)


def test_pods_are_told_what_was_done_to_them_and_that_it_is_over(stage: Stage) -> None:
    """A pod that says it is exempt among them, as the PodQOS overrules it."""
    stage.label(f"kubernetes.io/hostname={stage.node}")
    uid = busy_pod(stage, "encoder")
    stage.plane.kubectl(
        "annotate", "pod", "encoder", "-n", stage.namespace, "slackwater.io/exempt=true"
    )
    stage.start()
    stage.plane.apply(*throttling(stage, "cpu_total_usage", 1))
    eventually("the throttle", lambda: "Throttled" in dict(pod_events(stage, uid)))
    assert "cpu_total_usage" in dict(pod_events(stage, uid))["Throttled"]
    stage.plane.kubectl("delete", "nodeqos", f"w-{stage.namespace}")
    eventually("the restore", lambda: "ThrottleRestored" in dict(pod_events(stage, uid)))
    assert set(dict(pod_events(stage, uid))) <= {"Demoted", "Throttled", "ThrottleRestored"}
    assert eventually("the node's event", lambda: messages(stage, "RestoreTriggered"))


def test_a_rule_that_can_never_trigger_says_so_on_the_object(stage: Stage, tmp_path: Path) -> None:
    stage.label(f"kubernetes.io/hostname={stage.node}")
    stage.start()
    stage.plane.apply(*throttling(stage, "cpu_total_usage", 10**9))
    name = f"w-{stage.namespace}"
    with crew(stage.plane.kubeconfig(), stage.namespace, tmp_path) as managers:
        managers.add()

        def enforced() -> dict[str, Any]:
            found: dict[str, Any] = condition(stage.plane, name, "Enforced")
            return found if found and found["reason"] == "NeverActs" else {}

        shown = eventually("the verdict", enforced)
        assert shown["status"] == "False"
        assert shown["message"].startswith(
            f"1 node follows it; load can do nothing on {stage.node}: it never triggers: "
            "cpu_total_usage is "
        )
