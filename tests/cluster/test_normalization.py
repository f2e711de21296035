"""CPU normalization's control plane beside a real API server: the seed's story, and its undoing."""

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.install import manifests
from slackwater.contract.koordinator.node_ratios import FORCE_ANNOTATION, HELD_CONDITION
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    BASIC_INFO_ANNOTATION,
    ENABLED_LABEL,
    RATIO_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.contract.resources import NODE_TOPOLOGIES, NODES
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.gap import Gap
from tests.cluster.chart import pod
from tests.cluster.managers import USER_AGENT, Crew, charts_role, crew, install_kinds
from tools.cluster import MANY_NODES_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.many_nodes import ManyNodes, played_node
from tools.cluster.processes import ClusterError, find_programs, wait_for

FAST, SLOW = "Fast(R) CPU @ 3.00GHz", "Slow(R) CPU @ 2.00GHz"
CHARTS_NAMESPACE = "slackwater-system"
NAMESPACE, NAME = "koordinator-system", "slo-controller-config"
MODEL: dict[str, Any] = {
    "enable": False,
    "ratioModel": {
        FAST: {"baseRatio": 1.5, "hyperThreadTurboEnabledRatio": 1.35},
        SLOW: {"baseRatio": 1.0, "hyperThreadTurboEnabledRatio": 1.0},
    },
}
LABEL = f"{ENABLED_LABEL}=true"


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    """A cluster of its own, with the chart's admission policies: the model is about all nodes."""
    made = ControlPlane(make_folder(), programs)
    nodes = ManyNodes(made, find_programs(MANY_NODES_PROGRAMS, os.environ)["kwok"])
    try:
        made.open()
        install_kinds(made)
        made.kubectl("apply", "--server-side", "-f", "-", given=manifests())
        made.kubectl("create", "namespace", NAMESPACE)
        nodes.open(0)
        yield made
    finally:
        nodes.close()
        made.close()


@pytest.fixture
def replicas(plane: ControlPlane, tmp_path: Path) -> Iterator[Crew]:
    """With the rights that the chart grants, and no others; two nodes that kwok plays."""
    for name, model in (("fast", FAST), ("slow", SLOW)):
        plane.create(played_node(name), topology(name, model))
    with crew(charts_role(plane), CHARTS_NAMESPACE, tmp_path) as made:
        yield made
    plane.kubectl("delete", "pod", "--all", "-n", "default", "--force", "--grace-period=0")
    plane.kubectl("delete", "configmap", NAME, "-n", NAMESPACE, "--ignore-not-found")
    plane.kubectl("delete", "node", "fast", "slow")
    plane.kubectl("delete", "noderesourcetopologies.topology.node.k8s.io", "--all")


def topology(name: str, model: str) -> dict[str, Any]:
    info = {"cpuModel": model, "hyperThreadEnabled": True, "turboEnabled": True}
    return {
        "apiVersion": NODE_TOPOLOGIES.api_version,
        "kind": NODE_TOPOLOGIES.kind,
        "metadata": {"name": name, "annotations": {BASIC_INFO_ANNOTATION: json.dumps(info)}},
        "topologyPolicies": ["None"],
        "zones": [],
    }


def config_map(normalization: object, **keys: object) -> dict[str, Any]:
    stated = {"cpu-normalization-config": normalization, **keys}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in stated.items()
        },
    }


def annotations(plane: ControlPlane, node: str) -> tuple[str | None, str | None]:
    found = plane.get("node", node)["metadata"]["annotations"]
    return found.get(RATIO_ANNOTATION), found.get(AMPLIFICATION_ANNOTATION)


def wait_for_annotations(
    plane: ControlPlane, node: str, ratio: str | None, amplification: str | None
) -> None:
    wanted = (ratio, amplification)
    wait_for(f"{wanted} on {node}", lambda: annotations(plane, node) == wanted)


def patches(plane: ControlPlane) -> Counter[str]:
    """The manager's writes of Nodes, but for their statuses."""
    return Counter(
        line["objectRef"]["name"]
        for line in plane.audit()
        if line.get("userAgent", "").startswith(USER_AGENT)
        and line["verb"] not in ("get", "list", "watch")
        and line["objectRef"]["resource"] == "nodes"
        and "subresource" not in line["objectRef"]
    )


