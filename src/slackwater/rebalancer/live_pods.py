"""A workload's pods by the owner chain, as values.

Pure. Owns the chain Pod -> ReplicaSet -> Deployment, or Pod -> StatefulSet, by uid: a name may be
another object's by now. Finished pods are left out: they carry nothing and cannot be evicted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from slackwater.contract.label_selector import LabelSelector
from slackwater.contract.owned_pod import (
    Amount,
    OwnedPod,
    PodContainer,
    Resources,
    began,
    cores_of,
    pod_cores_of,
)
from slackwater.contract.scaled_workload import ScaledWorkload
from slackwater.model.gap import Gap
from slackwater.rebalancer.fleet import Cores
from slackwater.rebalancer.opt_out import pod_held_back
from slackwater.rebalancer.seen import ContainerAmounts, LivePod
from slackwater.record.ages import moment

Owned = TypeVar("Owned", OwnedPod, ScaledWorkload)


def by_controller(objects: Iterable[Owned]) -> dict[str, list[Owned]]:
    """By the uid of who made them; those that nobody made are left out."""
    found: dict[str, list[Owned]] = {}
    for each in objects:
        controller = each.metadata.controller
        if controller is not None and controller.uid:
            found.setdefault(controller.uid, []).append(each)
    return found


def owned_by(
    uid: str,
    pods: Mapping[str, Sequence[OwnedPod]],
    sets: Mapping[str, Sequence[ScaledWorkload]],
) -> list[OwnedPod]:
    """Whose controller is this uid, or a ReplicaSet whose controller it is. `pods` and `sets` are
    by their controllers."""
    owners = [uid, *(each.metadata.uid for each in sets.get(uid, ()))]
    return [pod for owner in owners for pod in pods.get(owner, ()) if not pod.is_finished()]


def live_pods(pods: Sequence[OwnedPod], selector: LabelSelector) -> tuple[LivePod, ...]:
    """Those that the selector means; InvalidError where one cannot be understood."""
    return tuple(live_pod(pod) for pod in pods if selector.selects(pod.metadata.labels))


def live_pod(pod: OwnedPod) -> LivePod:
    return LivePod(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        node=pod.spec.node_name,
        started=_started(pod),
        containers=tuple(_amounts(pod, each) for each in pod.staying()),
        running=pod.is_running(),
        ready=pod.is_ready(),
        terminating=bool(pod.metadata.deletion_timestamp),
        held_back=pod_held_back(pod),
        whole=_whole(pod),
    )


def _started(pod: OwnedPod) -> float:
    """Seconds since 1970."""
    stated = began(pod)
    at = moment(stated.value) if isinstance(stated.value, str) else None
    if at is None:
        raise stated.refused("a time such as 2026-11-17T10:00:00Z")
    return at.timestamp()


def _amounts(pod: OwnedPod, container: PodContainer) -> ContainerAmounts:
    request = cores_of(pod, container, Amount.REQUEST)
    limit = cores_of(pod, container, Amount.LIMIT)
    return ContainerAmounts(container.name, _typed(request), _typed(limit))


def _whole(pod: OwnedPod) -> ContainerAmounts | None:
    """As the HPA asks: whether the pod has requests of its own (calculateRequests in
    pkg/controller/podautoscaler/replica_calculator.go)."""
    if pod.spec.resources == Resources():
        return None
    request, limit = pod_cores_of(pod, Amount.REQUEST), pod_cores_of(pod, Amount.LIMIT)
    return ContainerAmounts("", _typed(request), _typed(limit))


def _typed(amount: float | Gap) -> Cores | Gap:
    return amount if isinstance(amount, Gap) else Cores(amount)
