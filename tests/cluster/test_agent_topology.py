"""The agent's report of its node's topology on a real API server: made, amplified, put right, left
to others, and taken away. The kubelet's tree is a bed of real cgroups."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.agent_process import eventually
from tests.cluster.agent_stage import Stage, config_map
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane

RATIO = "node.koordinator.sh/cpu-normalization-ratio"
INFO = "node.koordinator.sh/cpu-basic-info"
LABEL = "app.kubernetes.io/managed-by"
CRDS = Path(__file__).parents[2] / "charts/slackwater/crds"
KIND = "noderesourcetopologies.v1alpha1.topology.node.k8s.io"


@pytest.fixture
def bed() -> Iterator[Bed]:
    made = Bed(KERNELS[kernel_name()][0], f"cluster-{uuid.uuid4().hex[:8]}")
    yield made
    made.close()


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, bed: Bed, tmp_path: Path) -> Iterator[Stage]:
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    made = Stage(control_plane, namespace, bed, tmp_path)
    yield made
    made.close()
    control_plane.kubectl("delete", "node", made.node)
    control_plane.kubectl("delete", KIND, made.node, "--ignore-not-found")


def shown(stage: Stage) -> dict[str, Any] | None:
    found = stage.plane.get(KIND, "--field-selector", f"metadata.name={stage.node}")["items"]
    return dict(found[0]) if found else None


def cpus(stage: Stage) -> list[str] | None:
    """The CPU rows of all zones."""
    found = shown(stage)
    if found is None:
        return None
    return [
        row["allocatable"]
        for zone in found["zones"]
        for row in zone["resources"]
        if row["name"] == "cpu"
    ]


def set_ratio(stage: Stage, text: str | None) -> None:
    stage.plane.kubectl("annotate", "node", stage.node, "--overwrite", f"{RATIO}={text}")


def set_reporting(stage: Stage, word: str) -> None:
    head = "apiVersion: slackwater.io/v1\nkind: AgentSettings\n"
    data = {"settings.yaml": f"{head}spec: {{agent: {{topologyReport: {word}}}}}\n"}
    stage.plane.apply(config_map("slackwater-agent", stage.namespace, data))


def test_it_is_made_amplified_put_right_and_taken_away(stage: Stage) -> None:
    agent = stage.start()
    eventually("the object", lambda: cpus(stage) is not None)
    made = shown(stage)
    assert made is not None
    raw = cpus(stage)
    assert raw is not None
    assert sum(map(int, raw)) == os.cpu_count()
    assert made["metadata"]["labels"][LABEL] == "Slackwater"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert json.loads(made["metadata"]["annotations"][INFO])["cpuModel"]
    set_ratio(stage, "1.50")
    amplified = [f"{int(each) * 1500 // 1000}" if int(each) % 2 == 0 else f"{int(each) * 1500}m"
                 for each in raw]  # fmt: skip
    eventually("amplified zones", lambda: cpus(stage) == amplified)
    now = shown(stage)
    assert now is not None
    assert now["zones"][0]["attributes"] == [{"name": "slackwater.io/raw-cpu", "value": raw[0]}]
    # Nobody else's hand stays in it, and nothing is written without a reason.
    stage.plane.kubectl("patch", KIND, stage.node, "--type=merge", "-p", '{"zones":[]}')
    eventually("the repair", lambda: cpus(stage) == amplified)
    set_ratio(stage, "0.82")
    eventually("the complaint", lambda: "0.82" in json.dumps(agent.get("/v1/explain")))
    assert cpus(stage) == amplified
    set_ratio(stage, "1.00")
    eventually("raw zones", lambda: cpus(stage) == raw)
    # kill -9, and then the command takes away what the agent left.
    agent.kill()
    command = [sys.executable, "-m", "slackwater", "release", "--node", stage.node]
    where = ["--state", str(agent.state), "--kubeconfig", str(stage.plane.kubeconfig())]
    subprocess.run([*command, *where], check=True, capture_output=True)
    assert shown(stage) is None


def test_an_object_of_others_is_left_to_them_until_a_setting_says_otherwise(stage: Stage) -> None:
    theirs = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": stage.node, "labels": {LABEL: "Koordinator"}},
        "topologyPolicies": ["None"],
        "zones": [],
    }
    stage.plane.apply(theirs)
    agent = stage.start()
    said = f"NodeResourceTopology {stage.node} is managed by Koordinator and left alone"
    eventually("the remark", lambda: said in json.dumps(agent.get("/readyz")))
    eventually("the report", lambda: said in json.dumps(stage.report()))
    assert cpus(stage) == []
    set_reporting(stage, "takeOver")
    eventually("the takeover", lambda: bool(cpus(stage)))
    eventually("peace", lambda: said not in json.dumps(agent.get("/readyz")))
    set_reporting(stage, "none")
    eventually("its end", lambda: shown(stage) is None)
