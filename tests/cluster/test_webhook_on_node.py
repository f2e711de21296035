"""Amplified CPUs on a real node: its kubelet states true amounts, the scheduler fills more.

The tests of this file are one story, told in their order: each begins where the last one ended.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.koordinator.amplification import RECORD_ANNOTATION
from slackwater.contract.koordinator.normalization import RAW_ALLOCATABLE_ANNOTATION
from slackwater.model.units import parse_milli_cpu
from tests.cluster.managers import Crew, ManagerProcess, crew, received_at
from tests.cluster.webhook_bed import RATIO, install_webhook, remove_webhook, start_manager
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, Node
from tools.cluster.processes import free_ports, wait_for


class AmplifiedNode:
    """The real node, beside a manager that may be killed."""

    def __init__(self, plane: ControlPlane, node: Node, replicas: Crew, port: int) -> None:
        self.plane, self.name = plane, node.name
        self._replicas, self._port = replicas, port
        self.true = self.cpu()
        self.manager: ManagerProcess = start_manager(replicas, port)

    def read(self) -> dict[str, Any]:
        return self.plane.get("node", self.name)

    def cpu(self) -> int:
        return parse_milli_cpu(self.read()["status"]["allocatable"]["cpu"])

    def set_ratio(self, ratio: str) -> None:
        self.plane.kubectl("annotate", "node", self.name, "--overwrite", f"{RATIO}{ratio}")

    def restart(self) -> None:
        self.manager = start_manager(self._replicas, self._port)

    def kubelet_writes(self) -> list[float]:
        """When its kubelet wrote its status."""
        return [
            received_at(line)
            for line in self.plane.audit()
            # An API server that has just begun refuses some whom it cannot name yet.
            if line["user"].get("username") == f"system:node:{self.name}"
            and line["objectRef"].get("subresource") == "status"
            and line["objectRef"]["resource"] == "nodes"
        ]

    def await_kubelet(self, writes: int = 2) -> None:
        """The first of them may have begun before."""
        before = len(self.kubelet_writes())
        wait_for("the kubelet's writes", lambda: len(self.kubelet_writes()) >= before + writes)


@pytest.fixture(scope="module")
def amplified(
    control_plane: ControlPlane, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AmplifiedNode]:
    [port] = free_ports(1)
    rights: Path = install_webhook(control_plane, port)
    try:
        with crew(rights, NAMESPACE, tmp_path_factory.mktemp("managers")) as replicas:
            yield AmplifiedNode(control_plane, node, replicas, port)
    finally:
        remove_webhook(control_plane)


def test_what_its_kubelet_states_stays_amplified(amplified: AmplifiedNode) -> None:
    amplified.set_ratio('={"cpu":2.00}')
    wait_for("twice the CPU", lambda: amplified.cpu() == 2 * amplified.true)
    amplified.await_kubelet()
    assert amplified.cpu() == 2 * amplified.true
    annotations = amplified.read()["metadata"]["annotations"]
    raw = json.loads(annotations[RAW_ALLOCATABLE_ANNOTATION])
    assert parse_milli_cpu(raw["cpu"]) == amplified.true
    assert json.loads(annotations[RECORD_ANNOTATION])["cpu"]["kubelet"] is True


def test_the_scheduler_and_the_kubelet_take_a_pod_larger_than_the_machine(
    amplified: AmplifiedNode, namespace: str
) -> None:
    asked = f"{amplified.true + 200}m"
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["true"],
        "resources": {"requests": {"cpu": asked}},
    }
    amplified.plane.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "large", "namespace": namespace},
            "spec": {
                "restartPolicy": "Never",
                "tolerations": [{"operator": "Exists"}],
                "containers": [container],
            },
        }
    )

    def phase() -> str:
        return str(amplified.plane.get("pod", "large", "-n", namespace)["status"]["phase"])

    wait_for("the pod to have run", lambda: phase() == "Succeeded")


def test_without_a_manager_it_stays_ready_and_has_its_true_cpus(amplified: AmplifiedNode) -> None:
    amplified.manager.kill()
    amplified.await_kubelet()
    assert amplified.cpu() == amplified.true
    conditions = amplified.read()["status"]["conditions"]
    assert [each["status"] for each in conditions if each["type"] == "Ready"] == ["True"]
    amplified.restart()
    wait_for("twice the CPU", lambda: amplified.cpu() == 2 * amplified.true)


def test_without_a_ratio_nothing_is_left(amplified: AmplifiedNode) -> None:
    amplified.set_ratio("-")
    wait_for("its true CPUs", lambda: amplified.cpu() == amplified.true)
    amplified.await_kubelet()
    assert amplified.cpu() == amplified.true
    assert not {RATIO, RAW_ALLOCATABLE_ANNOTATION, RECORD_ANNOTATION} & set(
        amplified.read()["metadata"]["annotations"]
    )
