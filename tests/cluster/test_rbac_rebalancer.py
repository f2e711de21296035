"""What the rebalancer's own token may do, and what the API server refuses: a row for each.

It is bound to the whole cluster, and may delete as well as evict: what is left is what its policies
hold.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.resources import DEPLOYMENTS, LEASES, PODS
from slackwater.kube.client import Client
from slackwater.rebalancer.last_rotation import ANNOTATION
from tests.cluster.chart import (
    AGENT,
    MANAGER,
    OTHER,
    OWN,
    REBALANCER,
    SPARED,
    WORK,
    Ask,
    delete,
    delete_pod,
    evict,
    make,
    make_event,
    make_spared_pods,
    patch,
    refusal,
    token_client,
    try_deleting,
    try_evicting,
    with_rights,
)
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for
from tools.manifests import render

VALUES = ("rebalancer.enabled=true", "rebalancer.mode=deployment", "rebalancer.clusterWide=true")


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    given = render(str(programs["helm"]), NAMESPACE, *VALUES)
    with with_rights(ControlPlane(make_folder(), programs), given) as made:
        may_delete = ("--verb=delete", "--resource=pods")
        made.kubectl("create", "clusterrole", "deletes", *may_delete)
        account = f"--serviceaccount={NAMESPACE}:{REBALANCER}"
        made.kubectl("create", "clusterrolebinding", "deletes", "--clusterrole=deletes", account)
        make_spared_pods(made)
        made.create(workload(WORK), workload("kube-system"))
        yield made


def workload(namespace: str) -> dict[str, object]:
    """Without pods."""
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nothing"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


@pytest.fixture(scope="module")
def rebalancer(plane: ControlPlane) -> Client:
    made = token_client(plane, REBALANCER, REBALANCER)
    # The API server learns of a policy a moment after it was made. What changes nothing is never
    # refused, so each attempt to patch says something else.
    labels = (patch(DEPLOYMENTS, "web", WORK, metadata={"labels": {"early": f"{number}"}})
              for number in itertools.count())  # fmt: skip
    for early in (
        itertools.repeat(try_evicting(WORK, "critical")),
        itertools.repeat(try_deleting(WORK, "critical")),
        labels,
        itertools.repeat(make(LEASES, {"metadata": {"name": MANAGER, "namespace": NAMESPACE}})),
        itertools.repeat(make_event("Deployment", "web", WORK)),
    ):
        wait_for("a policy to hold", partial(_is_held, made, early))
    return made


def _is_held(who: Client, asked: Iterator[Ask]) -> bool:
    return "ValidatingAdmissionPolicy" in refusal(who, next(asked))


def note(namespace: str, **metadata: object) -> Ask:
    return patch(DEPLOYMENTS, "web", namespace, metadata=metadata)


MAY: dict[str, Ask] = {
    "evict a pod": try_evicting(WORK, f"on-{OWN}"),
    "delete a pod": delete_pod(WORK, f"on-{OTHER}"),
    "note a rotation": note(WORK, annotations={ANNOTATION: "{}"}),
    "take the note back": note(WORK, annotations={ANNOTATION: None}),
    "tell an event": make_event("Deployment", "web", WORK, component=REBALANCER),
}


@pytest.mark.parametrize("what", MAY)
def test_it_may(plane: ControlPlane, rebalancer: Client, what: str) -> None:
    assert refusal(rebalancer, MAY[what]) == ""


ONLY = "the rebalancer may change the annotation slackwater.io/last-rotation and nothing else"
BY_UID = "the rebalancer may remove a pod by its uid only (preconditions.uid)"
NOT_THERE = "the rebalancer may remove nothing in kube-system"

MAY_NOT: dict[str, tuple[Ask, str]] = {
    **{
        f"evict a pod that is {why}": (
            evict(WORK, name),
            f"the rebalancer may not evict pod '{name}', which is {why}",
        )
        for name, why in SPARED.items()
    },
    **{
        f"delete a pod that is {why}": (
            delete_pod(WORK, name),
            f"the rebalancer may not delete pod '{name}', which is {why}",
        )
        for name, why in SPARED.items()
    },
    "evict in kube-system": (evict("kube-system", "system"), NOT_THERE),
    "delete in kube-system": (delete_pod("kube-system", "system"), NOT_THERE),
    "evict without a uid": (lambda who: who.evict(WORK, f"on-{OWN}"), BY_UID),
    "delete without a uid": (delete(PODS, f"on-{OWN}", WORK), BY_UID),
    "note a rotation in kube-system": (
        note("kube-system", annotations={ANNOTATION: "{}"}),
        "the rebalancer may change nothing in kube-system",
    ),
    "annotate otherwise": (note(WORK, annotations={"slackwater.io/rotate": "false"}), ONLY),
    "label a workload": (note(WORK, labels={"a": "b"}), ONLY),
    "keep a workload from going": (note(WORK, finalizers=["example.com/stay"]), ONLY),
    "scale": (patch(DEPLOYMENTS, "web", WORK, spec={"replicas": 1}), ONLY),
    "tell an event as an agent": (
        make_event("Deployment", "web", WORK, component=AGENT),
        f"{REBALANCER} may not tell events in the name of '{AGENT}'",
    ),
    "make the manager's lease": (
        make(LEASES, {"metadata": {"name": MANAGER, "namespace": NAMESPACE}}),
        f"{REBALANCER} may hold the lease of its own name only, not '{MANAGER}'",
    ),
}


@pytest.mark.parametrize("what", MAY_NOT)
def test_it_may_not(plane: ControlPlane, rebalancer: Client, what: str) -> None:
    ask, sentence = MAY_NOT[what]
    assert sentence in refusal(rebalancer, ask)
