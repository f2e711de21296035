"""QoS ensurance on a real node: the seed's three pairs of manifests do what the seed says.

Verbatim but for the thresholds, which decide here whether a rule is triggered, and the cool-down:
300 s of the seed are 20 s here, so that a test run ends. The tests of this file are one story, told
in their order: each begins where the last one ended.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.installed import Installed
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, Node
from tools.cluster.processes import ClusterError, wait_for

HOME = "avoidance"
MANIFESTS = Path(__file__).parent / "manifests"
COOL_DOWN = 20
#: Thresholds in milliCPU that any machine is above, and that none is.
ALWAYS, NEVER = 1, 1_000_000
TAINT, CONDITION = "interference.crane.io", "interference-identified"
BATCH_LIMIT = 500
#: minCPURatio of the limit.
LOWEST = BATCH_LIMIT * 10 // 100
#: cpu.shares of the lowest weight.
SMALLEST_SHARES = 2
POLICIES = {"disablescheduling": "waterline1", "throttle": "waterline2", "eviction": "waterline3"}
_RULES = "objectiveEnsurances"


def objects() -> dict[str, dict[str, Any]]:
    """The seed's, by name."""
    files = [*MANIFESTS.glob("*-action.yaml"), *MANIFESTS.glob("*-policy.yaml")]
    listed = [yaml.safe_load(file.read_text()) for file in files]
    found = {each["metadata"]["name"]: each for each in listed}
    for each in found.values():
        if each["kind"] == "AvoidanceAction":
            each["spec"]["coolDownSeconds"] = COOL_DOWN
    return found


