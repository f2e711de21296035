"""What the agent's own token may do, and what the API server refuses: a row for each.

The objects are those of `slackwater install --print`. The agent's token is bound to a pod on
node-a, as the kubelet's are, and our own client asks.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    COLOCATION_CONFIGURATIONS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENSURANCE_METRICS,
    LEASES,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    NODE_TOPOLOGIES,
    NODES,
    POD_QOS,
    PODS,
    TIME_SERIES_PREDICTIONS,
    ObjectSelector,
    Resource,
)
from slackwater.kube.client import Client
from tests.cluster.chart import (
    AGENT,
    CANNOT,
    MANAGER,
    OTHER,
    OWN,
    REPORT,
    SECRETS,
    WORK,
    Ask,
    delete,
    evict,
    make,
    make_event,
    patch,
    patch_status,
    pod,
    pod_client,
    refusal,
    see,
    token_client,
    try_evicting,
    with_rights,
)
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "", namespaced=False
)


def condition(kind: str) -> dict[str, object]:
    told = {"type": kind, "status": "True", "reason": "Test", "message": "a test"}
    return {"status": {"conditions": [told]}}


def status(**fields: object) -> dict[str, object]:
    return {"status": fields}


def offered(amounts: dict[str, Any]) -> dict[str, object]:
    """As the agent writes them: both lists in one request."""
    return status(capacity=amounts, allocatable=amounts)


#: Of others, on the agent's node.
THEIRS = {"key": "a", "value": "x", "effect": "NoExecute"}
SECOND = {"key": "a", "value": "y", "effect": "NoSchedule"}
OURS = {"key": "interference.crane.io", "effect": "PreferNoSchedule"}


def topology(name: str, managed_by: str = "Slackwater", **metadata: object) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": managed_by}
    return {
        "apiVersion": NODE_TOPOLOGIES.api_version,
        "kind": NODE_TOPOLOGIES.kind,
        "metadata": {"name": name, "labels": labels, **metadata},
        "topologyPolicies": ["None"],
        "zones": [],
    }


def keep_topology(who: Client) -> None:
    """As the agent does: made, read, replaced and deleted."""
    who.create(NODE_TOPOLOGIES, topology(OWN))
    there = json.loads(who.get(NODE_TOPOLOGIES, OWN))
    who.replace(NODE_TOPOLOGIES, OWN, there | {"topologyPolicies": ["BestEffort"]})
    who.delete(NODE_TOPOLOGIES, OWN, uid=there["metadata"]["uid"])


def tainted(*taints: dict[str, str], name: str = OWN) -> Ask:
    """The whole list, as it can only be replaced."""
    return patch(NODES, name, spec={"taints": list(taints) or None})


def taint_by_others(plane: ControlPlane) -> None:
    body = json.dumps({"spec": {"taints": [THEIRS, SECOND]}})
    plane.kubectl("patch", "node", OWN, "--type=merge", "-p", body)


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    with with_rights(ControlPlane(make_folder(), programs)) as made:
        _wait_for_the_policies(pod_client(made, AGENT, "agent"))
        critical = pod("critical", WORK, OWN)
        critical["spec"]["priorityClassName"] = "system-node-critical"
        mirror = pod("mirror", WORK, OWN)
        mirror["metadata"]["annotations"] = {MIRROR: "f" * 32}
        del mirror["spec"]["serviceAccountName"]  # which a static pod cannot have
        made.create(critical, mirror, topology("koordinators", "Koordinator"))
        yield made


def _wait_for_the_policies(agent: Client) -> None:
    """The API server learns of a policy a moment after it was made."""
    asked = (
        patch_status(OTHER, **REPORT),
        try_evicting(WORK, f"on-{OTHER}"),
        make_event("Node", OTHER),
        make(NODE_TOPOLOGIES, topology(OTHER)),
    )
    for ask in asked:
        wait_for("a policy to hold", partial(_is_held, agent, ask))


def _is_held(agent: Client, ask: Ask) -> bool:
    return "this agent" in refusal(agent, ask)


@pytest.fixture(scope="module")
def agent(plane: ControlPlane) -> Client:
    return pod_client(plane, AGENT, "agent")


@pytest.fixture(scope="module")
def nowhere(plane: ControlPlane) -> Client:
    """The agent's account, by a token that was made for no pod."""
    return token_client(plane, "nowhere", AGENT)


# --- the agent: what it needs


