"""`slackwater release --every-node` on a real API server: with the rights of the chart's hook and
no others, a real agent puts everything back and says so; who does not answer is named."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.manager.agent_release import AGENTS
from tests.cluster.agent_process import eventually
from tests.cluster.agent_stage import Stage, config_map
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane
from tools.manifests import CHART

NAME = "slackwater-agent-release"
CRDS = Path(__file__).parents[2] / "charts/slackwater/crds"
TOPOLOGY = "noderesourcetopologies.v1alpha1.topology.node.k8s.io"
ON = """\
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {bestEffortShare: {enabled: true, threshold: 80}}
"""


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


def hooks(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    """What helm makes when it uninstalls, as a real helm renders it."""
    shown = ("template", "slackwater", str(CHART), "-n", namespace)
    chosen = ("--show-only", "templates/agent-release-job.yaml")
    text = plane.helm(*shown, *chosen, "--set", "image.repository=example.com/slackwater")
    return [each for each in yaml.safe_load_all(text) if each]


@pytest.fixture
def releaser(stage: Stage) -> Iterator[Path]:
    """A kubeconfig of the hook's service account."""
    plane, namespace = stage.plane, stage.namespace
    made = [each for each in hooks(plane, namespace) if each["kind"] != "Job"]
    plane.apply(*made)
    token = plane.kubectl("create", "token", NAME, "-n", namespace)
    yield plane.token_kubeconfig(f"releaser-{namespace}", token.strip())
    for kind in ("clusterrole", "clusterrolebinding"):
        plane.kubectl("delete", kind, NAME)


def run(stage: Stage, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "KUBE"))}
    place = ("--kubeconfig", str(kubeconfig), "--namespace", stage.namespace)
    command = [sys.executable, "-m", "slackwater", *arguments, "--every-node", *place]
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=False)


def settings(stage: Stage) -> None:
    data = {"settings.yaml": ON, "release": ""}
    stage.plane.apply(config_map("slackwater-agent", stage.namespace, data))


def pod_of_an_agent(stage: Stage) -> None:
    """The agent is a process of this test; to the cluster it is this pod."""
    labels = dict(each.split("=") for each in AGENTS.split(","))
    stage.plane.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "agent", "namespace": stage.namespace, "labels": labels},
            "spec": {"nodeName": stage.node, "containers": [{"name": "main", "image": "none"}],
                     "terminationGracePeriodSeconds": 0},
        }
    )  # fmt: skip


def test_every_value_goes_back_and_the_node_says_so(stage: Stage, releaser: Path) -> None:
    settings(stage)
    stage.start()
    pod_of_an_agent(stage)
    eventually("a quota", lambda: stage.quota() is not None)
    eventually("the topology", lambda: stage.plane.get(TOPOLOGY, stage.node))
    eventually("the report", lambda: stage.report().get("holding"))
    done = run(stage, releaser, "release", "--wait", "600")
    assert (done.returncode, done.stdout) == (
        0,
        f"Node {stage.node}: everything is restored\n",
    ), done.stderr
    assert stage.quota() is None
    assert stage.report()["holding"] == 0
    assert (stage.condition()["status"], stage.condition()["reason"]) == ("False", "Released")
    named = ("--field-selector", f"metadata.name={stage.node}")
    assert stage.plane.get(TOPOLOGY, *named)["items"] == []
    # A rolling update, and an upgrade that failed: whoever has more rights takes it back.
    again = run(stage, stage.plane.kubeconfig(), "resume")
    assert again.returncode == 0, again.stderr
    eventually("a quota again", lambda: stage.quota() is not None)
    assert "released" not in stage.report()


def test_who_does_not_answer_is_named_and_not_waited_for_for_ever(
    stage: Stage, releaser: Path
) -> None:
    settings(stage)
    pod_of_an_agent(stage)
    done = run(stage, releaser, "release", "--wait", "1")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"Node {stage.node}: the node is not Ready; its agent has not answered" in done.stderr
    assert "1 node has not answered within 1 s" in done.stderr


def test_the_hook_may_do_nothing_else(stage: Stage, releaser: Path) -> None:
    settings(stage)
    said = hooks(stage.plane, stage.namespace)
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in said} == {"pre-delete"}
    rules = {
        (each["kind"], rule["resources"][0], *rule["verbs"], *rule.get("resourceNames", ()))
        for each in said
        for rule in each.get("rules", ())
    }
    assert rules == {
        ("Role", "configmaps", "get", "patch", "slackwater-agent"),
        ("Role", "pods", "list"),
        ("ClusterRole", "nodes", "list"),
    }
    elsewhere = ("--namespace", "default")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "KUBE"))}
    command = [sys.executable, "-m", "slackwater", "release", "--every-node"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(releaser), *elsewhere],
        env=clean, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "403 Forbidden" in done.stderr