def warnings(plane: ControlPlane, namespace: str, name: str) -> list[tuple[str, str]]:
    found = plane.get("events", "-n", namespace, f"--field-selector=involvedObject.name={name}")
    return [(each["reason"], each["message"]) for each in found["items"]]


def held(plane: ControlPlane, node: str) -> dict[str, Any] | None:
    """The manager's condition on a Node."""
    conditions = plane.get("node", node)["status"]["conditions"]
    return next((each for each in conditions if each["type"] == HELD_CONDITION), None)


def test_the_story_of_the_seed(plane: ControlPlane, replicas: Crew) -> None:
    """Two nodes of different CPU models, one ConfigMap and a label; then all of it undone."""
    plane.apply(config_map(MODEL))
    replicas.add()
    plane.kubectl("label", "node", "fast", "slow", LABEL)
    wait_for_annotations(plane, "fast", "1.35", '{"cpu":1.35}')
    wait_for_annotations(plane, "slow", "1.00", None)
    # Every step of 0.01 counts, and a default needs no topology.
    plane.kubectl("delete", "noderesourcetopologies.topology.node.k8s.io", "fast")
    amplification = {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 2}}
    stated = {"resource-amplification-config": amplification}
    plane.apply(config_map({**MODEL, "defaultRatio": 1.36}, **stated))
    wait_for_annotations(plane, "fast", "1.36", '{"cpu":2.04,"memory":2.00}')
    plane.kubectl("label", "node", "fast", f"{ENABLED_LABEL}-")
    wait_for_annotations(plane, "fast", "1.00", '{"cpu":1.50,"memory":2.00}')
    plane.kubectl("delete", "configmap", NAME, "-n", NAMESPACE)
    wait_for_annotations(plane, "fast", "1.00", None)
    wait_for_annotations(plane, "slow", "1.00", None)
    # One write for each of the changes above.
    assert patches(plane) == {"fast": 4, "slow": 3}


def test_a_bad_model_leaves_the_last_good_one_in_force(plane: ControlPlane, replicas: Crew) -> None:
    plane.kubectl("label", "node", "fast", LABEL)
    plane.apply(config_map(MODEL))
    manager = replicas.add()
    wait_for_annotations(plane, "fast", "1.35", '{"cpu":1.35}')
    # The admission policy cannot parse JSON, so this one gets through to the manager.
    plane.apply(config_map('{"enable": true, "nodeConfigs": {}}'))
    reason = "CPUNormalizationCfgUnmarshalFailed"

    def told() -> list[str]:
        return [text for why, text in warnings(plane, NAMESPACE, NAME) if why == reason]

    wait_for("the warning on the ConfigMap", told)
    sentence = "data[cpu-normalization-config].nodeConfigs is a mapping, but must be a list"
    assert sentence in told()[0]
    wait_for(
        "the warning on the Node",
        lambda: any(sentence in text for _, text in warnings(plane, "default", "fast")),
    )
    assert "slackwater_manager_slo_config_invalid 1" in manager.ask("/metrics")[1]
    wait_for("the condition on the Node", lambda: held(plane, "fast"))
    condition = held(plane, "fast")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "NormalizationHeld")
    assert sentence in condition["message"]
    assert held(plane, "slow") is None
    assert annotations(plane, "fast") == ("1.35", '{"cpu":1.35}')
    # A node that comes now follows the last good one too.
    plane.kubectl("label", "node", "slow", LABEL)
    wait_for_annotations(plane, "slow", "1.00", None)
    # What ends is not told any longer, and the kubelet's conditions are as they were.
    plane.apply(config_map(MODEL))
    wait_for("the end of the condition", lambda: held(plane, "fast") is None)
    assert "Ready" in {each["type"] for each in plane.get("node", "fast")["status"]["conditions"]}