AGENT_MAY: dict[str, Ask] = {
    "see the pods of its node": lambda who: who.list(
        PODS, lambda raw: raw, selector=ObjectSelector(fields=f"spec.nodeName={OWN}")
    ),
    "see its node": see(NODES, name=OWN),
    "see its settings": see(CONFIG_MAPS, NAMESPACE, AGENT),
    "see Volcano's configuration": see(CONFIG_MAPS, NAMESPACE, "volcano-agent-configuration"),
    "report on its node": patch_status(OWN, **REPORT),
    "set its condition": patch_status(OWN, **condition("SlackwaterActing")),
    "do both at once": patch_status(OWN, **REPORT, **condition("SlackwaterActing")),
    "taint its node": tainted(THEIRS, SECOND, OURS),
    "taint it with the other effect": tainted(THEIRS, SECOND, OURS | {"effect": "NoSchedule"}),
    "remove its taint": tainted(THEIRS, SECOND),
    "identify interference": patch_status(OWN, **condition("interference-identified")),
    "offer CPU and memory": patch_status(
        OWN, **offered({"gocrane.io/cpu": "3", "gocrane.io/memory": "1073741824"})
    ),
    "offer them by the other names": patch_status(
        OWN, **offered({"kubernetes.io/batch-cpu": "3500", "kubernetes.io/batch-memory": "1024"})
    ),
    "offer nothing any more": patch_status(
        OWN,
        **offered(
            dict.fromkeys(
                ("gocrane.io/cpu", "gocrane.io/memory", "kubernetes.io/batch-cpu"),
            )
        ),
    ),
    "see predictions of its node": see(TIME_SERIES_PREDICTIONS, name=f"noderesource-{OWN}"),
    "keep the topology of its node": keep_topology,
    "see the topology of its node": see(NODE_TOPOLOGIES, name=OWN),
    "read its node": lambda who: who.get(NODES, OWN),
    "read a pod": lambda who: who.get(PODS, f"on-{OWN}", WORK),
    "see actions": see(AVOIDANCE_ACTIONS),
    "see rules": see(NODE_QOS),
    "see rules of the older kind": see(NODE_QOS_ENSURANCE_POLICIES),
    "see which pods may be acted on": see(POD_QOS),
    "see metrics of one's own": see(ENSURANCE_METRICS),
    "tell an event about its node": make_event("Node", OWN),
    "tell an event about a pod": make_event("Pod", f"on-{OWN}", WORK, OWN),
    "tell an event about its settings": make_event("ConfigMap", AGENT, NAMESPACE),
    "evict a pod of its node": try_evicting(WORK, f"on-{OWN}"),
}


@pytest.mark.parametrize("what", AGENT_MAY)
def test_the_agent_may(plane: ControlPlane, agent: Client, what: str) -> None:
    taint_by_others(plane)
    assert refusal(agent, AGENT_MAY[what]) == ""


def test_an_evicted_pod_of_its_own_node_goes(plane: ControlPlane, agent: Client) -> None:
    plane.create(pod("own", WORK, OWN))
    wait_for("the eviction", lambda: not refusal(agent, evict(WORK, "own")))
    pods = ("get", "pods", "-n", WORK, "-o", "name")
    wait_for("it to go", lambda: "pod/own" not in plane.kubectl(*pods).split())


def test_the_agent_applies_its_report_as_it_does_in_a_cluster(
    plane: ControlPlane, agent: Client
) -> None:
    """One server-side apply of the status, with the annotation in it."""
    body = {
        "metadata": {"annotations": {"slackwater.io/report": '{"version":"1"}'}},
        **condition("SlackwaterActing"),
    }
    agent.apply(NODES, OWN, body, manager=AGENT, subresource="status")
    there = plane.get("node", OWN)
    assert there["metadata"]["annotations"]["slackwater.io/report"] == '{"version":"1"}'
    assert "SlackwaterActing" in {each["type"] for each in there["status"]["conditions"]}


def test_a_kind_that_is_not_there_is_not_forbidden(plane: ControlPlane, agent: Client) -> None:
    assert "404 NotFound" in refusal(agent, see(COLOCATION_CONFIGURATIONS))


# --- the agent: what it may not


ANOTHER = f"this agent runs on node '{OWN}' and may not change node '{OTHER}'"
CONDITIONS_ONLY = "of a Node's status an agent may change conditions and extended resources only"
RESOURCES_ONLY = "of a Node's resources an agent may change gocrane.io/cpu, gocrane.io/memory"
OURS_ONLY = "an agent may change the conditions SlackwaterActing and interference-identified only"
TAINT_ONLY = "an agent may change the taint interference.crane.io only"
SPEC_ONLY = "of a Node's spec an agent may change one taint only"
BAD_TAINT = "has no value and the effect PreferNoSchedule or NoSchedule"
ADDRESS = {"type": "InternalIP", "address": "192.0.2.1"}

