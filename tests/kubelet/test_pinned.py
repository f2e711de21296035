"""CPUs of their own for containers of a real kubelet, whose own CPU manager does nothing, or all.

The machine has two CPUs: the first is reserved, so the second is the one that can be held alone.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.model.cpus import CpuSet
from tests.kubelet import node_files
from tests.kubelet.node import Node
from tests.kubelet.pod_groups import (
    as_of_api_server,
    container_group,
    groups_below,
    pod_group,
    until,
)
from tests.kubelet.standalone import Standalone

pytestmark = pytest.mark.timeout(3600)

ANNOTATION = "qos.gocrane.io/cpu-manager"
STATE_FILE = node_files.FOLDER / "kubelet" / "cpu_manager_state"
FIRST, SECOND, BOTH = (CpuSet.parse(text) for text in ("0", "1", "0-1"))
SETTINGS = {
    "apiVersion": "slackwater.io/v1",
    "kind": "AgentSettings",
    "spec": {"corePinning": {"enabled": True}},
}
NAME = "alone"
#: Guaranteed, of one whole CPU.
POD = node_files.pod(NAME, node_files.REST, {"limits": {"cpu": "1", "memory": "64Mi"}})
#: With another uid, which is made of its contents: a kubelet that still ends the first one would
#: start it again without admission, that is, without CPUs.
AGAIN = POD | {"metadata": POD["metadata"] | {"labels": {"again": "true"}}}


class PinnedPods:
    """The kubelet's pods, one of which asks for a CPU, and an agent that is told of them."""

    def __init__(self, node: Node, agent: Standalone) -> None:
        self.node, self.agent = node, agent
        node.add_pod(NAME, POD)
        node.await_pods({NAME: None})
        agent.put("settings", SETTINGS)

    @property
    def pod(self) -> dict[str, Any]:
        return self.node.running_pods()[f"{NAME}-node"]

    @property
    def container(self) -> Path:
        return container_group(pod_group(self.node, self.pod), self.pod, "main")

    def ask(self, policy: str) -> None:
        """As `kubectl annotate` would; the others are told as they are. A kubelet that is busy
        or has just started may not answer, or tell of no container yet."""
        until(lambda: self._container_id() != "", self.node.running_pods)
        pods = self.node.running_pods()
        asked = {f"{NAME}-node": {ANNOTATION: policy}}
        told = [as_of_api_server(pod, 0, asked.get(name, {})) for name, pod in pods.items()]
        self.agent.put("pods", *told)

    def allowed(self) -> tuple[CpuSet, set[CpuSet]]:
        """What the container's processes may use, and what everybody else's in the tree may. None
        while they differ, or while the container that the kubelet tells of is being replaced."""
        mine = self._container_id()
        own: set[CpuSet] = set()
        others: set[CpuSet] = set()
        for group in groups_below(self.node.best_effort.parent):
            (own if mine and mine in group.name else others).update(_allowed(group))
        return own.pop() if len(own) == 1 else CpuSet(), others

    def _container_id(self) -> str:
        """Empty where the kubelet tells of none."""
        status = self.node.running_pods().get(f"{NAME}-node", {}).get("status", {})
        listed = status.get("containerStatuses", [])
        told = (each.get("containerID", "") for each in listed if each["name"] == "main")
        return next(told, "").partition("//")[2]

    def explanation(self) -> str:
        return self.agent.explain(f"default/{NAME}-node")

    def await_allowed(self, own: CpuSet, others: CpuSet) -> None:
        def told() -> object:
            return self.allowed(), self.agent.journal()[-10:]

        until(lambda: self.allowed() == (own, {others}), told)


def _allowed(group: Path) -> Iterator[CpuSet]:
    """Of each process of a group; those that end meanwhile do not count, nor does a group that
    goes, which answers ENODEV to whoever has just opened its file."""
    try:
        pids = (group / "cgroup.procs").read_text().split()
    except OSError:
        return
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        [line] = [line for line in status.splitlines() if line.startswith("Cpus_allowed_list:")]
        yield CpuSet.parse(line.split()[1])


@pytest.fixture
def pinned(node: Node, agent: Callable[..., Standalone]) -> PinnedPods:
    return PinnedPods(node, agent())


def test_a_pod_of_a_real_kubelet_has_a_cpu_alone(pinned: PinnedPods) -> None:
    quota = (pinned.container / "cpu.max").read_text()
    pinned.ask("exclusive")
    pinned.agent.start()
    pinned.await_allowed(SECOND, FIRST)
    assert (pinned.container / "cpu.max").read_text() == "max 100000\n"
    if pinned.node.driver == "systemd":
        subprocess.run(["systemctl", "daemon-reload"], check=True, timeout=300)
        assert pinned.allowed() == (SECOND, {FIRST})
        assert f"unit:{pinned.container.name}" in pinned.agent.routes()
    _restart_container(pinned)
    pinned.await_allowed(SECOND, FIRST)
    pinned.ask("share")
    pinned.await_allowed(SECOND, BOTH)
    pinned.ask("none")
    pinned.await_allowed(BOTH, BOTH)
    assert (pinned.container / "cpu.max").read_text() == quota
    pinned.agent.end()
    pinned.agent.release()
    assert pinned.allowed() == (BOTH, {BOTH})


def _restart_container(pinned: PinnedPods) -> None:
    """The kubelet makes another one, in a cgroup of its own, in which it may use any CPU."""
    before = pinned.container
    for pid in (before / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):  # a child goes with its parent
            os.kill(int(pid), signal.SIGKILL)

    def is_another() -> bool:
        status = pinned.node.running_pods().get(f"{NAME}-node", {}).get("status", {})
        [main] = status.get("containerStatuses", [{}])
        return "running" in main.get("state", {}) and main["containerID"][-64:] not in before.name

    until(is_another, pinned.node.running_pods)
    pinned.ask("exclusive")


def test_a_kubelet_that_gives_out_cpus_itself_is_left_alone(pinned: PinnedPods) -> None:
    """Its policy static gives the same pod the same CPU, by itself; nothing of ours is written."""
    node = pinned.node
    config = json.loads(node_files.kubelet_config(node.driver))
    # With a reserved CPU there is room for one pod of a whole one.
    others = [name for name in node_files.PODS if name != "best-effort"]
    node.end_pods(NAME, *others)
    _set_config(node, config | {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"})
    try:
        node.add_pod(NAME, AGAIN)
        node.await_pods({NAME: None})
        until(lambda: pinned.allowed()[0] == SECOND, pinned.allowed)
        pinned.ask("exclusive")
        pinned.agent.start()
        why = "CPU manager has the policy static"
        until(lambda: why in pinned.explanation(), pinned.explanation)
        assert pinned.allowed()[0] == SECOND
        assert not [line for line in pinned.agent.journal() if line["what"].startswith("cpus of")]
        pinned.agent.end()
    finally:
        _set_config(node, config)
        for name in others:
            node.add_pod(name, node_files.PODS[name])
        node.await_pods(node_files.PODS)


def _set_config(node: Node, config: dict[str, Any]) -> None:
    """A kubelet starts with another policy only without the old one's state."""
    node.stop_kubelet()
    node_files.KUBELET_CONFIG.write_text(json.dumps(config))
    STATE_FILE.unlink()
    node.start_kubelet()
    node.await_health()
