"""A pod that is annotated with kubectl has a CPU to itself, on a real node of two CPUs.

The first CPU is reserved, so on a machine of two the second is the one that can be held alone. The
tests of this file are one story, told in their order.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from slackwater.model.cpus import CpuSet
from tests.cluster.installed import Installed
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, REST, Node
from tools.cluster.processes import ClusterError, wait_for

HOME = "pinned"
ANNOTATION = "qos.gocrane.io/cpu-manager"
EVERY = CpuSet.of(os.sched_getaffinity(0))
#: One CPU and some memory, request and limit alike.
WHOLE = {"limits": {"cpu": "1", "memory": "32Mi"}}


def pod(name: str, resources: dict[str, Any]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", REST],
        "resources": resources,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


class PinnedStory:
    """Guards what the tests do and look at."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.plane, self.node = installed.plane, installed.node

    def start(self, name: str, resources: dict[str, Any]) -> None:
        self.plane.apply(pod(name, resources))
        self.plane.kubectl("wait", "-n", HOME, "--for=condition=Ready", "--timeout=300s",
                           f"pod/{name}")  # fmt: skip

    def annotate(self, policy: str) -> None:
        self.plane.kubectl("annotate", "-n", HOME, "pod/alone", "--overwrite",
                           f"{ANNOTATION}={policy}")  # fmt: skip

    def container(self) -> str:
        """The end of its group's path."""
        status = self.plane.get("pod", "alone", "-n", HOME)["status"]
        return str(status["containerStatuses"][0]["containerID"].partition("//")[2])

    def allowed(self) -> tuple[set[CpuSet], CpuSet]:
        """What the pod's own processes may use, and together all others of the node's pods."""
        mine = self.container()
        own: set[CpuSet] = set()
        others = 0
        for file in self.node.cgroup("cpuset", "kubepods").rglob("cgroup.procs"):
            for pid in file.read_text().split():
                cpus = _allowed(pid)
                if file.parent.name == mine:
                    own |= {cpus}
                else:
                    others |= cpus.mask
        return own, CpuSet(others)

    def await_allowed(self, what: str, own: CpuSet, others: CpuSet) -> None:
        try:
            wait_for(what, lambda: self.allowed() == ({own}, others))
        except ClusterError as error:
            said = self.installed.agent("explain", "alone")
            raise AssertionError(f"{error}; it is {self.allowed()}: {said}") from error


def _allowed(pid: str) -> CpuSet:
    """Nothing of a process that ended meanwhile."""
    try:
        with open(f"/proc/{pid}/status") as status:
            line = next(line for line in status if line.startswith("Cpus_allowed_list:"))
    except (FileNotFoundError, ProcessLookupError):
        return CpuSet()
    return CpuSet.parse(line.split()[1])


@pytest.fixture(scope="module")
def story(control_plane: ControlPlane, node: Node) -> Iterator[PinnedStory]:
    control_plane.kubectl("create", "namespace", HOME)
    control_plane.await_service_account(HOME)
    installed = Installed(control_plane, node)
    installed.open("agent.settings.corePinning.enabled=true")
    made = PinnedStory(installed)
    try:
        made.start("alone", WHOLE)
        made.start("other", {"requests": {"cpu": "10m"}})
        yield made
    finally:
        installed.close()
        control_plane.kubectl("delete", "namespace", HOME, "--wait=false")


def test_doctor_in_the_pod_knows_the_kubelets_cpu_manager(story: PinnedStory) -> None:
    """From the configuration that the chart shows it: the state file is out of its sight."""
    told = json.loads(story.installed.agent("doctor", "-o", "json"))
    assert told["cpuManager"]["policy"] == "none"
    assert told["cpuManager"]["source"] == "its configuration"
    assert told["cpuManager"]["reserved"] == "0"


def test_exclusive_nobody_else_on_its_cpu(story: PinnedStory) -> None:
    assert story.allowed() == ({EVERY}, EVERY)
    story.annotate("exclusive")
    wait_for("one CPU", lambda: {len(each) for each in story.allowed()[0]} == {1})
    [own] = story.allowed()[0]
    assert 0 not in own
    story.await_allowed("the others off it", own, EVERY - own)


def test_the_map_of_the_nodes_agent(story: PinnedStory) -> None:
    """By the command in its pod, and by nobody over the network."""
    [own] = story.allowed()[0]
    told = json.loads(story.installed.agent("cpus", "-o", "json"))
    holders = {row["cpu"]: row["exclusive"] for row in told["cpus"]}
    assert holders == {cpu: f"{HOME}/alone/main" if cpu in own else None for cpu in EVERY}
    address = story.installed.pod["status"]["podIP"]
    assert story.node.get(f"http://{address}:10480/metrics")
    with pytest.raises(ClusterError, match="404"):
        story.node.get(f"http://{address}:10480/v1/cpus")


def test_a_pod_that_comes_meanwhile_is_kept_off(story: PinnedStory) -> None:
    [own] = story.allowed()[0]
    story.start("late", {})
    story.await_allowed("the new pod off it", own, EVERY - own)


def test_share_then_none(story: PinnedStory) -> None:
    [own] = story.allowed()[0]
    story.annotate("share")
    story.await_allowed("others on it again", own, EVERY)
    story.annotate("none")
    story.await_allowed("every CPU again", EVERY, EVERY)
    assert story.installed.restarts() == 0
