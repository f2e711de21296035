"""The bed's real node: pods in real cgroups, reached as in any cluster, and nothing left of it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, Node
from tools.cluster.processes import ClusterError, wait_for
from tools.kubernetes.image import busybox_image

QUOTA_MICROSECONDS = 20_000
SERVE = "mkdir -p /www; echo here >/www/index.html; busybox httpd -f -p 8080 -h /www"


def pod(namespace: str, name: str, script: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def await_running(plane: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    plane.kubectl("wait", "-n", namespace, "--for=condition=Ready", f"pod/{name}", "--timeout=300s")
    return plane.get("pod", name, "-n", namespace)


def test_the_node_is_ready_and_reached_on_loopback(control_plane: ControlPlane, node: Node) -> None:
    status = control_plane.get("node", node.name)["status"]
    assert status["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert node.is_ready()
    assert node.is_healthy()


@pytest.mark.parametrize(
    ("tier", "resources", "below"),
    [
        ("BestEffort", {}, "kubepods/besteffort"),
        (
            "Burstable",
            {"requests": {"cpu": "50m"}, "limits": {"cpu": "200m"}},
            "kubepods/burstable",
        ),
        ("Guaranteed", {"limits": {"cpu": "200m", "memory": "32Mi"}}, "kubepods"),
    ],
)
def test_a_pod_runs_in_the_cgroup_of_its_tier(
    tier: str,
    resources: dict[str, Any],
    below: str,
    control_plane: ControlPlane,
    node: Node,
    namespace: str,
) -> None:
    container = {"resources": resources}
    control_plane.apply(pod(namespace, "p", "echo begun; sleep 1000", container=container))
    found = await_running(control_plane, namespace, "p")
    assert found["status"]["qosClass"] == tier
    folder = node.cgroup("cpu", f"{below}/pod{found['metadata']['uid']}")
    identity = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    assert (folder / identity / "cgroup.procs").read_text().split()
    if resources and node.cgroup("cpu").joinpath("cpu.shares").exists():
        assert int((folder / "cpu.cfs_quota_us").read_text()) == QUOTA_MICROSECONDS


def test_logs_exec_and_pods_addresses_work(
    control_plane: ControlPlane, node: Node, namespace: str
) -> None:
    control_plane.apply(pod(namespace, "web", f"echo begun; {SERVE}"))
    found = await_running(control_plane, namespace, "web")
    said = control_plane.kubectl("exec", "-n", namespace, "web", "--", "echo", "from inside")
    assert said == "from inside\n"
    assert control_plane.kubectl("logs", "-n", namespace, "web") == "begun\n"
    url = f"http://{found['status']['podIP']}:8080/index.html"
    assert wait_for("the pod's server", lambda: answer_of(node, url)) == b"here\n"


def answer_of(node: Node, url: str) -> bytes:
    try:
        return node.get(url)
    except ClusterError:
        return b""


def test_a_pod_reaches_the_api_server_by_its_service_address(
    control_plane: ControlPlane, node: Node, namespace: str
) -> None:
    call = "busybox nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null"
    control_plane.apply(pod(namespace, "caller", f"{call} && echo reached; sleep 1000"))
    await_running(control_plane, namespace, "caller")
    told = wait_for("its word", lambda: control_plane.kubectl("logs", "-n", namespace, "caller"))
    assert told == "reached\n"


def test_images_can_be_added(
    control_plane: ControlPlane, node: Node, namespace: str, tmp_path: Path
) -> None:
    busybox = Path(node.run("which", "busybox").strip()).read_bytes()
    archive = tmp_path / "image.tar"
    archive.write_bytes(busybox_image("localhost/own:2", busybox, ("sh", "-c", "sleep 1000")))
    node.import_image(archive)
    container = {"image": "localhost/own:2"}
    control_plane.apply(pod(namespace, "own", "sleep 1000", container=container))
    assert await_running(control_plane, namespace, "own")["status"]["phase"] == "Running"


def test_pods_survive_a_restart_of_the_kubelet(
    control_plane: ControlPlane, node: Node, namespace: str
) -> None:
    control_plane.apply(pod(namespace, "steady", "sleep 1000"))
    before = await_running(control_plane, namespace, "steady")
    node.restart_kubelet()
    node.await_ready()
    after = await_running(control_plane, namespace, "steady")
    started = [p["status"]["containerStatuses"][0]["containerID"] for p in (before, after)]
    assert started[0] == started[1]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.parametrize(
    ("setting", "wanted"), [("vm/overcommit_memory", "1"), ("kernel/panic", "10")]
)
def test_the_machines_own_settings_stay(node: Node, setting: str, wanted: str) -> None:
    """A kubelet sets these for the whole machine; here it has set a file of ours."""
    assert node.run("cat", f"/proc/sys/{setting}").strip() == wanted
    assert (node.folder / "sysctl" / setting).read_text().strip() == wanted


def test_nothing_is_left_of_a_closed_node(
    control_plane: ControlPlane, node: Node, namespace: str
) -> None:
    """A second node beside the first, with a pod of its own on it."""
    other = Node(control_plane, node.programs, "other")
    try:
        other.open()
        control_plane.apply(pod(namespace, "p", "sleep 1000", nodeName="other"))
        await_running(control_plane, namespace, "p")
        roots = [Path(mount.point, other.cgroup_root) for mount in other.mounts]
        assert all(root.is_dir() for root in roots)
        first = other.pid
    finally:
        other.close()
        control_plane.kubectl("delete", "node", "other")
    assert [root for root in roots if root.exists()] == []
    wait_for("its first process to be forgotten", lambda: not os.path.exists(f"/proc/{first}"))
    assert str(other.folder) not in Path("/proc/self/mountinfo").read_text()
    assert node.is_ready()
    links = json.loads(node.run("ip", "-json", "link"))
    assert any(link["ifname"] == "lo" for link in links)
