"""`slackwater report` of a real API server and a real Prometheus with days of a cluster's past."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.prometheus_bed import Backfill, PrometheusBed, prometheus_with
from tools.cluster.control_plane import ControlPlane

DAY, STEP, CPUS = 86_400, 120, 4
LASTED = 2.1 * DAY
#: Mean CPUs in use.
USED = {"report-a": 0.6, "report-b": 2.0}


def at_work(node: str, at: float) -> float:
    return USED[node] * (1 - 0.5 * math.cos(2 * math.pi * at / DAY))


def counted(metric: str, labels: dict[str, str], now: float, cores: Any) -> Backfill:
    """A counter that grows by so many seconds a second."""
    total, points = 0.0, []
    first = int((now - LASTED) // STEP) * STEP
    for at in range(first, int(now) + 1200, STEP):
        total += STEP * cores(at)
        points.append((float(at), total))
    return Backfill(metric, labels, tuple(points), "counter")


def past(namespace: str, now: float) -> Iterator[Backfill]:
    for place, node in enumerate(USED):
        # One by its name, the other by its address.
        instance = f"{node}:9100" if not place else "192.0.2.2:9100"
        for cpu in range(CPUS):
            labels = {"instance": instance, "mode": "idle", "cpu": str(cpu)}
            yield counted("node_cpu_seconds_total", labels, now,
                          lambda at, node=node: 1 - at_work(node, at) / CPUS)  # fmt: skip
    stranger = {"instance": "bastion:9100", "mode": "idle", "cpu": "0"}
    yield counted("node_cpu_seconds_total", stranger, now, lambda _: 0.9)
    for pod, cores in (("web-5d8f7b9c6d-b4d2x", 0.4), ("cold-0", 0.05)):
        labels = {"namespace": namespace, "pod": pod, "container": "app", "cpu": "total",
                  "id": f"/kubepods/{pod}"}  # fmt: skip
        yield counted("container_cpu_usage_seconds_total", labels, now, lambda _, c=cores: c)


def objects(namespace: str) -> Iterator[dict[str, Any]]:
    for place, node in enumerate(USED, 1):
        amounts = {"cpu": "3500m", "memory": "8Gi"}
        address = {"type": "InternalIP", "address": f"192.0.2.{place}"}
        yield {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
            "status": {"allocatable": amounts, "capacity": amounts, "addresses": [address]},
        }  # fmt: skip
    for name, cpu in (("web-5d8f7b9c6d-b4d2x", "250m"), ("cold-0", "2")):
        container = {"name": "app", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        yield {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"nodeName": "report-a", "containers": [container]},
        }  # fmt: skip


@pytest.fixture
def bed(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[PrometheusBed]:
    control_plane.create(*objects(namespace))
    try:
        with prometheus_with(tmp_path, past(namespace, time.time())) as made:
            yield made
    finally:
        control_plane.kubectl("delete", "node", *USED)


def report(
    plane: ControlPlane, bed: PrometheusBed, *flags: str, user: str = "admin"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slackwater", "report", "--kubeconfig", str(plane.kubeconfig(user)),
         "--prometheus-endpoint", bed.endpoint, "--days", "2", *flags],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


class Words(HTMLParser):
    """What a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.found.append(data.strip())


def test_a_clusters_report(
    control_plane: ControlPlane, namespace: str, bed: PrometheusBed, tmp_path: Path
) -> None:
    done = report(control_plane, bed, "-o", "json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    nodes = {each["node"]: each for each in whole["nodes"]}
    assert nodes.keys() == USED.keys()
    for name, used in USED.items():
        assert nodes[name]["used"] == pytest.approx(used, rel=0.05)
        assert nodes[name]["peak"] == pytest.approx(1.5 * used, rel=0.05)
        assert nodes[name]["allocatable"] == 3.5
    assert "1 of 3 instances of the node exporter are no nodes of this cluster" in done.stderr
    offer = whole["offer"]
    assert (offer["nodes"], offer["allocatable"]) == (2, 7.0)
    for each in offer["estimators"]:
        assert each["windows"] > 40
        assert 0 < each["sold"] < offer["allocatable"] - sum(USED.values()) + 1
    found = {(each["namespace"], each["workload"]): each for each in whole["workloads"]}
    cold = found[namespace, "Pod/cold-0"]
    assert (cold["requested"], cold["used"]) == (2.0, pytest.approx(0.05, rel=0.1))
    hot = found[namespace, "Pod/web-5d8f7b9c6d-b4d2x"]
    assert (hot["requested"], hot["used"]) == (0.25, pytest.approx(0.4, rel=0.1))
    # A page for people, from the same.
    file = tmp_path / "report.html"
    assert report(control_plane, bed, "--file", str(file)).returncode == 0
    words = Words(file.read_text()).found
    assert {"report-a", "report-b", "Pod/cold-0", "adaptive (our default)"} <= set(words)
    # It only reads.
    verbs = {line["verb"] for line in control_plane.audit()
             if line.get("userAgent", "").startswith("slackwater-report/")}  # fmt: skip
    assert verbs == {"list"}
    # Nobody's rights: each instance is a node, and names are guessed.
    poor = report(control_plane, bed, "-o", "json", user="nobody")
    assert poor.returncode == 0, poor.stderr
    seen = json.loads(poor.stdout)
    assert {each["node"] for each in seen["nodes"]} == {"report-a", "192.0.2.2", "bastion"}
    assert {each["workload"] for each in seen["workloads"]} == {"Deployment/web", "(gone) cold"}
    assert "nodes could not be listed" in poor.stderr
    assert "pods could not be listed" in poor.stderr
    assert "cannot list resource" in poor.stderr
