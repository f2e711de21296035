"""Settings of memory QoS: by which formula a container's memory is throttled and protected."""

import enum
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import Percentage, ResourceName, SettingsStruct
from slackwater.model.units import Percent


class MemoryFormula(enum.Enum):
    """Where memory.high, memory.low and memory.min come from."""

    RATIOS = "ratios"
    KUBELET = "kubelet"
    NONE = "none"


class MemoryQosSettings(SettingsStruct, frozen=True):
    """Settings of memory QoS."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether containers get memory.high, memory.low and memory.min, which "
            "only cgroup v2 has, and pods the vendor's memory.qos_level.",
        ),
    ] = False
    formula: Annotated[
        MemoryFormula,
        Meta(
            description="ratios: the parts of the limit and the request that a "
            "ColocationConfiguration or the pod's volcano.sh/colocation-config gives, and nothing "
            "for other pods. kubelet: for every container what the kubelet's MemoryQoS feature "
            "writes, memory.min = request and memory.high = request + throttlingFactor × "
            "(limit - request), in whole pages. none: neither.",
        ),
    ] = MemoryFormula.RATIOS
    levels: Annotated[
        bool,
        Meta(
            description="Whether pods get the vendor's memory.qos_level where the kernel has it: "
            "-1 for best effort, 0 for all others.",
        ),
    ] = True
    memory_resource: Annotated[
        ResourceName,
        Meta(
            description="The extended resource that stands for memory, in bytes; it counts where "
            "a pod has it.",
        ),
    ] = "kubernetes.io/batch-memory"
    throttling_factor: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="With the kubelet's formula: how much of the room between request and "
            "limit a container may fill before its allocations are slowed down. The kubelet's "
            "memoryThrottlingFactor, 0.9.",
        ),
    ] = Percent(90)
