"""Quotas at a container's first instruction on cgroup v2: a real kubelet, containerd with NRI.

The kubelet runs static pods alone here: the agent is told of one with the kubelet's uid, and its
containers start again.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from tests.kubelet import node_files
from tests.kubelet.node import Node
from tests.kubelet.pod_groups import as_of_api_server, container_group, pod_group, until
from tests.kubelet.standalone import Standalone

pytestmark = pytest.mark.timeout(3600)

NAME = "divided"
OWN, POD_S = "own", "pods"
#: 200m of its own, and the pod's 400m for the one that states none: as the kubelet asks for them,
#: and divided by the ratio into whole percents, which runc with systemd keeps as they are.
ASKED = {OWN: "20000 100000", POD_S: "40000 100000"}
DIVIDED = {OWN: "16000 100000", POD_S: "32000 100000"}
OBJECTS = (
    {
        "apiVersion": "slackwater.io/v1",
        "kind": "AgentSettings",
        "spec": {"agent": {"interceptStarts": True}},
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node", "annotations": {RATIO_ANNOTATION: "1.25"}},
        "status": {"allocatable": {"cpu": "2"}},
    },
)


def divided_pod() -> dict[str, Any]:
    """Its containers tell by their logs what they see first."""
    first = f"cat /sys/fs/cgroup/cpu.max; {node_files.REST}"
    pod = node_files.pod(NAME, first, {"requests": {"cpu": "10m"}, "limits": {"cpu": "200m"}})
    [main] = pod["spec"]["containers"]
    pod["spec"]["containers"] = [{**main, "name": OWN}, {**main, "name": POD_S, "resources": {}}]
    pod["spec"]["resources"] = {"requests": {"cpu": "20m"}, "limits": {"cpu": "400m"}}
    return pod


class Starts:
    """One pod: its groups, and what its containers saw at each of their starts."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.add_pod(NAME, divided_pod())
        node.await_pods({NAME: None})

    @property
    def pod(self) -> dict[str, Any]:
        return self._node.running_pods()[f"{NAME}-node"]

    def quotas(self) -> dict[str, str]:
        """Without a container whose group is not there: for some seconds the kubelet tells of those
        that ended."""
        pod, found = self.pod, {}
        for each in ASKED:
            with contextlib.suppress(ValueError, FileNotFoundError):
                file = container_group(pod_group(self._node, pod), pod, each) / "cpu.max"
                found[each] = file.read_text().strip()
        return found

    def first_seen(self, start: int) -> dict[str, str]:
        """Of those that started so often; a log's line is its time, stream, flag and text."""
        pods = node_files.LOGS / f"default_{NAME}-node_{self.pod['metadata']['uid']}"
        logs = {each: pods / each / f"{start}.log" for each in ASKED}
        lines = {each: log.read_text() for each, log in logs.items() if log.exists()}
        return {each: line.split(maxsplit=3)[3].strip() for each, line in lines.items() if line}

    def end_containers(self) -> None:
        """The kubelet starts others."""
        pod = self.pod
        for each in ASKED:
            group = container_group(pod_group(self._node, pod), pod, each)
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):  # a child goes with its parent
                    os.kill(int(pid), signal.SIGKILL)


def test_a_container_has_its_share_at_its_first_instruction(
    node: Node, agent: Callable[..., Standalone]
) -> None:
    starts = Starts(node)
    until(lambda: starts.first_seen(0) == ASKED, lambda: starts.first_seen(0))
    standalone = agent()
    standalone.put("settings", *OBJECTS)
    standalone.put("pods", as_of_api_server(starts.pod, 0, {}))
    standalone.start()

    def intercepts() -> bool:
        told = [line for line in standalone.journal() if line["what"] == "container starts"]
        return bool(told) and told[-1]["because"].startswith("NRI: containerd")

    until(intercepts, standalone.journal)
    until(lambda: starts.quotas() == DIVIDED, starts.quotas)
    starts.end_containers()
    until(lambda: starts.first_seen(1).keys() == ASKED.keys(), lambda: starts.first_seen(1))
    assert starts.first_seen(1) == DIVIDED
    standalone.end()
    standalone.release()
    until(lambda: starts.quotas().keys() == ASKED.keys(), starts.quotas)
    assert starts.quotas() == ASKED
