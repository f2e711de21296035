"""`slackwater status` of a real cluster: from nothing installed to all well and back."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.contract.node_report import status_patch_object
from slackwater.model.units import Micros
from tests.cluster.managers import action, condition, crew, install_kinds, node, policy
from tests.cluster.reporters import Reporter
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

LABELS = {"app.kubernetes.io/name": "slackwater", "app.kubernetes.io/component": "agent"}


def status(kubeconfig: Path, *arguments: str) -> tuple[int, str, str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SLACKWATER_")}
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "status", *arguments],
        env=environ | {"KUBECONFIG": str(kubeconfig)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def report(plane: ControlPlane, name: str, heard: str) -> None:
    """What the agent of that node would write."""
    status_patch = Reporter(name, 1).look(Micros(60_000_000))
    assert status_patch is not None
    text = json.dumps(status_patch_object(name, status_patch, heard))
    plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-", given=text
    )


def agents_pod(name: str, on: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "slackwater-system", "labels": LABELS},
        "spec": {"nodeName": on, "containers": [{"name": "agent", "image": "localhost/none:1"}]},
    }


def make_ready(plane: ControlPlane, pod: str) -> None:
    """What a kubelet would say of it; the node's controller takes it back after a while."""
    said = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    plane.kubectl(
        "patch", "pod", pod, "-n", "slackwater-system", "--subresource=status", "--type=merge",
        "-p", json.dumps(said),
    )  # fmt: skip


def row(kubeconfig: Path, name: str) -> dict[str, Any]:
    _, out, err = status(kubeconfig, "-o", "json")
    assert err == ""
    found: dict[str, Any] = next(each for each in json.loads(out)["nodes"] if each["name"] == name)
    return found


def test_from_nothing_to_all_well_and_back(
    make_control_plane: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    plane = make_control_plane()
    me = plane.kubeconfig()
    code, out, err = status(me)
    assert (code, err) == (1, "")
    assert "the cluster does not know the kinds AvoidanceAction" in out

    plane.kubectl("create", "namespace", "slackwater-system")
    install_kinds(plane)
    plane.apply(node("n1"), node("n2"), action("throttle"), policy("good", "throttle"))
    code, out, err = status(me)
    assert code == 1
    assert "no node has an agent" in out
    assert "no manager runs, so there is no verdict on 2 policies" in out

    report(plane, "n1", _now())
    assert row(me, "n1")["state"] == "gone"
    plane.apply(agents_pod("agent-of-n1", "n1"))
    with crew(me, "slackwater-system", tmp_path) as replicas:
        manager = replicas.add()
        wait_for("a verdict", lambda: condition(plane, "good").get("status") == "True")
        make_ready(plane, "agent-of-n1")
        code, out, err = status(me)
        assert (code, err) == (0, ""), out
        assert f"manager {manager.identity}  heard " in out
        assert "nodes 2, 1 with a report, 1 without an agent" in out
        assert "throttle when cpu_total_usage > 6000, twice in a row" in out
        assert out.endswith("No problem found.\n")

        plane.apply(policy("bad", "nowhere"))
        wait_for("a verdict", lambda: condition(plane, "bad").get("status") == "False")
        code, out, _ = status(me)
        assert code == 1
        assert "rule cpu-usage: there is no AvoidanceAction 'nowhere'" in out
        assert out.index("nodeqos/bad") < out.index("nodeqos/good")
        plane.kubectl("delete", "nodeqos", "bad")

    make_ready(plane, "agent-of-n1")
    assert row(me, "n1")["state"] == "well"
    report(plane, "n1", "2026-01-01T00:00:00Z")
    assert row(me, "n1")["state"] == "stale"
    plane.kubectl("annotate", "--overwrite", "node", "n1", "slackwater.io/report=[]")
    assert row(me, "n1")["problems"] == [
        "its report cannot be read: slackwater.io/report is a list, but must be a mapping"
    ]
    report(plane, "n1", _now())
    plane.apply(agents_pod("agent-of-n2", "n2"))
    plane.kubectl(
        "delete", "pod", "agent-of-n1", "-n", "slackwater-system", "--force", "--grace-period=0"
    )
    [problem] = row(me, "n1")["problems"]
    assert problem.startswith("its agent is gone, and its last values may still be in force; ")
    assert row(me, "n2")["state"] == "starting"


def _now() -> str:
    import datetime as dt

    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_who_may_see_nothing_hears_one_sentence(control_plane: ControlPlane) -> None:
    code, out, err = status(control_plane.kubeconfig("jane", "readers"))
    assert (code, out) == (1, "")
    assert "nodes is forbidden" in err
    assert err.count("\n") == 1


@pytest.fixture
def watcher(control_plane: ControlPlane, namespace: str) -> Path:
    """Somebody who may list nodes and nothing else."""
    control_plane.kubectl("create", "clusterrole", namespace, "--verb=list", "--resource=nodes")
    control_plane.kubectl(
        "create", "clusterrolebinding", namespace, f"--clusterrole={namespace}", "--user=watcher"
    )
    return control_plane.kubeconfig("watcher")


def test_who_may_see_less_is_told_what_is_not_shown(
    control_plane: ControlPlane, watcher: Path
) -> None:
    install_kinds(control_plane)
    _, out, err = status(watcher)
    assert err == ""
    for kind in ("AvoidanceAction", "NodeQOS", "NodeQOSEnsurancePolicy", "PodQOS"):
        assert f"{kind} is not shown: " in out
    assert "whether agents run is not known: " in out
    assert "whether a manager runs is not known: " in out


def test_a_server_that_is_gone(fragile: ControlPlane) -> None:
    fragile.kill("kube-apiserver")
    code, out, err = status(fragile.kubeconfig())
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "Connection refused" in err
