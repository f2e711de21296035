"""What the manager's own token may do, and what the API server refuses: a row for each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    CONFIG_MAPS,
    LEASES,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    NODES,
    POD_QOS,
    PODS,
    Resource,
)
from slackwater.kube.client import Client
from tests.cluster.chart import (
    CANNOT,
    MANAGER,
    OWN,
    REPORT,
    SECRETS,
    WORK,
    Ask,
    delete,
    evict,
    make_event,
    patch,
    patch_status,
    pod_client,
    refusal,
    see,
    with_rights,
)
from tools.cluster.control_plane import ControlPlane


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    with with_rights(ControlPlane(make_folder(), programs)) as made:
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
KINDS = (AVOIDANCE_ACTIONS, NODE_QOS, NODE_QOS_ENSURANCE_POLICIES, POD_QOS, NODES)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_the_manager_may_see(plane: ControlPlane, manager: Client, kind: Resource) -> None:
    assert refusal(manager, see(kind)) == ""


@pytest.mark.parametrize("kind", KINDS[:-1], ids=lambda kind: kind.plural)
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
    manager.get(LEASES, MANAGER, NAMESPACE)
    assert refusal(manager, patch(LEASES, MANAGER, NAMESPACE, spec={})) == ""
    assert refusal(manager, make_event("AvoidanceAction", "calm")) == ""


MANAGER_MAY_NOT: dict[str, tuple[Ask, str]] = {
    "see secrets": (see(SECRETS), CANNOT.format("list")),
    "see pods": (see(PODS), CANNOT.format("list")),
    "see configuration": (see(CONFIG_MAPS, NAMESPACE), CANNOT.format("list")),
    "change a policy": (patch(AVOIDANCE_ACTIONS, "calm", spec={}), CANNOT.format("patch")),
    "delete a policy": (delete(AVOIDANCE_ACTIONS, "calm"), CANNOT.format("delete")),
    "change a node": (patch(NODES, OWN, metadata={}), CANNOT.format("patch")),
    "change a node's status": (patch_status(OWN, **REPORT), CANNOT.format("patch")),
    "evict": (evict(WORK, f"on-{OWN}"), CANNOT.format("create")),
    "take another lease": (
        patch(LEASES, "kube-scheduler", "kube-system", spec={}),
        CANNOT.format("patch"),
    ),
}


@pytest.mark.parametrize("what", MANAGER_MAY_NOT)
def test_the_manager_may_not(plane: ControlPlane, manager: Client, what: str) -> None:
    ask, sentence = MANAGER_MAY_NOT[what]
    assert sentence in refusal(manager, ask)
