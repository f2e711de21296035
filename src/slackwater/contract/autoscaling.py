"""HorizontalPodAutoscalers of autoscaling/v2, as far as the rebalancer uses them.

Owns their field paths and what a metric's target may be. Refuses to choose among them.
"""

import enum

import msgspec

from slackwater.contract.object_metadata import Metadata


class MetricKind(enum.Enum):
    """Types of metrics that can be about the CPU of a pod; others are read and not used."""

    RESOURCE = "Resource"
    CONTAINER_RESOURCE = "ContainerResource"


class TargetKind(enum.Enum):
    UTILIZATION = "Utilization"
    AVERAGE_VALUE = "AverageValue"
    VALUE = "Value"


class ScaleTarget(msgspec.Struct, frozen=True, rename="camel"):
    """Which object it scales, in its own namespace."""

    kind: str
    name: str
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


class Autoscaler(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: AutoscalerSpec
    status: AutoscalerStatus = AutoscalerStatus()

    @property
    def name(self) -> str:
        return self.metadata.name
