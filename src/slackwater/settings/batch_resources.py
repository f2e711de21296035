"""Settings of batch resources: which extended resources pods ask for instead of cpu and memory,
and how a request becomes a weight.

The names are ours; Volcano's agent takes the resources' names as flags.
"""

import enum

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.settings.choice import Choice, Flag
from slackwater.settings.resource_name import ResourceName
from slackwater.settings.section import Section, read_over, rendered


class WeightRule(enum.Enum):
    """How a request becomes a weight on cgroup v2."""

    KUBELET = "kubelet"
    VOLCANO = "volcano"


ENABLED = Flag(
    "batchResources.enabled",
    False,
    "Whether pods that ask for batch resources get a CPU weight, a quota and a memory limit from "
    "them. The kubelet knows nothing of these resources and leaves such pods without any.",
)
CPU_RESOURCE = ResourceName(
    "batchResources.cpuResource",
    "kubernetes.io/batch-cpu",
    "The extended resource that stands for CPU, in whole milliCPU: 500 is half a CPU.",
)
MEMORY_RESOURCE = ResourceName(
    "batchResources.memoryResource",
    "kubernetes.io/batch-memory",
    "The extended resource that stands for memory, in bytes.",
)
WEIGHT_FORMULA = Choice(
    "batchResources.weightFormula",
    WeightRule.KUBELET.value,
    tuple(word.value for word in WeightRule),
    "How a request becomes a weight on cgroup v2: as the kubelet and the runtime of this node do "
    "it, or as Volcano does, a tenth of the milliCPU, with which batch pods can outweigh others.",
)

SECTION: Section = {
    "enabled": ENABLED,
    "cpu_resource": CPU_RESOURCE,
    "memory_resource": MEMORY_RESOURCE,
    "weight_formula": WEIGHT_FORMULA,
}


class BatchResourcesSettings(msgspec.Struct, frozen=True):
    """All of them inside their bounds, if they came through `read`."""

    enabled: bool = ENABLED.default
    cpu_resource: str = CPU_RESOURCE.default
    memory_resource: str = MEMORY_RESOURCE.default
    weight_formula: WeightRule = WeightRule(WEIGHT_FORMULA.default)


DEFAULTS = BatchResourcesSettings()


def read(
    value: object, where: str, base: BatchResourcesSettings = DEFAULTS
) -> BatchResourcesSettings:
    """A file's section over `base`. One resource cannot count both milliCPU and bytes."""
    settings = read_over(SECTION, value, where, base)
    if settings.cpu_resource == settings.memory_resource:
        same = f"another resource than cpuResource, which is {quoted(settings.cpu_resource)}"
        where = f"{where}.memoryResource"
        raise InvalidError(Problem(where, quoted(settings.memory_resource), same))
    return settings


def render(settings: BatchResourcesSettings) -> dict[str, object]:
    """The section of a file that reads as these settings."""
    return rendered(SECTION, settings)
