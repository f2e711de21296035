"""What the agent's own token may do, and what the API server refuses: a row for each.

The objects are those of `slackwater install --print`. The agent's token is bound to a pod on
node-a, as the kubelet's are, and our own client asks.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    COLOCATION_CONFIGURATIONS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENSURANCE_METRICS,
    EVENTS,
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
from tests.cluster.agent_rights import (
    OURS,
    SECOND,
    THEIRS,
    condition,
    offered,
    taint_by_others,
    tainted,
    topology,
    with_agent_rights,
)
from tests.cluster.chart import (
    AGENT,
    CANNOT,
    MANAGER,
    OTHER,
    OWN,
    REPORT,
    SECRETS,
    SPARED,
    WORK,
    Ask,
    delete,
    event,
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
)
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "", namespaced=False
)


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    with with_agent_rights(ControlPlane(make_folder(), programs)) as made:
        yield made


def event_elsewhere() -> dict[str, Any]:
    """About the agent's node, in a namespace where the node is not."""
    made = event("Node", OWN, WORK, OWN)
    return made | {"involvedObject": {"kind": "Node", "name": OWN, "namespace": WORK}}


def keep_topology(who: Client) -> None:
    """As the agent does: made, read, replaced and deleted."""
    who.create(NODE_TOPOLOGIES, topology(OWN))
    there = json.loads(who.get(NODE_TOPOLOGIES, OWN))
    who.replace(NODE_TOPOLOGIES, OWN, there | {"topologyPolicies": ["BestEffort"]})
    who.delete(NODE_TOPOLOGIES, OWN, uid=there["metadata"]["uid"])


@pytest.fixture(scope="module")
def agent(plane: ControlPlane) -> Client:
    return pod_client(plane, AGENT, "agent")


@pytest.fixture(scope="module")
def nowhere(plane: ControlPlane) -> Client:
    """The agent's account, by a token that was made for no pod."""
    return token_client(plane, "nowhere", AGENT)


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
    "count its event on": patch(EVENTS, "own", WORK, count=2, message="again"),
    "read a pod": lambda who: who.get(PODS, f"on-{OWN}", WORK),
    "see actions": see(AVOIDANCE_ACTIONS),
    "see rules": see(NODE_QOS),
    "see rules of the older kind": see(NODE_QOS_ENSURANCE_POLICIES),
    "see which pods may be acted on": see(POD_QOS),
    "see metrics of one's own": see(ENSURANCE_METRICS),
    "tell an event about its node": make_event("Node", OWN),
    "tell an event about a pod": make_event("Pod", f"on-{OWN}", WORK),
    "tell an event about Volcano's settings": make_event("ColocationConfiguration", "any"),
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


OWNED_BY_A_POD = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}

AGENT_MAY_NOT: dict[str, tuple[Ask, str]] = {
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
    **{
        f"evict a pod of its node that is {why}": (
            evict(WORK, name),
            f"an agent may not evict pod '{name}', which is {why}",
        )
        for name, why in SPARED.items()
    },
    "evict in kube-system": (
        evict("kube-system", "system"),
        "an agent may evict nothing in kube-system",
    ),
    "evict without a uid": (
        lambda who: who.evict(WORK, f"on-{OWN}"),
        "an agent may evict a pod by its uid only (deleteOptions.preconditions.uid)",
    ),
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
        make_event("Pod", f"on-{OTHER}", WORK, host=OTHER),
        f"may not tell events in the name of '{OTHER}'",
    ),
    "tell an event in the kubelet's name": (
        make_event("Pod", f"on-{OWN}", WORK, component="kubelet"),
        f"{AGENT} may not tell events in the name of 'kubelet'",
    ),
    "tell an event about its node where nobody looks": (
        make(EVENTS, event_elsewhere()),
        f"may not tell events about Node '{OWN}' in namespace '{WORK}'",
    ),
    "tell an event about its settings elsewhere": (
        make_event("ConfigMap", AGENT, WORK),
        f"may not tell events about ConfigMap '{AGENT}' in namespace '{WORK}'",
    ),
    "change another component's event": (
        patch(EVENTS, "kubelets", WORK, message="nothing happened"),
        f"{AGENT} may not tell events in the name of 'kubelet'",
    ),
    "take over another component's event": (
        patch(
            EVENTS,
            "kubelets",
            WORK,
            source={"component": AGENT, "host": OWN},
            reportingComponent=AGENT,
            reportingInstance=OWN,
        ),
        f"of an event {AGENT} may change its own count, lastTimestamp and message only",
    ),
    "change another agent's event": (
        patch(EVENTS, "others", WORK, message="nothing happened"),
        f"may not tell events in the name of '{OTHER}'",
    ),
    "take over another agent's event": (
        patch(EVENTS, "others", WORK, source={"host": OWN}, reportingInstance=OWN),
        f"of an event {AGENT} may change its own count, lastTimestamp and message only",
    ),
    "change what its event is about": (
        patch(EVENTS, "own", WORK, involvedObject={"name": f"on-{OTHER}"}),
        f"of an event {AGENT} may change its own count, lastTimestamp and message only",
    ),
    "label its event": (
        patch(EVENTS, "own", WORK, metadata={"labels": {"a": "b"}}),
        f"of an event {AGENT} may not change the metadata",
    ),
    "tell an event about others' configuration": (
        make_event("ConfigMap", "others", NAMESPACE),
        "may not tell events about ConfigMap 'others'",
    ),
    "tell an event about a service": (
        make_event("Service", AGENT, NAMESPACE),
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
    ask, sentence = AGENT_MAY_NOT[what]
    assert sentence in refusal(agent, ask)


def test_the_agent_may_not_take_over_a_topology(plane: ControlPlane, agent: Client) -> None:
    """Unless the chart's settings say takeOver."""
    plane.create(topology(OWN, "Koordinator"))

    def take_over(who: Client) -> None:
        there = json.loads(who.get(NODE_TOPOLOGIES, OWN))
        labels = {"app.kubernetes.io/managed-by": "Slackwater"}
        there["metadata"]["labels"] = labels
        who.replace(NODE_TOPOLOGIES, OWN, there)

    said = refusal(agent, take_over)
    plane.kubectl("delete", "noderesourcetopologies.topology.node.k8s.io", OWN)
    assert "an agent may take over another program's topology only where" in said


WITHOUT_A_NODE: dict[str, tuple[Ask, str]] = {
    "report": (patch_status(OWN, **REPORT), "this agent runs on node ''"),
    "evict": (evict(WORK, f"on-{OWN}"), "this agent runs on node ''"),
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
