"""QoS ensurance on pods of a real kubelet: throttled, demoted, and restored to what it had set.

The kubelet runs static pods alone here, which no rule touches: the agent is told of them with the
kubelet's uids and containers, as if the API server had them.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kubelet import node_files
from tests.kubelet.node import Node
from tests.kubelet.pod_groups import as_of_api_server, container_group, pod_group, until
from tests.kubelet.standalone import Standalone

pytestmark = pytest.mark.timeout(3600)

CRANE = "ensurance.crane.io/v1alpha1"
#: Thresholds in milliCPU that a node with a busy pod is always above, and that none is.
ALWAYS, NEVER = 1, 1_000_000
#: A tenth of 400m.
LIMIT, LOWEST = "40000 100000", "4000 100000"
FILES = ("cpu.max", "cpu.weight", "cpu.idle")
PROPERTIES = "CPUQuotaPerSecUSec,CPUQuotaPeriodUSec,CPUWeight"

Picture = dict[str, str]


def batch_pod() -> dict[str, Any]:
    """With a container that has a limit, and one that has none. Its request is below its minimum,
    and its weight neither the lowest nor what the kernel gives a group that is no longer idle."""
    limited = {"requests": {"cpu": "35m", "memory": "16Mi"}, "limits": {"cpu": "400m"}}
    pod = node_files.pod("batch", node_files.REST, limited)
    [main] = pod["spec"]["containers"]
    pod["spec"]["containers"].append({**main, "name": "unlimited", "resources": {}})
    return pod


def rule(value: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """An action and the policy that names it."""
    action = {
        "apiVersion": CRANE,
        "kind": "AvoidanceAction",
        "metadata": {"name": "throttle"},
        "spec": {
            "coolDownSeconds": 1,
            "throttle": {"cpuThrottle": {"minCPURatio": 10, "stepCPURatio": 50}},
        },
    }
    ensurance = {
        "name": "cpu-usage",
        "avoidanceThreshold": 1,
        "restoreThreshold": 1,
        "actionName": "throttle",
        "strategy": "None",
        "metricRule": {"name": "cpu_total_usage", "value": value},
    }
    policy = {
        "apiVersion": CRANE,
        "kind": "NodeQOSEnsurancePolicy",
        "metadata": {"name": "waterline"},
        "spec": {
            "nodeQualityProbe": {"nodeLocalGet": {"localCacheTTLSeconds": 60}},
            "objectiveEnsurances": [ensurance],
        },
    }
    return action, policy


def picture(node: Node, *groups: Path) -> Picture:
    """Every CPU knob of pods and what is in them, as the kernel has it and as systemd does."""
    found: Picture = {}
    below = [each.parent for group in groups for each in group.rglob("cgroup.procs")]
    for group in below:
        for name in FILES:
            found[f"{group.name}/{name}"] = (group / name).read_text().strip()
        if node.driver == "systemd":
            found[group.name] = unit_properties(group.name)
    return found


def unit_properties(unit: str) -> str:
    command = ["systemctl", "show", "--property", PROPERTIES, "--", unit]
    return subprocess.run(
        command, check=True, timeout=300, stdout=subprocess.PIPE, text=True
    ).stdout


def is_at_minimum(group: Path, limited: Path, unlimited: Path) -> bool:
    return (
        (limited / "cpu.max").read_text().strip() == LOWEST
        and not (unlimited / "cpu.max").read_text().startswith("max")
        and (group / "cpu.idle").read_text() == "1\n"
    )


def changes(before: Picture, after: Picture) -> dict[str, tuple[str, str]]:
    return {
        key: (before.get(key, ""), after.get(key, ""))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    }


def test_a_pod_is_throttled_demoted_and_restored(
    node: Node, agent: Callable[..., Standalone]
) -> None:
    node.add_pod("batch", batch_pod())
    node.await_pods({"batch": None})
    running = node.running_pods()
    batch, service, exempt = (
        running[f"{name}-node"] for name in ("batch", "burstable", "guaranteed")
    )
    group = pod_group(node, batch)
    spared = [pod_group(node, each) for each in (service, exempt)]
    limited, unlimited = (container_group(group, batch, name) for name in ("main", "unlimited"))
    before, others = picture(node, group), picture(node, *spared)
    assert before[f"{limited.name}/cpu.max"] == LIMIT
    assert before[f"{unlimited.name}/cpu.max"] == "max 100000"
    assert before[f"{group.name}/cpu.weight"] not in ("1", "100")

    standalone = agent()
    standalone.put(
        "pods",
        as_of_api_server(batch, 0, {}),
        as_of_api_server(service, 1000, {}),
        as_of_api_server(exempt, 0, {"slackwater.io/exempt": "true"}),
    )
    standalone.put("rules", *rule(ALWAYS))
    standalone.start()

    def told() -> object:
        return changes(before, picture(node, group)), standalone.journal()[-10:]

    until(lambda: is_at_minimum(group, limited, unlimited), told)
    assert changes(others, picture(node, *spared)) == {}
    if node.driver == "systemd":
        # It writes all that it knows of a unit again, which is what the agent told it.
        subprocess.run(["systemctl", "daemon-reload"], check=True, timeout=300)
        assert is_at_minimum(group, limited, unlimited), told()
        units = {f"unit:{each.name}" for each in (group, limited, unlimited)}
        assert units <= standalone.routes()

    standalone.put("rules", *rule(NEVER))
    until(lambda: not changes(before, picture(node, group)), told)
    assert changes(others, picture(node, *spared)) == {}
    standalone.end()
    assert not [line for line in standalone.release() if group.name in line["what"]]
    assert changes(before, picture(node, group)) == {}
    assert running.keys() <= node.running_pods().keys()
