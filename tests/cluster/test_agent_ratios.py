"""Volcano's ColocationConfigurations: the agent finds the kind when it is installed, without a
restart, and loses its objects with it."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.agent_process import ClusterAgent, eventually
from tests.cluster.agent_stage import Stage
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane

GROUP, PLURAL, KIND = "config.volcano.sh", "colocationconfigurations", "ColocationConfiguration"
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SERVED = {"name": "v1alpha1", "served": True, "storage": True}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": KIND, "plural": PLURAL, "singular": KIND.lower()},
        "scope": "Namespaced",
        "versions": [SERVED | {"schema": {"openAPIV3Schema": SCHEMA}}],
    },
}


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    bed = Bed(KERNELS[kernel_name()][0], f"cluster-{uuid.uuid4().hex[:8]}")
    made = Stage(control_plane, namespace, bed, tmp_path)
    yield made
    made.close()
    bed.close()
    control_plane.kubectl("delete", "crd", f"{PLURAL}.{GROUP}", "--ignore-not-found")
    control_plane.kubectl("delete", "node", made.node)


def ratios(agent: ClusterAgent) -> object:
    """Of the only pod, as the last tick saw it."""
    last: dict[str, Any] = json.loads(agent.text("/v1/ticks").splitlines()[-1])
    workloads = last["snapshot"].get("workloads", [])
    return next((each.get("memory_ratios", "none") for each in workloads), "no pod")


def configuration(namespace: str, high: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": KIND,
        "metadata": {"name": "batch", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "batch"}},
            "memoryQos": {"highRatio": high},
        },
    }


def test_a_kind_that_is_installed_later_is_found(stage: Stage) -> None:
    metadata = {"name": "batch", "namespace": stage.namespace, "labels": {"app": "batch"}}
    spec = {"nodeName": stage.node, "containers": [{"name": "main", "image": "none"}]}
    stage.plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    stage.throttle(80)
    agent = stage.start()
    stage.wait_for_share(80)
    assert ratios(agent) == "none"
    sources = [each["name"] for each in agent.get("/v1/top")["sources"]]
    assert sources[:4] == ["pods", "node", "colocation", "settings"]
    assert "pod_configurations" not in sources
    stage.plane.apply(DEFINITION)
    stage.plane.kubectl("wait", "--for=condition=Established", "crd", f"{PLURAL}.{GROUP}")
    eventually(
        "that the kind is served",
        lambda: PLURAL in stage.plane.kubectl("api-resources", f"--api-group={GROUP}"),
    )
    stage.plane.apply(configuration(stage.namespace, 90))
    eventually("the ratios", lambda: "90" in str(ratios(agent)), patience=300)
    stage.plane.apply(configuration(stage.namespace, 400))
    [problem] = eventually("the complaint", lambda: agent.get("/readyz").get("problems"))
    assert f"{KIND} {stage.namespace}/batch: spec.memoryQos.highRatio is 400" in problem
    assert "90" in str(ratios(agent))  # what it said before stays
    stage.plane.apply(configuration(stage.namespace, 70))
    eventually("the new ratios", lambda: "70" in str(ratios(agent)))
    stage.plane.kubectl("delete", PLURAL, "batch", "-n", stage.namespace)
    eventually("their end", lambda: ratios(agent) == "none")
