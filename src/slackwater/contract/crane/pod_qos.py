"""Crane's PodQOS: which pods an action may touch, and the quality that they are to have.

Owns its fields, defaults and bounds. Of the quality almost nothing has an effect in Crane's open
source; those fields are accepted and say so.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.crane.fields import (
    EnsuranceStatus,
    LongNumber,
    Number,
    PodQualityProbe,
    Priority,
    Selector,
    Text,
)
from slackwater.contract.kubernetes import KubernetesObject

_NO_EFFECT = Meta(description="Accepted, has no effect.")


class MemAsyncReclaim(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    async_ratio: Annotated[LongNumber, _NO_EFFECT]
    async_distance_factor: Annotated[LongNumber, _NO_EFFECT]


class MemWatermark(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    watermark_ratio: Annotated[LongNumber, _NO_EFFECT]


class MemPageCacheLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    page_cache_max_ratio: Annotated[LongNumber, _NO_EFFECT]
    page_cache_reclaim_ratio: Annotated[LongNumber, _NO_EFFECT]


class Preference(enum.Enum):
    TINY = "Tiny"
    NORMAL = "Normal"
    FILE_ONLY = "FileOnly"
    ANON_ONLY = "AnonOnly"


class Oversold(enum.Enum):
    TRANSPARENT = "Transparent"
    NONE = "None"
    ALLOW = "Allow"


class MemoryCompression(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    enable: Annotated[bool | None, _NO_EFFECT] = None
    compression_level: Annotated[Annotated[int, Meta(ge=0, le=4)] | None, _NO_EFFECT] = None
    preference: Annotated[Preference, _NO_EFFECT] = Preference.TINY
    oversold: Annotated[Oversold, _NO_EFFECT] = Oversold.ALLOW


class MemoryQos(msgspec.Struct, frozen=True, rename="camel"):
    """The quality of the pod's memory. Accepted, has no effect."""

    mem_priority: Annotated[
        Priority | None,
        Meta(description="0 is the highest, 7 the lowest. Accepted, has no effect."),
    ] = None
    mem_async_reclaim: MemAsyncReclaim | None = None
    mem_watermark: MemWatermark | None = None
    mem_page_cache_limit: MemPageCacheLimit | None = None
    memory_compression: MemoryCompression | None = None


class NetIoLimits(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    rx_bps: Annotated[LongNumber, _NO_EFFECT]
    tx_bps: Annotated[LongNumber, _NO_EFFECT]


class WhitelistPorts(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    lports: Annotated[Text, _NO_EFFECT]
    rports: Annotated[Text, _NO_EFFECT]


class NetIoQos(msgspec.Struct, frozen=True, rename="camel"):
    """The quality of the pod's network. Accepted, has no effect."""

    net_io_priority: Annotated[LongNumber | None, _NO_EFFECT] = field(
        default=None, name="netIOPriority"
    )
    containers_priority: Annotated[
        dict[str, LongNumber], Meta(description=_NO_EFFECT.description, max_length=64)
    ] = {}
    net_io_limits: NetIoLimits | None = field(default=None, name="netIOLimits")
    dev_net_io_limits: Annotated[
        dict[str, NetIoLimits], Meta(description=_NO_EFFECT.description, max_length=64)
    ] = field(default_factory=dict, name="devNetIOLimits")
    whitelist_ports: WhitelistPorts | None = None


class DiskIoWeight(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    weight: Annotated[LongNumber | None, _NO_EFFECT] = None


class DiskIoLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    read_iops: Annotated[LongNumber | None, _NO_EFFECT] = field(default=None, name="readIOps")
    write_iops: Annotated[LongNumber | None, _NO_EFFECT] = field(default=None, name="writeIOps")
    read_bps: Annotated[LongNumber | None, _NO_EFFECT] = None
    write_bps: Annotated[LongNumber | None, _NO_EFFECT] = None


class DiskIoQos(msgspec.Struct, frozen=True):
    """The quality of the pod's disks. Accepted, has no effect."""

    weight: DiskIoWeight | None = field(default=None, name="diskIOWeight")
    limit: DiskIoLimit | None = field(default=None, name="diskIOLimit")


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

    burst_quota: Annotated[Text, _NO_EFFECT] = ""


class HtIsolation(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    enable: Annotated[bool | None, _NO_EFFECT] = None


class CpuSetBinding(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect: the pod's annotation qos.gocrane.io/cpu-manager decides."""

    cpu_set: Annotated[Text, _NO_EFFECT] = ""


class Rdt(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    l3: Annotated[dict[str, Text], Meta(description=_NO_EFFECT.description, max_length=64)] = {}
    mb: Annotated[dict[str, Text], Meta(description=_NO_EFFECT.description, max_length=64)] = {}


class CpuQos(msgspec.Struct, frozen=True, rename="camel"):
    """The quality of the pod's CPU."""

    cpu_priority: Annotated[
        Priority | None,
        Meta(description="0 is the highest, 7 the lowest. Accepted, no effect yet."),
    ] = None
    container_priority: Annotated[
        dict[str, Number], Meta(description=_NO_EFFECT.description, max_length=64)
    ] = {}
    cpu_burst: CpuBurst | None = None
    ht_isolation: HtIsolation | None = None
    cpu_set: CpuSetBinding | None = None
    rdt: Rdt | None = None
    container_rdt: Annotated[
        dict[str, Rdt], Meta(description=_NO_EFFECT.description, max_length=64)
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


class PodQos(KubernetesObject, frozen=True):
    """Which pods an AvoidanceAction may touch. Where there is no PodQOS at all, every pod of low
    priority that is not static or critical may be touched."""

    spec: PodQosSpec
    status: EnsuranceStatus | None = None
