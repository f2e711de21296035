"""A cluster that had Crane's own definitions: its objects stay, and what was wrong is told."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.objects import read_node_qos
from slackwater.contract.resources import NODE_QOS
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.problem import InvalidError
from tests.cluster.kube_world import serves
from tests.cluster.kubernetes_version import MINOR
from tests.cluster.test_objects import CHART
from tests.unit.contract.crane import documents as whole
from tests.unit.contract.crane.documents import spoilt
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

NAME = "nodeqoss.ensurance.crane.io"
#: As Crane's: no bound that a webhook would have to check, no status subresource.
CRANES: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": "ensurance.crane.io",
        "names": {
            "kind": "NodeQOS",
            "listKind": "NodeQOSList",
            "plural": "nodeqoss",
            "singular": "nodeqos",
            "shortNames": ["nq"],
        },
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                },
            }
        ],
    },
}
STATUS = {"status": {"observedGeneration": 1, "summary": "nothing: it is wrong"}}


@pytest.fixture
def client(own_server: ControlPlane) -> Client:
    """Of a cluster with a good and a bad object of Crane's time, and now our definitions."""
    plane = own_server
    plane.apply(CRANES)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=300s", f"crd/{NAME}")
    access = find_access({}, str(plane.kubeconfig()))
    assert isinstance(access, Access)
    made = Client(access, "slackwater-test")
    wait_for("Crane's kind to be served", lambda: serves(made, NODE_QOS))
    made.create(NODE_QOS, whole.NODE_QOS)
    bad = spoilt(whole.NODE_QOS, ("spec", "rules", 0, "metricRule", "value"), -1)
    made.create(NODE_QOS, spoilt(bad, ("metadata", "name"), "bad"))
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART))
    wait_for("our rules to count", lambda: _refuses(made))
    return made


def _refuses(client: Client) -> bool:
    """The server takes up a changed definition a moment after it has stored it."""
    probe = spoilt(whole.NODE_QOS, ("metadata", "name"), "probe")
    try:
        client.create(NODE_QOS, spoilt(probe, ("spec", "rules"), []))
    except HttpStatusError:
        return True
    client.delete(NODE_QOS, "probe")
    return False


def test_objects_of_cranes_time(client: Client) -> None:
    good = _stored(client, "waterline")
    assert good["spec"] == whole.NODE_QOS["spec"]
    assert read_node_qos(good, "server").spec.rules[0].restores_after == 3

    bad = _stored(client, "bad")
    with pytest.raises(InvalidError, match=r"metricRule\.value is -1, but must be"):
        read_node_qos(bad, "server")

    # What is wrong and stays so does not keep the manager from saying it, nor anyone from a label.
    # Only 1.30 refuses the status of an object whose rules its definition would not take any more.
    labelled = {"metadata": {"labels": {"seen": "yes"}}}
    status = copy.deepcopy(STATUS)
    writes = (
        lambda: client.apply(NODE_QOS, "bad", status, manager="test", subresource="status"),
        lambda: client.patch(NODE_QOS, "bad", labelled, kind=PatchKind.MERGE),
    )
    assert [_is_refused(write) for write in writes] == [MINOR == 30, False]
    kept = _stored(client, "bad")
    assert ("status" in kept) is (MINOR != 30)
    assert kept["metadata"]["labels"] == {"seen": "yes"}

    # Who changes the rules has to mend them.
    bad["spec"]["rules"][0]["avoidanceThreshold"] = 9
    with pytest.raises(HttpStatusError, match=r"metricRule\.value"):
        client.patch(NODE_QOS, "bad", {"spec": bad["spec"]}, kind=PatchKind.MERGE)
    bad["spec"]["rules"][0]["metricRule"]["value"] = 1
    client.patch(NODE_QOS, "bad", {"spec": bad["spec"]}, kind=PatchKind.MERGE)
    assert read_node_qos(_stored(client, "bad"), "server").spec.rules[0].avoidance_threshold == 9


def _is_refused(write: Callable[[], bytes]) -> bool:
    try:
        write()
    except HttpStatusError as refused:
        assert "metricRule.value" in str(refused)
        return True
    return False


def _stored(client: Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(client.get(NODE_QOS, name))
    return found
