"""What the manager's own token may do, and what the API server refuses: a row for each."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    RATIO_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    CONFIG_MAPS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    NODE_TOPOLOGIES,
    NODES,
    POD_QOS,
    PODS,
    TIME_SERIES_PREDICTIONS,
    Resource,
)
from slackwater.kube.client import Client
from tests.cluster.chart import (
    AGENT,
    CANNOT,
    MANAGER,
    OWN,
    REBALANCER,
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
    pod_client,
    refusal,
    see,
    with_rights,
)
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    with with_rights(ControlPlane(make_folder(), programs)) as made:
        made.kubectl("annotate", "node", OWN, "theirs=x")
        held = pod_client(made, MANAGER, "manager")
        # The API server learns of a policy a moment after it was made. What changes nothing is not
        # refused, so each attempt says something else.
        early = (annotate({"early": str(number)}) for number in itertools.count())
        wait_for("the policy to hold", lambda: ONLY in refusal(held, next(early)))
        made.kubectl("annotate", "node", OWN, "early-")
        yield made


@pytest.fixture(scope="module")
def manager(plane: ControlPlane) -> Client:
    return pod_client(plane, MANAGER, "manager")


ACTION = {
    "apiVersion": "ensurance.crane.io/v1alpha1",
    "kind": "AvoidanceAction",
    "metadata": {"name": "calm"},
    "spec": {"description": "a test", "coolDownSeconds": 300},
}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": MANAGER, "namespace": NAMESPACE},
    "spec": {"holderIdentity": "a test"},
}
KINDS = (
    AVOIDANCE_ACTIONS,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    POD_QOS,
    TIME_SERIES_PREDICTIONS,
    NODES,
    NODE_TOPOLOGIES,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_the_manager_may_see(plane: ControlPlane, manager: Client, kind: Resource) -> None:
    assert refusal(manager, see(kind)) == ""


@pytest.mark.parametrize("kind", KINDS[:-2], ids=lambda kind: kind.plural)
def test_the_manager_may_tell_a_status(
    plane: ControlPlane, manager: Client, kind: Resource
) -> None:
    """The object itself may be missing: the answer is then about that, and not about rights."""
    plane.apply(ACTION)
    told = {"status": {"summary": "a test"}}

    def apply(who: Client) -> bytes:
        return who.apply(kind, "calm", told, manager=MANAGER, subresource="status")

    said = refusal(manager, apply)
    assert said == "" if kind is AVOIDANCE_ACTIONS else "not found" in said


def test_the_manager_may_lead_and_tell_events(plane: ControlPlane, manager: Client) -> None:
    manager.create(LEASES, LEASE, NAMESPACE)
    lease = json.loads(manager.get(LEASES, MANAGER, NAMESPACE))
    manager.replace(LEASES, MANAGER, lease, namespace=NAMESPACE)
    assert refusal(manager, make_event("AvoidanceAction", "calm", component=MANAGER)) == ""


def annotate(annotations: dict[str, str | None]) -> Ask:
    return patch(NODES, OWN, metadata={"annotations": annotations})


ONLY = "of a Node's annotations the manager may change node.koordinator.sh/cpu-normalization-ratio"
NOTHING_ELSE = "the manager may not change a Node's labels, finalizers, owners or spec"


def test_the_manager_may_see_the_model_and_pods(plane: ControlPlane, manager: Client) -> None:
    assert refusal(manager, see(CONFIG_MAPS, name="slo-controller-config")) == ""
    assert refusal(manager, see(PODS)) == ""


def test_the_manager_may_change_two_annotations_of_a_node(
    plane: ControlPlane, manager: Client
) -> None:
    both = {RATIO_ANNOTATION: "1.20", AMPLIFICATION_ANNOTATION: '{"cpu":1.20}'}
    assert refusal(manager, annotate({**both})) == ""
    assert (
        refusal(manager, annotate({RATIO_ANNOTATION: "1.00", AMPLIFICATION_ANNOTATION: None})) == ""
    )
    found = plane.get("node", OWN)["metadata"]["annotations"]
    assert found[RATIO_ANNOTATION] == "1.00"
    assert AMPLIFICATION_ANNOTATION not in found


MANAGER_MAY_NOT: dict[str, tuple[Ask, str]] = {
    "see secrets": (see(SECRETS), CANNOT.format("list")),
    "see configuration": (see(CONFIG_MAPS, NAMESPACE), CANNOT.format("list")),
    "change a policy": (patch(AVOIDANCE_ACTIONS, "calm", spec={}), CANNOT.format("patch")),
    "delete a policy": (delete(AVOIDANCE_ACTIONS, "calm"), CANNOT.format("delete")),
    "change another annotation": (annotate({"team": "x"}), ONLY),
    "change ours and another at once": (annotate({RATIO_ANNOTATION: "1.20", "team": "x"}), ONLY),
    "write the webhook's annotation": (annotate({RAW_ALLOCATABLE_ANNOTATION: "{}"}), ONLY),
    "remove another's annotation": (annotate({"theirs": None}), ONLY),
    "label a node": (patch(NODES, OWN, metadata={"labels": {"a": "b"}}), NOTHING_ELSE),
    "close a node": (patch(NODES, OWN, spec={"unschedulable": True}), NOTHING_ELSE),
    "taint a node": (
        patch(NODES, OWN, spec={"taints": [{"key": "a", "effect": "NoExecute"}]}),
        NOTHING_ELSE,
    ),
    "delete a node": (delete(NODES, OWN), CANNOT.format("delete")),
    "change a pod": (patch(PODS, f"on-{OWN}", WORK, metadata={}), CANNOT.format("patch")),
    "change the model": (
        patch(CONFIG_MAPS, "slo-controller-config", "koordinator-system", data={}),
        CANNOT.format("patch"),
    ),
    "change a topology": (patch(NODE_TOPOLOGIES, OWN, metadata={}), CANNOT.format("patch")),
    "report in a node's status": (patch_status(OWN, **REPORT), "normalization and amplification"),
    "change a node's conditions": (
        patch_status(OWN, status={"conditions": [{"type": "Ready", "status": "True"}]}),
        "of a Node's conditions the manager may change NormalizationHeld only",
    ),
    "see another secret": (lambda who: who.get(SECRETS, "hidden", NAMESPACE), CANNOT.format("get")),
    "make a secret": (
        lambda who: who.create(SECRETS, {"metadata": {"name": "x"}}, NAMESPACE),
        CANNOT.format("create"),
    ),
    "change another webhook": (
        patch(MUTATING_WEBHOOKS, "others", webhooks=[]),
        CANNOT.format("patch"),
    ),
    "evict": (evict(WORK, f"on-{OWN}", "any"), CANNOT.format("create")),
    "tell an event as an agent": (
        make_event("Node", OWN),
        f"{MANAGER} may not tell events in the name of '{AGENT}'",
    ),
    "make another program's lease": (
        make(LEASES, {**LEASE, "metadata": {"name": REBALANCER, "namespace": NAMESPACE}}),
        f"{MANAGER} may hold the lease of its own name only, not '{REBALANCER}'",
    ),
    "keep its lease from going": (
        make(
            LEASES,
            {
                **LEASE,
                "metadata": {
                    "name": MANAGER,
                    "namespace": NAMESPACE,
                    "finalizers": ["example.com/stay"],
                },
            },
        ),
        f"{MANAGER} may not change its lease's finalizers or owners",
    ),
    "patch its lease": (patch(LEASES, MANAGER, NAMESPACE, spec={}), CANNOT.format("patch")),
    "take another lease": (
        patch(LEASES, "kube-scheduler", "kube-system", spec={}),
        CANNOT.format("patch"),
    ),
}


@pytest.mark.parametrize("what", MANAGER_MAY_NOT)
def test_the_manager_may_not(plane: ControlPlane, manager: Client, what: str) -> None:
    ask, sentence = MANAGER_MAY_NOT[what]
    assert sentence in refusal(manager, ask)
