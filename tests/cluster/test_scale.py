"""A thousand nodes: how much agents and manager write, by the API server's own audit log."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.credentials.discovery import find_access
from slackwater.manager.program import SETTLE
from tests.cluster.managers import action, crew, install_kinds, policy, writes
from tests.cluster.reporters import Reporter, run
from tools.cluster.control_plane import ControlPlane
from tools.cluster.many_nodes import ManyNodes
from tools.cluster.processes import wait_for

#: Where nothing changes an agent writes every five minutes: that is in it.
NODES, MINUTES = 1000, 6
#: MiB; a manager of 1,000 nodes, with the interpreter's 20.
MEMORY = 100.0
AGENT = "slackwater-agent/minute-"
#: Writing by hand what a thousand agents write in so many minutes takes some.
PATIENCE = 3600


@pytest.mark.long
@pytest.mark.timeout(PATIENCE)
def test_a_thousand_nodes_are_written_once_a_minute_at_most(
    own_server: ControlPlane,
    play_nodes: Callable[[ControlPlane, int], ManyNodes],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    plane = own_server
    plane.kubectl("create", "namespace", "slackwater-system")
    install_kinds(plane)
    names = play_nodes(plane, NODES).names
    plane.apply(action("throttle"), policy("waterline", "throttle", selector={"type": "kwok"}))
    access = find_access({}, kubeconfig=str(plane.kubeconfig()))
    assert isinstance(access, Access), access
    with crew(plane.kubeconfig(), "slackwater-system", tmp_path) as replicas:
        manager = replicas.add()
        wait_for("the verdict", lambda: _nodes_of(plane, "waterline") == NODES)
        began = time.time()
        reporters = [Reporter(name, seed) for seed, name in enumerate(names)]
        made = run(reporters, MINUTES, lambda minute: Client(access, f"{AGENT}{minute}"), 4)
        took = time.time() - began

        audit = plane.audit()
        by_minute = _agents_writes(audit)
        assert sum(by_minute.values()) == made
        assert max(by_minute.values()) == 1
        assert {node for node, _ in by_minute} == set(names)  # every agent was heard

        # Of the manager: who follows the policy, as agents begin to report; not at each report.
        written = writes(plane, began)
        assert set(written) <= {"patch nodeqoss waterline"}
        assert len(written) <= took / SETTLE + 1 < made
        reporting = "slackwater_manager_nodes_reporting 1000.0"
        wait_for("the manager to see all reports", lambda: reporting in manager.ask("/metrics")[1])
        memory = manager.memory()
        assert memory <= MEMORY
        told = {
            "writes per node and minute": round(made / NODES / MINUTES, 3),
            "seconds for all writes": round(took, 1),
            "manager, MiB": round(memory, 1),
        }
        for name, value in told.items():
            record_property(name, value)
        print(told)
        _check_status(plane)


def _agents_writes(audit: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """By node and by the minute in which the agent wrote, which is in the client's name."""
    return Counter(
        (line["objectRef"]["name"], line["userAgent"])
        for line in audit
        if line.get("userAgent", "").startswith(AGENT)
        and line["verb"] not in ("get", "list", "watch")
    )


def _nodes_of(plane: ControlPlane, name: str) -> object:
    return plane.get("nodeqos", name).get("status", {}).get("nodes")


def _check_status(plane: ControlPlane) -> None:
    """What `slackwater status` says about them: a screen, not a thousand lines. It is asked by
    somebody who may not see pods: the agents here are none."""
    kinds = ("avoidanceactions", "nodeqoss", "nodeqosensurancepolicies", "podqoss")
    seen = ("nodes", "leases.coordination.k8s.io", *(f"{k}.ensurance.crane.io" for k in kinds))
    resources = f"--resource={','.join(seen)}"
    plane.kubectl("create", "clusterrole", "watcher", "--verb=get,list", resources)
    plane.kubectl(
        "create", "clusterrolebinding", "watcher", "--clusterrole=watcher", "--user=watcher"
    )
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig("watcher"))}
    plane.kubectl("annotate", "--overwrite", "node", "kwok-7", "slackwater.io/report={")
    began = time.monotonic()
    shown = subprocess.run(
        [sys.executable, "-m", "slackwater", "status"],
        env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    took = time.monotonic() - began
    assert shown.returncode == 1, shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) < 50
    assert "nodes 1000, 999 with a report, 1 with problems" in lines
    assert [line.split()[0] for line in lines if " unreadable" in line] == ["kwok-7"]
    assert "and 980 nodes without problems" in lines
    print(f"slackwater status of {NODES} nodes: {took:.1f} s")
    whole = subprocess.run(
        [sys.executable, "-m", "slackwater", "status", "-o", "json"],
        env=environ, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert len(msgspec.json.decode(whole.stdout)["nodes"]) == NODES
