"""Elastic pods on a simulated node: shared as asked for, inside the best-effort share and rules."""

import tempfile
from typing import Any

import pytest

from slackwater.model.gap import Gap
from slackwater.simulation.scenario_file import scenario_in
from slackwater.simulation.simulation_run import Simulation
from tests.unit.simulation.mortal import MEMORY

CRANE = "ensurance.crane.io/v1alpha1"
ACTION = {
    "apiVersion": CRANE,
    "kind": "AvoidanceAction",
    "metadata": {"name": "throttle"},
    "spec": {
        "coolDownSeconds": 300,
        "throttle": {"cpuThrottle": {"minCPURatio": 10, "stepCPURatio": 20}},
    },
}
WATERLINE = {
    "apiVersion": CRANE,
    "kind": "NodeQOS",
    "metadata": {"name": "waterline"},
    "spec": {
        "nodeQualityProbe": {"nodeLocalGet": {"localCacheTTLSeconds": 60}},
        "rules": [
            {
                "name": "cpu",
                "avoidanceThreshold": 2,
                "restoreThreshold": 2,
                "actionName": "throttle",
                "metricRule": {"name": "cpu_total_usage", "value": 5000},
            }
        ],
    },
}


def elastic_pod(name: str, cpu: Any, resource: str = "gocrane.io/cpu") -> dict[str, Any]:
    """It wants the whole machine."""
    wants = {"tier": "besteffort", "demand": 8}
    return {"name": name, **wants, "extendedResources": {resource: cpu}}


def used(cgroup: str, web: str, settings: dict[str, Any], *objects: Any) -> dict[str, float]:
    """CPUs on average over the last minute of three, by pod."""
    document = {
        "apiVersion": "slackwater.io/v1",
        "kind": "Scenario",
        "spec": {
            "cgroup": cgroup,
            "cpus": 8,
            "duration": "3m",
            "settings": {"elasticResources": {"enabled": True}, **settings},
            "objects": list(objects),
            "pods": [
                {"name": "web", "tier": "burstable", "request": 4, "demand": web},
                elastic_pod("one", 1),
                elastic_pod("three", 3000, "kubernetes.io/batch-cpu"),
            ],
        },
    }
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        simulation = Simulation(scenario_in(document, "s.yaml"), folder)
        seen: dict[int, dict[str, int]] = {}

        def watch(at: int, _done: object) -> None:
            seen[at] = {name: _usage(simulation, name) for name in ("web", "one", "three")}

        simulation.run(watch)
        last = max(seen)
        first = min(at for at in seen if at >= last - 60_000_000)
        simulation.close()
    return {name: (seen[last][name] - seen[first][name]) / (last - first) for name in seen[last]}


def _usage(simulation: Simulation, name: str) -> int:
    ref = simulation.node.group(name)
    assert not isinstance(ref, Gap)
    times = simulation.kernel.times(ref)
    assert not isinstance(times, Gap)
    return times.usage


@pytest.mark.parametrize("cgroup", ["v1", "v2"])
@pytest.mark.parametrize(
    ("web", "one", "three"),
    [
        ("1", 1.0, 3.0),  # enough for both: never above their limits
        ("6", 0.5, 1.5),  # short: as they asked for it
    ],
)
def test_limits_and_weights(cgroup: str, web: str, one: float, three: float) -> None:
    found = used(cgroup, web, {})
    assert found["web"] == pytest.approx(float(web), rel=0.01)  # ordinary pods come first
    assert found["one"] == pytest.approx(one, rel=0.05)
    assert found["three"] == pytest.approx(three, rel=0.05)


@pytest.mark.parametrize("cgroup", ["v1", "v2"])
def test_within_the_best_effort_share(cgroup: str) -> None:
    """80 % of eight CPUs less the four of the service: 2.4."""
    found = used(cgroup, "4", {"bestEffortShare": {"enabled": True, "threshold": 80}})
    assert found["one"] + found["three"] == pytest.approx(2.4, rel=0.02)
    assert found["three"] / found["one"] == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("cgroup", ["v1", "v2"])
def test_a_rule_throttles_them(cgroup: str) -> None:
    """The node stays below the watermark of 5 CPUs, of which the service has four."""
    found = used(cgroup, "4", {}, ACTION, WATERLINE)
    assert found["web"] == pytest.approx(4, rel=0.01)
    assert found["one"] + found["three"] <= 1.01
