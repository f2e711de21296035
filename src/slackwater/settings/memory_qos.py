"""Settings of memory QoS: by which formula a container's memory is throttled and protected."""

import enum

import msgspec

from slackwater.model.units import Percent
from slackwater.settings.bound import Bound, Unit
from slackwater.settings.choice import Choice, Flag
from slackwater.settings.resource_name import ResourceName
from slackwater.settings.section import Section, read_over, rendered


class MemoryFormula(enum.Enum):
    """Where memory.high, memory.low and memory.min come from."""

    RATIOS = "ratios"
    KUBELET = "kubelet"
    NONE = "none"


ENABLED = Flag(
    "memoryQos.enabled",
    False,
    "Whether containers get memory.high, memory.low and memory.min, which only cgroup v2 has, "
    "and pods the vendor's memory.qos_level.",
)
FORMULA = Choice(
    "memoryQos.formula",
    MemoryFormula.RATIOS.value,
    tuple(word.value for word in MemoryFormula),
    "ratios: the parts of the limit and the request that a ColocationConfiguration or the pod's "
    "volcano.sh/colocation-config gives, and nothing for other pods. kubelet: for every container "
    "what the kubelet's MemoryQoS feature writes, memory.min = request and memory.high = request "
    "+ throttlingFactor × (limit - request), in whole pages. none: neither.",
)
LEVELS = Flag(
    "memoryQos.levels",
    True,
    "Whether pods get the vendor's memory.qos_level where the kernel has it: -1 for best effort, "
    "0 for all others.",
)
MEMORY_RESOURCE = ResourceName(
    "memoryQos.memoryResource",
    "kubernetes.io/batch-memory",
    "The extended resource that stands for memory, in bytes; it counts where a pod has it.",
)
THROTTLING_FACTOR = Bound(
    "memoryQos.throttlingFactor",
    90,
    1,
    100,
    Unit.PERCENT,
    "With the kubelet's formula: how much of the room between request and limit a container may "
    "fill before its allocations are slowed down. The kubelet's memoryThrottlingFactor, 0.9.",
)

SECTION: Section = {
    "enabled": ENABLED,
    "formula": FORMULA,
    "levels": LEVELS,
    "memory_resource": MEMORY_RESOURCE,
    "throttling_factor": THROTTLING_FACTOR,
}


class MemoryQosSettings(msgspec.Struct, frozen=True):
    """All of them inside their bounds, if they came through `read`."""

    enabled: bool = ENABLED.default
    formula: MemoryFormula = MemoryFormula(FORMULA.default)
    levels: bool = LEVELS.default
    memory_resource: str = MEMORY_RESOURCE.default
    throttling_factor: Percent = Percent(THROTTLING_FACTOR.default)


DEFAULTS = MemoryQosSettings()


def read(value: object, where: str, base: MemoryQosSettings = DEFAULTS) -> MemoryQosSettings:
    """A file's section over `base`."""
    return read_over(SECTION, value, where, base)


def render(settings: MemoryQosSettings) -> dict[str, object]:
    """The section of a file that reads as these settings."""
    return rendered(SECTION, settings)
