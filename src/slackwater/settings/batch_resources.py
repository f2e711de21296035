"""Settings of batch resources: which extended resources pods ask for instead of cpu and memory,
and how a request becomes a weight.

The names are ours; Volcano's agent takes the resources' names as flags.
"""

import enum
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import ResourceName, SettingsStruct
from slackwater.model.problem import Problem, ProblemCode, quoted


class WeightRule(enum.Enum):
    """How a request becomes a weight on cgroup v2."""

    KUBELET = "kubelet"
    VOLCANO = "volcano"


class BatchResourcesSettings(SettingsStruct, frozen=True):
    """Settings of batch resources."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether pods that ask for batch resources get a CPU weight, a quota and "
            "a memory limit from them. The kubelet knows nothing of these resources and leaves "
            "such pods without any.",
        ),
    ] = False
    cpu_resource: Annotated[
        ResourceName,
        Meta(
            description="The extended resource that stands for CPU, in whole milliCPU: 500 is "
            "half a CPU.",
        ),
    ] = "kubernetes.io/batch-cpu"
    memory_resource: Annotated[
        ResourceName,
        Meta(description="The extended resource that stands for memory, in bytes."),
    ] = "kubernetes.io/batch-memory"
    weight_formula: Annotated[
        WeightRule,
        Meta(
            description="How a request becomes a weight on cgroup v2: as the kubelet and the "
            "runtime of this node do it, or as Volcano does, a tenth of the milliCPU, with which "
            "batch pods can outweigh others.",
        ),
    ] = WeightRule.KUBELET

    def conflicts(self) -> Iterator[Problem]:
        """One resource cannot count both milliCPU and bytes."""
        if self.cpu_resource == self.memory_resource:
            bound = f"another resource than cpuResource, which is {quoted(self.cpu_resource)}"
            value = quoted(self.memory_resource)
            yield Problem("memoryResource", value, bound, ProblemCode.CONFLICT)
