"""The template beside a real API server: a prediction for every node, and whose it is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.managers import Crew, charts_role, crew, install_kinds, node
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

#: The seed's, verbatim, in the namespace default.
TEMPLATE = Path(__file__).parent / "manifests" / "prediction-template.yaml"
NAME = "noderesource-tsp-template"


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
    """With the rights that the chart grants, and no others."""
    with crew(charts_role(plane), "slackwater-system", tmp_path) as made:
        yield made
    plane.kubectl("delete", "configmap", NAME, "--ignore-not-found")
    plane.kubectl("delete", "node", "--all")
    plane.kubectl("delete", "tsp", "--all", "-A")


def predictions(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in plane.get("tsp", "-A")["items"]}


def test_each_node_gets_a_prediction_that_goes_with_it(plane: ControlPlane, replicas: Crew) -> None:
    replicas.add()
    plane.apply(node("n1"), node("n2.example.com"))
    plane.kubectl("apply", "-f", str(TEMPLATE))
    names = {"noderesource-n1", "noderesource-n2.example.com"}
    wait_for("both", lambda: set(predictions(plane)) == names)
    made = predictions(plane)["noderesource-n2.example.com"]
    [metric] = made["spec"]["predictionMetrics"]
    assert metric["expressionQuery"]["expression"].count("(n2.example.com)(:\\\\d+)?") == 2
    assert made["spec"]["targetRef"] == {
        "kind": "Node", "name": "n2.example.com", "apiVersion": "v1",
    }  # fmt: skip
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", "n2.example.com", True)
    assert made["metadata"]["namespace"] == "default"
    plane.kubectl("delete", "node", "n2.example.com")
    wait_for("one to be gone", lambda: set(predictions(plane)) == {"noderesource-n1"})


def test_the_template_is_watched(plane: ControlPlane, replicas: Crew) -> None:
    manager = replicas.add()
    plane.apply(node("n1"))
    template = yaml.safe_load(TEMPLATE.read_text())
    plane.apply(template)
    wait_for("it", lambda: predictions(plane))
    text = template["data"]["spec"]
    template["data"]["spec"] = text.replace("3600", "7200")
    plane.apply(template)

    def window() -> int:
        found = predictions(plane)["noderesource-n1"]["spec"]["predictionWindowSeconds"]
        return int(found)

    wait_for("the change", lambda: window() == 7200)
    template["data"]["spec"] = text.replace("{{.metadata.name}}", "{{.spec.podCIDR}}")
    plane.apply(template)

    def warnings() -> list[str]:
        found = plane.get("events", "-n", "default", f"--field-selector=involvedObject.name={NAME}")
        return [each["message"] for each in found["items"] if each["reason"] == "TemplateInvalid"]

    wait_for("the warning", warnings)
    assert warnings()[0].startswith(
        "ConfigMap default/noderesource-tsp-template: spec:17, an action, is '{{.spec.podCIDR}}', "
    )
    assert window() == 7200
    told = [line["because"] for line in manager.lines() if line["what"] == "template"]
    assert told == warnings()
    plane.kubectl("delete", "configmap", NAME)
    wait_for("all to be gone", lambda: not predictions(plane))


def test_a_users_own_prediction_is_left_alone(plane: ControlPlane, replicas: Crew) -> None:
    plane.apply(node("n1"))
    template = yaml.safe_load(TEMPLATE.read_text())
    spec = yaml.safe_load(template["data"]["spec"])
    own = {
        "apiVersion": "prediction.crane.io/v1alpha1",
        "kind": "TimeSeriesPrediction",
        "metadata": {"name": "noderesource-n1", "namespace": "default"},
        "spec": {**spec, "predictionWindowSeconds": 900, "targetRef": {"name": "n1"}},
    }
    plane.apply(own, template)
    manager = replicas.add()
    about = "TimeSeriesPrediction default/noderesource-n1"
    wait_for("it to be told", lambda: [x for x in manager.lines() if x["what"] == about])
    [found] = predictions(plane).values()
    assert found["spec"]["predictionWindowSeconds"] == 900
    assert "ownerReferences" not in found["metadata"]
    assert "labels" not in found["metadata"]