def workload(name: str, script: str, resources: dict[str, Any]) -> dict[str, Any]:
    """A Deployment whose priority class has its name."""
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": resources,
    }
    spec = {
        "containers": [container],
        "priorityClassName": name,
        "terminationGracePeriodSeconds": 0,
        # The story's own taint must not keep the evicted pod's successor away.
        "tolerations": [{"operator": "Exists"}],
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def priority_class(name: str, value: int) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": {"name": name}, "value": value}


class Story:
    """Guards what the tests set and look at."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.plane = installed.plane
        self.objects = objects()

    def set_rule(self, action: str, threshold: int, strategy: str = "None") -> None:
        """Applies an action and its policy."""
        policy = copy.deepcopy(self.objects[POLICIES[action]])
        [rule] = policy["spec"][_RULES]
        rule["strategy"] = strategy
        rule["metricRule"]["value"] = threshold
        self.plane.apply(self.objects[action])
        self.plane.apply(policy)

    def pod(self, app: str) -> dict[str, Any]:
        """The one that is not on its way out."""
        listed = self.plane.get("pods", "-n", HOME, "-l", f"app={app}")["items"]
        [found] = [each for each in listed if "deletionTimestamp" not in each["metadata"]]
        return dict(found)

    def container(self, app: str) -> str:
        """Its cgroup, below the node's root."""
        pod = self.pod(app)
        identity = pod["status"]["containerStatuses"][0]["containerID"].partition("//")[2]
        return f"{self.pod_group(app)}/{identity}"

    def pod_group(self, app: str) -> str:
        return f"kubepods/burstable/pod{self.pod(app)['metadata']['uid']}"

    def quota(self, app: str) -> int | None:
        return self.installed.quota(self.container(app))

    def await_quota(self, what: str, app: str, milli: int) -> None:
        try:
            wait_for(what, lambda: self.quota(app) == milli)
        except ClusterError as error:
            said = self.installed.agent("explain", self.pod(app)["metadata"]["name"])
            raise AssertionError(f"{error}; it is {self.quota(app)} m: {said}") from error

    def shares(self, app: str) -> int:
        return int((self._group(self.pod_group(app)) / "cpu.shares").read_text())

    def is_idle(self, app: str) -> bool:
        file = self._group(self.pod_group(app)) / "cpu.idle"
        return file.exists() and file.read_text().strip() == "1"

    def _group(self, path: str) -> Path:
        return self.installed.node.cgroup("cpu", path)

    def knobs(self) -> dict[str, str]:
        """Every CPU knob of the node's pods, as the kernel has it."""
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpu.idle")
        top = self._group("kubepods/burstable")
        return {
            str(file.relative_to(top)): file.read_text().strip()
            for name in names
            for file in top.rglob(name)
            if HOME in file.parts or file.parent != top
        }

    def node_object(self) -> dict[str, Any]:
        return dict(self.plane.get("node", self.installed.node.name))

    def taints(self) -> dict[str, str]:
        return {
            each["key"]: each["effect"] for each in self.node_object()["spec"].get("taints", [])
        }

    def condition(self) -> str:
        found = self.node_object()["status"]["conditions"]
        return next((each["status"] for each in found if each["type"] == CONDITION), "")

    def rule(self, action: str) -> dict[str, Any]:
        """As explain has it."""
        said = json.loads(self.installed.agent("explain", self.installed.node.name, "-o", "json"))
        rows = said["items"] if isinstance(said, dict) else said
        rules = (each for row in rows for each in row.get("rules", ()))
        return next((each for each in rules if each["action"] == action), {})


@pytest.fixture(scope="module")
def story(control_plane: ControlPlane, node: Node) -> Iterator[Story]:
    control_plane.kubectl("create", "namespace", HOME)
    control_plane.await_service_account(HOME)
    installed = Installed(control_plane, node)
    installed.open()
    cpu = {"requests": {"cpu": "20m"}, "limits": {"cpu": f"{BATCH_LIMIT}m"}}
    made = Story(installed)
    try:
        for each in (priority_class("service", 1000), priority_class("batch", -10)):
            control_plane.apply(each)
        control_plane.apply(workload("service", "while :; do sleep 1; done", cpu))
        control_plane.apply(workload("batch", "while :; do :; done", cpu))
        for name in ("service", "batch"):
            control_plane.kubectl("rollout", "status", "-n", HOME, f"deployment/{name}")
        yield made
    finally:
        kinds = "avoidanceactions,nodeqosensurancepolicies,podqoss"
        control_plane.kubectl("delete", kinds, "--all", "--ignore-not-found")
        installed.close()
        control_plane.kubectl("delete", "priorityclass", "service", "batch", "--ignore-not-found")
        control_plane.kubectl("delete", "namespace", HOME, "--wait=false")


def test_preview_tells_and_changes_nothing(story: Story) -> None:
    """The seed's third pair as it is: its strategy is Preview."""
    before, node = story.knobs(), story.node_object()
    pods = {app: story.pod(app)["metadata"]["resourceVersion"] for app in ("service", "batch")}
    story.set_rule("eviction", ALWAYS, "Preview")
    events = wait_for("the event", lambda: story.installed.events("AvoidanceTriggered"))
    assert "waterline3/cpu-usage" in events[0]["message"]
    assert story.rule("eviction").get("preview") is True
    assert {app: story.pod(app)["metadata"]["resourceVersion"] for app in pods} == pods
    assert story.knobs() == before
    assert story.node_object()["spec"] == node["spec"]
    assert story.condition() == ""
    story.set_rule("eviction", NEVER, "Preview")


def test_above_the_waterline_the_node_is_tainted(story: Story) -> None:
    others = story.taints()
    story.set_rule("disablescheduling", ALWAYS)
    wait_for("the taint", lambda: TAINT in story.taints())
    assert story.taints() == {**others, TAINT: "PreferNoSchedule"}
    wait_for("the condition", lambda: story.condition() == "True")


def test_low_priority_pods_are_throttled_to_the_minimum(story: Story) -> None:
    assert story.quota("batch") == BATCH_LIMIT
    story.set_rule("throttle", ALWAYS)
    story.await_quota("the minimum", "batch", LOWEST)
    assert story.shares("batch") == SMALLEST_SHARES or story.is_idle("batch")
    assert story.quota("service") == BATCH_LIMIT
    assert story.shares("service") > SMALLEST_SHARES


def test_the_policy_objects_say_that_they_are_enforced_and_where(story: Story) -> None:
    def conditions() -> dict[str, str]:
        found = story.plane.get("nodeqosensurancepolicies", POLICIES["throttle"])
        listed = found.get("status", {}).get("conditions", [])
        return {each["type"]: each["status"] for each in listed}

    wait_for("Enforced", lambda: conditions().get("Enforced") == "True")
    wait_for("Triggered", lambda: conditions().get("Triggered") == "True")


def test_a_low_priority_pod_is_evicted_and_replaced(story: Story) -> None:
    """Only what a PodQOS allows: without one, more pods of this cluster would be low enough."""
    spec = {
        "allowedActions": ["eviction", "throttle"],
        "labelSelector": {"matchLabels": {"app": "batch"}},
    }
    head = {"apiVersion": "ensurance.crane.io/v1alpha1", "kind": "PodQOS"}
    story.plane.apply({**head, "metadata": {"name": "batch"}, "spec": spec})
    gone, stays = story.pod("batch")["metadata"]["uid"], story.pod("service")["metadata"]["uid"]
    story.set_rule("eviction", ALWAYS)

    def is_replaced() -> bool:
        listed = story.plane.get("pods", "-n", HOME, "-l", "app=batch")["items"]
        uids = [each["metadata"]["uid"] for each in listed]
        return gone not in uids and bool(uids)

    wait_for("another pod in its place", is_replaced)
    story.set_rule("eviction", NEVER)
    assert story.pod("service")["metadata"]["uid"] == stays


def test_below_the_waterline_everything_is_undone_after_the_cool_down(story: Story) -> None:
    story.plane.kubectl("rollout", "status", "-n", HOME, "deployment/batch")
    story.await_quota("the successor's throttle", "batch", LOWEST)
    for action in ("disablescheduling", "throttle"):
        story.set_rule(action, NEVER)
    wait_for("the cool-down", lambda: story.rule("throttle").get("state") == "cooling")
    assert TAINT in story.taints()
    assert story.quota("batch") == LOWEST
    wait_for("the taint to go", lambda: TAINT not in story.taints())
    wait_for("the condition to end", lambda: story.condition() != "True")
    story.await_quota("the limit back", "batch", BATCH_LIMIT)
    wait_for("the weight back", lambda: story.shares("batch") > SMALLEST_SHARES)
    assert not story.is_idle("batch")
    restored = wait_for("the event", lambda: story.installed.events("RestoreTriggered"))
    assert any("waterline2/cpu-usage" in each["message"] for each in restored)
    assert story.installed.restarts() == 0