OWNED_BY_A_POD = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}

AGENT_MAY_NOT: dict[str, tuple[Ask, str]] = {
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
        "an agent may not change a Node's labels, finalizers or owners",
    ),
    "give its node an address range": (
        patch(NODES, OWN, spec={"podCIDR": "192.0.2.0/24"}),
        SPEC_ONLY,
    ),
    "delete another node": (delete(NODES, OTHER), CANNOT.format("delete")),
    "delete its own node": (delete(NODES, OWN), CANNOT.format("delete")),
    "write a stranger's annotation": (
        patch_status(OWN, metadata={"annotations": {"example.com/a": "b"}}),
        "an agent may change annotations slackwater.io/... only",
    ),
    "remove a stranger's annotation": (
        patch_status(OWN, metadata={"annotations": {"example.com/there": None}}),
        "an agent may change annotations slackwater.io/... only",
    ),
    "label its own node": (
        patch_status(OWN, metadata={"labels": {"a": "b"}}),
        "an agent may not change a Node's labels, finalizers or owners",
    ),
    "keep its own node from going": (
        patch_status(OWN, metadata={"finalizers": ["example.com/stay"]}),
        "an agent may not change a Node's labels, finalizers or owners",
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
    "make another node's topology": (
        make(NODE_TOPOLOGIES, topology(OTHER)),
        f"this agent runs on node '{OWN}' and may not change the topology of node '{OTHER}'",
    ),
    "make its topology in Koordinator's name": (
        make(NODE_TOPOLOGIES, topology(OWN, "Koordinator")),
        "app.kubernetes.io/managed-by is Slackwater only, not 'Koordinator'",
    ),
    "delete a topology of Koordinator": (
        delete(NODE_TOPOLOGIES, "koordinators"),
        f"this agent runs on node '{OWN}' and may not change the topology",
    ),
    "keep its topology from going": (
        make(NODE_TOPOLOGIES, topology(OWN, finalizers=["example.com/stay"])),
        "an agent may not change a topology's finalizers",
    ),
    "let its topology go with a pod": (
        make(NODE_TOPOLOGIES, topology(OWN, ownerReferences=[OWNED_BY_A_POD])),
        "the topology of a node may be owned by that Node only",
    ),
    "move its node": (patch_status(OWN, **status(addresses=[ADDRESS])), CONDITIONS_ONLY),
    "cordon its own node": (patch(NODES, OWN, spec={"unschedulable": True}), SPEC_ONLY),
    "evict a critical pod of its node": (evict(WORK, "critical"), "which is critical or static"),
    "evict a static pod's copy": (evict(WORK, "mirror"), "which is critical or static"),
    "evict a pod of another node": (
        evict(WORK, f"on-{OTHER}"),
        f"this agent runs on node '{OWN}' and may not evict pod 'on-{OTHER}' of node '{OTHER}'",
    ),
    "delete a pod of another node": (
        delete(PODS, f"on-{OTHER}", WORK),
        CANNOT.format("delete"),
    ),
    "delete a pod of its own node": (delete(PODS, f"on-{OWN}", WORK), CANNOT.format("delete")),
    "change a pod": (
        patch(PODS, f"on-{OWN}", WORK, metadata={"labels": {"a": "b"}}),
        CANNOT.format("patch"),
    ),
    "make a pod": (make(PODS, pod("new", WORK, OWN)), CANNOT.format("create")),
    "see all secrets": (see(SECRETS), CANNOT.format("list")),
    "see the secrets beside it": (see(SECRETS, NAMESPACE), CANNOT.format("list")),
    "read a secret": (
        lambda who: who.get(SECRETS, "hidden", NAMESPACE),
        CANNOT.format("get"),
    ),
    "see others' configuration": (see(CONFIG_MAPS, NAMESPACE, "others"), CANNOT.format("list")),
    "see all configuration": (see(CONFIG_MAPS), CANNOT.format("list")),
    "change its own settings": (
        patch(CONFIG_MAPS, AGENT, NAMESPACE, data={}),
        CANNOT.format("patch"),
    ),
    "tell an event about another node": (
        make_event("Node", OTHER),
        f"may not tell events about Node '{OTHER}'",
    ),
    "tell an event in another node's name": (
        make_event("Pod", f"on-{OTHER}", WORK, OTHER),
        f"may not tell events about Pod 'on-{OTHER}' in the name of '{OTHER}'",
    ),
    "tell an event about others' configuration": (
        make_event("ConfigMap", "others", NAMESPACE, OWN),
        "may not tell events about ConfigMap 'others'",
    ),
    "tell an event about a service": (
        make_event("Service", AGENT, NAMESPACE, OWN),
        f"may not tell events about Service '{AGENT}'",
    ),
    "stop the manager": (
        patch(DEPLOYMENTS, MANAGER, NAMESPACE, spec={"replicas": 0}),
        CANNOT.format("patch"),
    ),
    "take the manager's lease": (
        patch(LEASES, MANAGER, NAMESPACE, spec={"holderIdentity": "me"}),
        CANNOT.format("patch"),
    ),
    "change a policy object": (
        patch(AVOIDANCE_ACTIONS, "calm", spec={}),
        CANNOT.format("patch"),
    ),
    "let itself loose": (
        delete(POLICIES, "slackwater-agent-node"),
        CANNOT.format("delete"),
    ),
}