def test_of_conditions_the_manager_may_write_its_own_alone(
    plane: ControlPlane, replicas: Crew
) -> None:
    """By its own token: kubectl would need the right to get Nodes."""
    access = find_access({}, str(charts_role(plane)))
    assert not isinstance(access, Gap)

    def said_to(**condition: str) -> str:
        body = {"status": {"conditions": [condition]}}
        client = Client(access, "test")
        try:
            client.patch(NODES, "fast", body, kind=PatchKind.STRATEGIC, subresource="status")
        except HttpStatusError as refused:
            return str(refused)
        finally:
            client.close()
        return ""

    good = {"type": HELD_CONDITION, "status": "True", "reason": "NormalizationHeld"}
    only_its_own = "may change NormalizationHeld only"
    # What changes nothing is never refused, so each attempt says something else.
    early = (said_to(type="Ready", message=str(number)) for number in itertools.count())
    wait_for("the policy to hold", lambda: only_its_own in next(early))
    assert said_to(**good, message="x" * 1024) == ""
    assert only_its_own in said_to(type="SlackwaterActing", status="True")
    assert only_its_own in said_to(**{"type": "Ready", "$patch": "delete"})
    for wrong in ({"status": "False"}, {"reason": "Another"}, {"message": "x" * 1025}):
        assert "at most 1024 characters" in said_to(**{**good, **wrong})
    assert said_to(**{"type": HELD_CONDITION, "$patch": "delete"}) == ""


def test_a_cut_that_would_strand_pods_is_refused_until_it_is_forced(
    plane: ControlPlane, replicas: Crew
) -> None:
    plane.apply(config_map({**MODEL, "enable": True}))
    replicas.add()
    wait_for_annotations(plane, "fast", "1.35", '{"cpu":1.35}')
    raw = json.dumps({"cpu": "32", "memory": "256Gi"})
    plane.kubectl("annotate", "node", "fast", f"{RAW_ALLOCATABLE_ANNOTATION}={raw}")
    large = pod("large", "default", "fast")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "40"}}
    plane.create(large)
    plane.kubectl("label", "node", "fast", f"{ENABLED_LABEL}=false")
    wait_for(
        "the refusal",
        lambda: any(
            why == "NormalizationCutRefused"
            and "request 40000m, and at 1.00 it would have 32000m (32000m x 1.00)" in text
            for why, text in warnings(plane, "default", "fast")
        ),
    )
    assert annotations(plane, "fast") == ("1.35", '{"cpu":1.35}')
    plane.kubectl("annotate", "node", "fast", f"{FORCE_ANNOTATION}=true")
    wait_for_annotations(plane, "fast", "1.00", None)


REFUSED = {
    "a ratio as text": '{"defaultRatio": "1.2"}',
    "a published ratio": '{"ratioModel": {"x": {"baseRatio": 0.82}}}',
    "too large": '{"ratioModel": {"x": {"turboEnabledRatio":5.01}}}',
    "much too large": '{"defaultRatio": 15}',
    "negative": '{"defaultRatio": -1.5}',
    "zero": '{"defaultRatio":0}',
    "not a number": '{"defaultRatio": NaN}',
    "in another case": '{"DEFAULTRATIO": 0.5}',
    "true": '{"defaultRatio": true}',
    "no mapping": "[]",
    "no JSON": "enable: true",
}
TAKEN = {
    "the bounds": '{"defaultRatio": 1, "ratioModel": {"x": {"baseRatio": 5.00}}}',
    "null": '{"defaultRatio": null}',
    "an exponent": '{"defaultRatio": 12e-1}',
    "several lines": '\n{\n  "defaultRatio":\n 4.99\n}\n',
    "odd names": '{"ratioModel": {"9.9 \\"defaultRatio\\" x": {"baseRatio": 1.2}}}',
}


def test_the_admission_policy_refuses_what_it_can_judge(plane: ControlPlane) -> None:
    def said_to(text: str, name: str = NAME) -> str:
        document = config_map(text)
        document["metadata"]["name"] = name
        try:
            plane.kubectl("apply", "--dry-run=server", "-f", "-", given=json.dumps(document))
        except ClusterError as refused:
            return str(refused)
        return ""

    wait_for("the policy to hold", lambda: said_to("[]"))
    assert {name: bool(said_to(text)) for name, text in REFUSED.items()} == dict.fromkeys(
        REFUSED, True
    )
    assert {name: said_to(text) for name, text in TAKEN.items()} == dict.fromkeys(TAKEN, "")
    assert "but a ratio must be a number from 1.00 to 5.00" in said_to(REFUSED["a published ratio"])
    assert said_to("[]", "another") == ""
