"""Crane's PodQOS: which pods an action may touch, and the quality that they are to have.

Owns its fields, defaults and bounds. Of the quality almost nothing has an effect in Crane's open
source; those fields are accepted and say so.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.crane_pod_io import DiskIoQos, NetIoQos
from slackwater.contract.crane_pod_memory import MemoryQos
from slackwater.contract.crane_probe import PodQualityProbe
from slackwater.contract.crane_selector import Selector
from slackwater.contract.crane_status import EnsuranceStatus
from slackwater.contract.crane_values import Metadata, Number, Priority, Text

_IDLE = Meta(description="Accepted, has no effect.")


class Scope(enum.Enum):
    """What of a pod a scope expression looks at."""

    QOS_CLASS = "QOSClass"
    PRIORITY = "Priority"
    NAMESPACE = "Namespace"


class ScopeOperator(enum.Enum):
    IN = "In"
    NOT_IN = "NotIn"


class ScopeExpression(msgspec.Struct, frozen=True, rename="camel"):
    """One condition on a pod's QoS class, priority or namespace."""

    scope_name: Annotated[Scope, Meta(description="What of the pod is looked at.")]
    operator: Annotated[
        ScopeOperator, Meta(description="Whether it must be among the values, or must not.")
    ]
    values: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=63)], ...],
        Meta(
            description="QOSClass: Guaranteed, Burstable, BestEffort. Priority: numbers such as "
            "1000, or ranges such as 1000-3000. Namespace: names.",
            min_length=1,
            max_length=256,
        ),
    ]


class ScopeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Conditions on a pod that are not about its labels; all must hold."""

    match_expressions: Annotated[
        tuple[ScopeExpression, ...], Meta(description="The conditions.", max_length=16)
    ] = ()


class CpuBurst(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    burst_quota: Annotated[Text, _IDLE] = ""


class HtIsolation(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    enable: Annotated[bool | None, _IDLE] = None


class CpuSet(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect: the pod's annotation qos.gocrane.io/cpu-manager decides."""

    cpu_set: Annotated[Text, _IDLE] = ""


class Rdt(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    l3: Annotated[dict[str, Text], Meta(description=_IDLE.description, max_length=64)] = {}
    mb: Annotated[dict[str, Text], Meta(description=_IDLE.description, max_length=64)] = {}


class CpuQos(msgspec.Struct, frozen=True, rename="camel"):
    """The quality of the pod's CPU."""

    cpu_priority: Annotated[
        Priority | None,
        Meta(description="0 is the highest, 7 the lowest. Accepted, no effect yet."),
    ] = None
    container_priority: Annotated[
        dict[str, Number], Meta(description=_IDLE.description, max_length=64)
    ] = {}
    cpu_burst: CpuBurst | None = None
    ht_isolation: HtIsolation | None = None
    cpu_set: CpuSet | None = None
    rdt: Rdt | None = None
    container_rdt: Annotated[
        dict[str, Rdt], Meta(description=_IDLE.description, max_length=64)
    ] = {}


class ResourceQos(msgspec.Struct, frozen=True):
    """The quality that the pods are to have."""

    cpu: CpuQos | None = field(default=None, name="cpuQOS")
    memory: MemoryQos | None = field(default=None, name="memoryQOS")
    net_io: NetIoQos | None = field(default=None, name="netIOQOS")
    disk_io: DiskIoQos | None = field(default=None, name="diskIOQOS")


class PodQosSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Which pods, and what may be done to them. Without any selector: no pod."""

    allowed_actions: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...],
        Meta(
            description="The AvoidanceActions that may touch these pods, by their names; without "
            "it, none.",
            max_length=64,
        ),
    ] = ()
    label_selector: Annotated[
        Selector | None, Meta(description="Which pods this is for, by their labels.")
    ] = None
    scope_selector: ScopeSelector | None = None
    pod_quality_probe: PodQualityProbe | None = None
    resource_qos: ResourceQos | None = field(default=None, name="resourceQOS")


class PodQos(msgspec.Struct, frozen=True):
    """Which pods an AvoidanceAction may touch. Where there is no PodQOS at all, every pod of low
    priority that is not static or critical may be touched."""

    metadata: Metadata
    spec: PodQosSpec
    status: EnsuranceStatus | None = None
