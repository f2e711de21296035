"""What a real kubelet made is seen as what it is."""

import json

import pytest

from tests.kernel.launching import run
from tests.kubelet import node_files
from tests.kubelet.node import Node

pytestmark = pytest.mark.timeout(3600)


def test_the_kubelet_runs_a_pod_of_each_tier(node: Node) -> None:
    running = node.running_pods()
    found = {name: running[f"{name}-node"]["status"]["qosClass"] for name in node_files.TIERS}
    assert found == node_files.TIERS


def test_doctor_finds_driver_and_tree_by_itself(node: Node) -> None:
    ran = run("doctor", "-o", "json", timeout=300)
    report = json.loads(ran.stdout)["cgroup"]
    assert (report["version"], report["driver"]) == ("v2", node.driver), report
    assert report["driverSource"] == "cgroup tree"
    assert report["kubepods"] == node.kubepods
