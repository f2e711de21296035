"""What the rebalancer reads: pods with their owners, the workloads that an autoscaler scales,
HorizontalPodAutoscalers and PodDisruptionBudgets.

Containers of a pod are those that stay: regular ones, and init containers that run on (sidecars);
init containers that end, and ephemeral ones, do not count as load. An empty selector of a
disruption budget covers every pod of the namespace, none covers nobody.
"""

import enum

import msgspec

from slackwater.contract.document import Field
from slackwater.contract.kubernetes import Condition, KubernetesObject, LocalReference
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.label_selector import LabelSelector, Operator, Requirement
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


class OwnedPodSpec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[PodContainer, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()
    node_name: str = ""
    resources: Resources = Resources()


class OwnedPodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    start_time: str = ""
    conditions: tuple[Condition, ...] = ()


class OwnedPod(KubernetesObject, frozen=True):
    spec: OwnedPodSpec = OwnedPodSpec()
    status: OwnedPodStatus = OwnedPodStatus()

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


#: A Deployment's condition: as many pods are available as its strategy wants.
_AVAILABLE = "Available"
#: StatefulSets whose pods come back with another revision only when somebody deletes them.
_ON_DELETE = "OnDelete"
#: What the API server fills in where a spec says nothing.
_REPLICAS = 1
#: Of a StatefulSet that does not say how many may be away.
_MOST_UNAVAILABLE = 1


class RollingUpdate(msgspec.Struct, frozen=True):
    """`partition`: of a StatefulSet; pods below it keep the old revision on purpose."""

    partition: int = 0


class UpdateStrategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    rolling_update: RollingUpdate = RollingUpdate()


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int = _REPLICAS
    update_strategy: UpdateStrategy = UpdateStrategy()


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the object's controller has seen and done. Revisions are a StatefulSet's."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()


class ScaledWorkload(KubernetesObject, frozen=True):
    """Any of the three: what one kind does not have is empty."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


def rollout_of(kind: str, workload: ScaledWorkload) -> str:
    """Why its pods are being exchanged, as a sentence; empty where they are not."""
    status, meta = workload.status, workload.metadata
    if status.observed_generation < meta.generation:
        return (
            f"its controller has seen generation {status.observed_generation} of {meta.generation}"
        )
    match kind:
        case "Deployment":
            return _deployment_rollout(workload)
        case "StatefulSet":
            return _stateful_set_rollout(workload)
        case _:
            return ""


def _deployment_rollout(workload: ScaledWorkload) -> str:
    """As `kubectl rollout status` goes: first the new pods, then the old ones, then readiness."""
    status, wanted = workload.status, workload.spec.replicas
    if status.updated_replicas < min(wanted, status.replicas):
        return f"{status.updated_replicas} of {wanted} pods are of the newest template"
    if status.replicas > status.updated_replicas:
        old = status.replicas - status.updated_replicas
        return f"{old} of {status.replicas} pods are of an older template and are to go"
    if any(each.type == _AVAILABLE and each.status == "False" for each in status.conditions):
        return (
            f"{status.available_replicas} of {wanted} pods are available, fewer than its "
            "strategy allows"
        )
    return ""


def _stateful_set_rollout(workload: ScaledWorkload) -> str:
    status, spec = workload.status, workload.spec
    if status.current_revision != status.update_revision:
        if spec.update_strategy.type == _ON_DELETE:
            return (
                "its strategy is OnDelete and it has a new revision, which every pod that goes "
                "would come back with"
            )
        wanted = max(spec.replicas - spec.update_strategy.rolling_update.partition, 0)
        if status.updated_replicas < wanted:
            return f"{status.updated_replicas} of {wanted} pods are of the newest revision"
    if status.available_replicas < min(spec.replicas, status.replicas) - _MOST_UNAVAILABLE:
        return f"{status.available_replicas} of {spec.replicas} pods are available"
    return ""


class MetricKind(enum.Enum):
    """Types of metrics that can be about the CPU of a pod; others are read and not used."""

    RESOURCE = "Resource"
    CONTAINER_RESOURCE = "ContainerResource"


class TargetKind(enum.Enum):
    UTILIZATION = "Utilization"
    AVERAGE_VALUE = "AverageValue"
    VALUE = "Value"


class ScaleTarget(LocalReference, frozen=True, rename="camel"):
    """The object that an autoscaler scales."""

    api_version: str = ""


class MetricTarget(msgspec.Struct, frozen=True, rename="camel"):
    """`type` is still text: a newer server may have another. Quantities are texts."""

    type: str = ""
    average_utilization: int | None = None
    average_value: str | None = None
    value: str | None = None


class ResourceMetric(msgspec.Struct, frozen=True):
    """`container` is empty where the whole pod is measured."""

    name: str = ""
    container: str = ""
    target: MetricTarget = MetricTarget()


class Metric(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    resource: ResourceMetric | None = None
    container_resource: ResourceMetric | None = None

    def measured(self) -> ResourceMetric | None:
        """What it measures of a pod's own resources; None where it is another metric."""
        match self.type:
            case MetricKind.RESOURCE.value:
                return self.resource
            case MetricKind.CONTAINER_RESOURCE.value:
                return self.container_resource
            case _:
                return None


class AutoscalerSpec(msgspec.Struct, frozen=True, rename="camel"):
    scale_target_ref: ScaleTarget
    metrics: tuple[Metric, ...] = ()


class AutoscalerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`desired_replicas` is 0 until the controller has had a first metric."""

    current_replicas: int = 0
    desired_replicas: int = 0


class Autoscaler(KubernetesObject, frozen=True):
    spec: AutoscalerSpec
    status: AutoscalerStatus = AutoscalerStatus()

    @property
    def name(self) -> str:
        return self.metadata.name


class PodSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def meaning(self) -> LabelSelector:
        pairs = self.match_labels.items()
        equal = [Requirement(key, Operator.IN.value, (value,)) for key, value in pairs]
        return LabelSelector((*equal, *self.match_expressions))


class BudgetSpec(msgspec.Struct, frozen=True):
    selector: PodSelector | None = None


class BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0


class DisruptionBudget(KubernetesObject, frozen=True):
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def covers(self, labels: dict[str, str]) -> bool:
        selector = self.spec.selector
        return selector is not None and selector.meaning().selects(labels)