@pytest.mark.parametrize("what", AGENT_MAY_NOT)
def test_the_agent_may_not(plane: ControlPlane, agent: Client, what: str) -> None:
    plane.kubectl("annotate", "node", OWN, "example.com/there=yes", "--overwrite")
    taint_by_others(plane)
    ask, sentence = AGENT_MAY_NOT[what]
    assert sentence in refusal(agent, ask)


#: Every other field of a Node's status, with a value that the API server would take.
STATUS_FIELDS: dict[str, object] = {
    "phase": "Terminated",
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    "nodeInfo": {"machineID": "another"},
    "images": [{"names": ["example.com/a:1"], "sizeBytes": 1}],
    "volumesInUse": ["example.com/volume"],
    "volumesAttached": [{"name": "example.com/volume", "devicePath": ""}],
    "runtimeHandlers": [{"name": "another", "features": {"userNamespaces": True}}],
    "features": {"supplementalGroupsPolicy": True},
}


@pytest.mark.parametrize("field", STATUS_FIELDS)
def test_of_its_nodes_status_the_agent_may_not_change(
    plane: ControlPlane, agent: Client, field: str
) -> None:
    ask = patch_status(OWN, **status(**{field: STATUS_FIELDS[field]}))
    assert CONDITIONS_ONLY in refusal(agent, ask)


def test_the_agent_may_not_remove_a_strangers_condition(plane: ControlPlane, agent: Client) -> None:
    ready = '{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}'
    plane.kubectl("patch", "node", OWN, "--subresource=status", "-p", ready)
    gone = {"$patch": "delete", "type": "Ready"}
    assert OURS_ONLY in refusal(agent, patch_status(OWN, **status(conditions=[gone])))


WITHOUT_A_NODE: dict[str, tuple[Ask, str]] = {
    "report": (patch_status(OWN, **REPORT), "this agent runs on node ''"),
    "evict": (evict(WORK, f"on-{OWN}"), "names no node, so it may evict nothing"),
    "tell an event": (make_event("Node", OWN), "this agent runs on node ''"),
}


@pytest.mark.parametrize("what", WITHOUT_A_NODE)
def test_a_token_that_names_no_node_may_not(
    plane: ControlPlane, nowhere: Client, what: str
) -> None:
    ask, sentence = WITHOUT_A_NODE[what]
    assert sentence in refusal(nowhere, ask)


def test_others_are_not_held_by_the_agents_policies(plane: ControlPlane) -> None:
    capacity = '{"status": {"capacity": {"cpu": "5"}}}'
    plane.kubectl("patch", "node", OTHER, "--subresource=status", "-p", capacity)
    plane.kubectl("label", "node", OTHER, "a=b")
    there = plane.get("node", OTHER)
    assert there["status"]["capacity"]["cpu"] == "5"
    assert there["metadata"]["labels"]["a"] == "b"


def test_the_policies_have_no_type_errors(plane: ControlPlane) -> None:
    """The API server checks the expressions against its own types, and warns in their status."""
    wait_for("all of them to be checked", lambda: all("status" in each for each in _ours(plane)))
    for each in _ours(plane):
        assert each["status"].get("typeChecking", {}) == {}


def _ours(plane: ControlPlane) -> list[dict[str, dict[str, object]]]:
    found = plane.get("validatingadmissionpolicies")["items"]
    ours = [each for each in found if each["metadata"]["name"].startswith("slackwater")]
    assert len(ours) >= 7
    return ours
