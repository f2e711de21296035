"""Pods as a rotation sees them: whose they are, since when they run, what their containers ask for.

Owns these field paths. Containers are those that stay: regular ones, and init containers that run
on (sidecars); init containers that end, and ephemeral ones, are no part of the load.
"""

import enum

import msgspec

from slackwater.contract.document import Field
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.object_metadata import Metadata
from slackwater.model.gap import Gap
from slackwater.model.units import QuantityError, parse_quantity

_CPU, _READY, _ALWAYS = "cpu", "Ready", "Always"
_FINISHED = frozenset(("Succeeded", "Failed"))
_WANTED = "a quantity such as 250m or 2, zero or more"


class Amount(enum.Enum):
    """Which of a container's amounts of CPU."""

    REQUEST = "requests"
    LIMIT = "limits"


class Resources(msgspec.Struct, frozen=True):
    """By the resource's name; quantities are texts."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class PodContainer(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resources: Resources = Resources()
    restart_policy: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[PodContainer, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()
    node_name: str = ""
    resources: Resources = Resources()


class PodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    start_time: str = ""
    conditions: tuple[PodCondition, ...] = ()


class OwnedPod(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def source(self) -> str:
        """For a sentence."""
        return f"Pod {self.metadata.place}"

    def is_running(self) -> bool:
        return self.status.phase == "Running"

    def is_finished(self) -> bool:
        return self.status.phase in _FINISHED

    def is_ready(self) -> bool:
        return any(c.type == _READY and c.status == "True" for c in self.status.conditions)

    def is_static(self) -> bool:
        """The API server's copy of a pod that its node alone decides on."""
        return MIRROR in self.metadata.annotations

    def staying(self) -> tuple[PodContainer, ...]:
        """The containers that make its load."""
        sidecars = (each for each in self.spec.init_containers if each.restart_policy == _ALWAYS)
        return (*sidecars, *self.spec.containers)


def began(pod: OwnedPod) -> Field:
    """When its node took it, as RFC 3339; before that, when it was created."""
    if pod.status.start_time:
        return Field(pod.source, "status.startTime", pod.status.start_time)
    created = pod.metadata.creation_timestamp
    return Field(pod.source, "metadata.creationTimestamp", created or None)


def cores_of(pod: OwnedPod, container: PodContainer, amount: Amount) -> float | Gap:
    """A container's CPU in cores. A request that is not there is the limit, as the API server fills
    it in; a limit of zero is none, as for the kubelet."""
    who = f"container {container.name}"
    return _cores(pod, container.resources, amount, who, f"{who}: resources")


def pod_cores_of(pod: OwnedPod, amount: Amount) -> float | Gap:
    """What the pod states for itself as a whole (spec.resources, Kubernetes 1.32 and later)."""
    return _cores(pod, pod.spec.resources, amount, "the pod itself", "spec.resources")


def _cores(
    pod: OwnedPod, resources: Resources, amount: Amount, who: str, where: str
) -> float | Gap:
    stated = {Amount.REQUEST: resources.requests, Amount.LIMIT: resources.limits}
    source = Amount.LIMIT if _CPU not in stated[amount] else amount
    text = stated[source].get(_CPU)
    found = None
    if text is not None:
        found = _quantity(Field(pod.source, f"{where}.{source.value}.{_CPU}", text))
    if found is None or (found == 0 and amount is Amount.LIMIT):
        return Gap(f"{who} has no CPU {amount.name.lower()}")
    return found


def _quantity(field: Field) -> float:
    try:
        ratio = parse_quantity(str(field.value))
    except QuantityError:
        raise field.refused(_WANTED) from None
    if ratio.numerator < 0:
        raise field.refused(_WANTED)
    return ratio.numerator / ratio.denominator
