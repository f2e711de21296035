"""What an agent may not change of its Node, nor of another: a row for each, on a real API server.

Every field that this API server knows of a Node is tried."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.contract.resources import (
    NODES,
)
from slackwater.kube.client import Client, PatchKind
from tests.cluster.agent_rights import (
    OURS,
    SECOND,
    THEIRS,
    condition,
    offered,
    status,
    taint_by_others,
    tainted,
    with_agent_rights,
)
from tests.cluster.chart import (
    AGENT,
    CANNOT,
    OTHER,
    OWN,
    REPORT,
    Ask,
    delete,
    patch,
    patch_status,
    pod_client,
    refusal,
)
from tests.cluster.kubernetes_version import MINOR
from tools.cluster.control_plane import ControlPlane


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    with with_agent_rights(ControlPlane(make_folder(), programs)) as made:
        yield made


@pytest.fixture(scope="module")
def agent(plane: ControlPlane) -> Client:
    return pod_client(plane, AGENT, "agent")


def act_twice(who: Client) -> None:
    """Conditions of others stay as they are."""
    there = json.loads(who.get(NODES, OWN))["status"].get("conditions", [])
    others = [each for each in there if each["type"] != "SlackwaterActing"]
    ours = {"type": "SlackwaterActing", "status": "True"}
    body = {"status": {"conditions": [*others, ours, ours]}}
    who.patch(NODES, OWN, body, kind=PatchKind.MERGE, subresource="status")


ANOTHER = f"this agent runs on node '{OWN}' and may not change node '{OTHER}'"

CONDITIONS_ONLY = "of a Node's status an agent may change conditions and extended resources only"

RESOURCES_ONLY = "of a Node's resources an agent may change gocrane.io/cpu, gocrane.io/memory"

OURS_ONLY = "an agent may change the conditions SlackwaterActing and interference-identified only"

TAINT_ONLY = "an agent may change the taint interference.crane.io only"

REPORTS_ONLY = "of a Node's annotations an agent may change slackwater.io/report, "

METADATA_ONLY = "an agent may not change a Node's labels, finalizers, owners or other metadata"

TOO_MUCH = "an agent may offer no more memory than the Node has, and of CPU five times as much"

SPEC_ONLY = "of a Node's spec an agent may change one taint only"

BAD_TAINT = "has no value and the effect PreferNoSchedule or NoSchedule"

ADDRESS = {"type": "InternalIP", "address": "192.0.2.1"}

OWNED_BY_A_POD = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}


MAY_NOT: dict[str, tuple[Ask, str]] = {
    "report on another node": (patch_status(OTHER, **REPORT), ANOTHER),
    "set another node's condition": (
        patch_status(OTHER, **condition("SlackwaterActing")),
        ANOTHER,
    ),
    "identify interference on another node": (
        patch_status(OTHER, **condition("interference-identified")),
        ANOTHER,
    ),
    "taint another node": (tainted(OURS, name=OTHER), ANOTHER),
    "add another taint": (tainted(THEIRS, OURS, {"key": "b", "effect": "NoSchedule"}), TAINT_ONLY),
    "change another taint": (tainted(THEIRS | {"effect": "NoSchedule"}), TAINT_ONLY),
    "remove another taint": (tainted(SECOND, OURS), TAINT_ONLY),
    "remove every taint": (tainted(), TAINT_ONLY),
    "reorder other taints": (tainted(SECOND, THEIRS), TAINT_ONLY),
    "delete the node's pods by its taint": (
        tainted(THEIRS, SECOND, OURS | {"effect": "NoExecute"}),
        BAD_TAINT,
    ),
    "give its taint a value": (tainted(THEIRS, SECOND, OURS | {"value": "x"}), BAD_TAINT),
    "label another node": (patch(NODES, OTHER, metadata={"labels": {"a": "b"}}), ANOTHER),
    "label its own node by its spec": (
        patch(NODES, OWN, metadata={"labels": {"a": "b"}}),
        METADATA_ONLY,
    ),
    "give its node an address range": (
        patch(NODES, OWN, spec={"podCIDR": "192.0.2.0/24"}),
        SPEC_ONLY,
    ),
    "delete another node": (delete(NODES, OTHER), CANNOT.format("delete")),
    "delete its own node": (delete(NODES, OWN), CANNOT.format("delete")),
    "write a stranger's annotation": (
        patch_status(OWN, metadata={"annotations": {"example.com/a": "b"}}),
        REPORTS_ONLY,
    ),
    **{
        f"forge the annotation {key}": (
            patch_status(OWN, metadata={"annotations": {key: "1.50"}}),
            REPORTS_ONLY,
        )
        for key in (
            "slackwater.io/cpu-normalization-ratio",
            "slackwater.io/exempt",
            "slackwater.io/last-rotation",
            "node.slackwater.io/force-normalization",
            "manager.slackwater.io/amplified-allocatable",
            "node.koordinator.sh/cpu-normalization-ratio",
        )
    },
    "let its own node go with a pod": (
        patch_status(OWN, metadata={"ownerReferences": [OWNED_BY_A_POD]}),
        METADATA_ONLY,
    ),
    **{
        f"offer too much {name}": (patch_status(OWN, **offered({name: amount})), TOO_MUCH)
        for name, amount in {
            "gocrane.io/cpu": "21",
            "kubernetes.io/batch-cpu": "20001",
            "gocrane.io/memory": "8589934593",
            "kubernetes.io/batch-memory": "9Gi",
        }.items()
    },
    "set its condition twice": (act_twice, "an agent may set each of its conditions once"),
    "remove a stranger's annotation": (
        patch_status(OWN, metadata={"annotations": {"example.com/there": None}}),
        REPORTS_ONLY,
    ),
    "label its own node": (
        patch_status(OWN, metadata={"labels": {"a": "b"}}),
        METADATA_ONLY,
    ),
    "keep its own node from going": (
        patch_status(OWN, metadata={"finalizers": ["example.com/stay"]}),
        METADATA_ONLY,
    ),
    "say that its node is ready": (patch_status(OWN, **condition("Ready")), OURS_ONLY),
    "change its node's capacity": (
        patch_status(OWN, **status(capacity={"cpu": "400"})),
        RESOURCES_ONLY,
    ),
    "change what may be allocated": (
        patch_status(OWN, **status(allocatable={"cpu": "400"})),
        RESOURCES_ONLY,
    ),
    "remove its node's CPU": (
        patch_status(OWN, **status(allocatable={"cpu": None})),
        RESOURCES_ONLY,
    ),
    "offer another extended resource": (
        patch_status(OWN, **offered({"nvidia.com/gpu": "8"})),
        RESOURCES_ONLY,
    ),
    "offer CPU beside a larger machine": (
        patch_status(OWN, **offered({"gocrane.io/cpu": "3", "cpu": "400"})),
        RESOURCES_ONLY,
    ),
    "offer CPU on another node": (patch_status(OTHER, **offered({"gocrane.io/cpu": "3"})), ANOTHER),
    "move its node": (patch_status(OWN, **status(addresses=[ADDRESS])), CONDITIONS_ONLY),
    "cordon its own node": (patch(NODES, OWN, spec={"unschedulable": True}), SPEC_ONLY),
}


@pytest.mark.parametrize("what", MAY_NOT)
def test_the_agent_may_not(plane: ControlPlane, agent: Client, what: str) -> None:
    plane.kubectl("annotate", "node", OWN, "example.com/there=yes", "--overwrite")
    taint_by_others(plane)
    ask, sentence = MAY_NOT[what]
    assert sentence in refusal(agent, ask)


#: Every other field of a Node's status and spec, with a value that the API server would take.
STATUS_FIELDS: dict[str, object] = {
    "phase": "Terminated",
    "addresses": [ADDRESS],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    "nodeInfo": {"machineID": "another"},
    "images": [{"names": ["example.com/a:1"], "sizeBytes": 1}],
    "volumesInUse": ["example.com/volume"],
    "volumesAttached": [{"name": "example.com/volume", "devicePath": ""}],
    "runtimeHandlers": [{"name": "another", "features": {"userNamespaces": True}}],
    "features": {"supplementalGroupsPolicy": True},
}
#: The first minor version that has them.
SINCE = {"features": 31}
KNOWN = [name for name in STATUS_FIELDS if SINCE.get(name, 0) <= MINOR]


SPEC_FIELDS: dict[str, object] = {
    "podCIDR": "192.0.2.0/24",
    "podCIDRs": ["192.0.2.0/24"],
    "providerID": "example://another",
    "unschedulable": True,
}


#: Of these a part is ours.
PARTLY_OURS = {"conditions", "capacity", "allocatable"}


@pytest.mark.parametrize("field", KNOWN)
def test_of_its_nodes_status_the_agent_may_not_change(
    plane: ControlPlane, agent: Client, field: str
) -> None:
    ask = patch_status(OWN, **status(**{field: STATUS_FIELDS[field]}))
    assert CONDITIONS_ONLY in refusal(agent, ask)


@pytest.mark.parametrize("field", SPEC_FIELDS)
def test_of_its_nodes_spec_the_agent_may_not_change(
    plane: ControlPlane, agent: Client, field: str
) -> None:
    assert SPEC_ONLY in refusal(agent, patch(NODES, OWN, spec={field: SPEC_FIELDS[field]}))


def test_these_are_all_fields_that_this_api_server_knows(plane: ControlPlane) -> None:
    """The policy compares whole parts, so it holds a new field by itself. A newer Kubernetes fails
    here until that was tried. Of config, configSource and externalID the API server itself takes no
    change."""
    found = json.loads(plane.kubectl("get", "--raw", "/openapi/v3/api/v1"))["components"]["schemas"]
    known = {
        kind: set(found[f"io.k8s.api.core.v1.{kind}"]["properties"])
        for kind in ("Node", "NodeStatus", "NodeSpec", "Taint")
    }
    assert known == {
        "Node": {"apiVersion", "kind", "metadata", "spec", "status"},
        "NodeStatus": {*KNOWN, *PARTLY_OURS, "config"},
        "NodeSpec": SPEC_FIELDS.keys() | {"configSource", "externalID", "taints"},
        "Taint": {"key", "value", "effect", "timeAdded"},
    }


def test_the_agent_may_not_remove_a_strangers_condition(plane: ControlPlane, agent: Client) -> None:
    ready = '{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}'
    plane.kubectl("patch", "node", OWN, "--subresource=status", "-p", ready)
    gone = {"$patch": "delete", "type": "Ready"}
    assert OURS_ONLY in refusal(agent, patch_status(OWN, **status(conditions=[gone])))
