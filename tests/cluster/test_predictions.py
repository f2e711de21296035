"""Predictions with a real Prometheus: template to samples, and what happens when it goes wrong."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.managers import Crew, charts_role, crew, install_kinds, node
from tests.cluster.prometheus_bed import PROGRAM, Backfill, prometheus_with
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

TEMPLATE = Path(__file__).parent / "manifests" / "prediction-template.yaml"
DAY, MINUTE, CPUS = 86_400, 60, 2


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    """A cluster of its own: the template is about all nodes."""
    made = ControlPlane(make_folder(), programs)
    try:
        made.open()
        install_kinds(made)
        made.kubectl("create", "namespace", "slackwater-system")
        yield made
    finally:
        made.close()


@pytest.fixture
def replicas(plane: ControlPlane, tmp_path: Path) -> Iterator[Crew]:
    with crew(charts_role(plane), "slackwater-system", tmp_path) as made:
        yield made
    plane.kubectl("delete", "configmap", "noderesource-tsp-template", "--ignore-not-found")
    plane.kubectl("delete", "node", "--all")
    plane.kubectl("delete", "tsp", "--all", "-A")


def used(at: float) -> float:
    """CPUs: a day that is busy once."""
    return 0.8 - 0.5 * math.cos(2 * math.pi * at / DAY)


def idle_cpus(name: str, now: float, days: float) -> Iterable[Backfill]:
    """What the node exporter counts of a node that is used so, by the minute."""
    first = int((now - days * DAY) // MINUTE) * MINUTE
    times = range(first, int(now) + 1200, MINUTE)
    for cpu in range(CPUS):
        idle, points = 0.0, []
        for at in times:
            idle += MINUTE * (1 - used(at) / CPUS)
            points.append((float(at), idle))
        labels = {"instance": f"{name}:9100", "mode": "idle", "cpu": str(cpu)}
        yield Backfill("node_cpu_seconds_total", labels, tuple(points), "counter")


def status_of(plane: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.get("tsp", f"noderesource-{name}").get("status", {})
    return found


def ready(plane: ControlPlane, name: str) -> dict[str, Any]:
    conditions = status_of(plane, name).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Ready"), {})


def wait_ready(plane: ControlPlane, name: str) -> None:
    wait_for(f"{name}'s samples", lambda: ready(plane, name).get("status") == "True")


def forecast_show(
    plane: ControlPlane, name: str, endpoint: str
) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "slackwater", "forecast", "show", name, "-o", "json",
        "--kubeconfig", str(plane.kubeconfig()), "--prometheus-endpoint", endpoint,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_seeds_template_end_to_end(plane: ControlPlane, replicas: Crew, tmp_path: Path) -> None:
    now = time.time()
    series = [
        *idle_cpus("n1", now, 3.2),
        *idle_cpus("n2.example.com", now, 3.2),
        *idle_cpus("new", now, 5 / 1440),
    ]
    with prometheus_with(tmp_path, series) as prometheus:
        plane.apply(*map(node, ("n1", "n2.example.com", "new", "silent")))
        plane.kubectl("apply", "-f", str(TEMPLATE))
        manager = replicas.add("--prometheus-endpoint", prometheus.endpoint)
        for name in ("n1", "n2.example.com"):
            wait_ready(plane, name)
            assert ready(plane, name)["reason"] == "PredictSucceed"
            [metric] = status_of(plane, name)["predictionMetrics"]
            assert (metric["resourceIdentifier"], metric["ready"]) == ("cpu", True)
            assert metric["estimator"] == "fft"
            assert metric["estimatorSince"] == metric["predictedAt"]
            # The template adds a fifth.
            assert float(metric["lastDayError"]) == pytest.approx(0.2, abs=0.1)
            [predicted] = metric["prediction"]
            times = [each["timestamp"] for each in predicted["samples"]]
            assert len(times) == 121
            assert times[0] <= time.time() + 1
            assert times[-1] - times[0] == 2 * 3600
            for each in predicted["samples"]:
                assert float(each["value"]) == pytest.approx(1.2 * used(each["timestamp"]), rel=0.1)
        wait_for("a reason", lambda: ready(plane, "new").get("reason") == "PredictFailed")
        assert "minutes of history, and a forecast needs 60" in ready(plane, "new")["message"]
        wait_for("a reason", lambda: ready(plane, "silent").get("reason") == "PredictFailed")
        assert ready(plane, "silent")["message"] == "cpu: the query gives no series"
        shown = plane.kubectl("get", "tsp")
        assert "TARGETREFNAME" in shown.splitlines()[0]
        done = forecast_show(plane, "n1", prometheus.endpoint)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        [metric] = told["forecast"]["metrics"]
        assert metric["nextPeak"] == pytest.approx(
            1.2 * max(used(time.time() + k * 60) for k in range(60)), rel=0.1
        )
        assert len(told["history"]["cpu"]) > 280
        assert told["forecast"]["whyNotSold"] == "no agent reports from this node"
        assert forecast_show(plane, "new", prometheus.endpoint).returncode == 1
        line = 'slackwater_manager_predictions{estimator="fft",resource="cpu"} 2.0'
        wait_for("the next round", lambda: line in manager.ask("/metrics")[1])


def test_a_prometheus_that_is_gone_leaves_the_last_samples(
    plane: ControlPlane, replicas: Crew, tmp_path: Path
) -> None:
    now = time.time()
    with prometheus_with(tmp_path, idle_cpus("n1", now, 3.2)) as prometheus:
        plane.apply(node("n1"))
        plane.kubectl("apply", "-f", str(TEMPLATE))
        replicas.add("--prometheus-endpoint", prometheus.endpoint, "--prometheus-retries", "0")
        wait_ready(plane, "n1")
        [before] = status_of(plane, "n1")["predictionMetrics"]
        prometheus.processes.kill(PROGRAM)
        # Another window is another generation: it has to be predicted anew, and cannot be.
        template = yaml.safe_load(TEMPLATE.read_text())
        template["data"]["spec"] = template["data"]["spec"].replace("3600", "1800")
        plane.apply(template)
        wait_for("the reason", lambda: ready(plane, "n1").get("status") == "False")
        assert ready(plane, "n1")["reason"] == "PredictFailed"
        assert ready(plane, "n1")["message"].startswith(f"cpu: Prometheus at {prometheus.endpoint}")
        [after] = status_of(plane, "n1")["predictionMetrics"]
        assert after["prediction"] == before["prediction"]
        assert after["predictedAt"] == before["predictedAt"]
        assert after["message"].startswith("Prometheus at ")


def test_without_a_prometheus_it_says_so(plane: ControlPlane, replicas: Crew) -> None:
    plane.apply(node("n1"))
    plane.kubectl("apply", "-f", str(TEMPLATE))
    replicas.add()
    wait_for("the reason", lambda: ready(plane, "n1").get("status") == "False")
    assert "--prometheus-endpoint" in ready(plane, "n1")["message"]
