"""What a survey has read in a tick before metrics are measured, so that nothing is read twice."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.metric import Samples
from slackwater.model.snapshot import NodeSnapshot, Rate
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import WeightFormula
from slackwater.model.workload import Amounts, Workload

#: Of a counter that was read once. A rate needs two readings.
NEEDS_SECOND = Gap("needs a second sample")


#: CPUs that nobody else may use, by the container's cgroup.
SetsHeldAlone = Mapping[int, CpuSet]


class TickView(msgspec.Struct, frozen=True):
    """`usage` is the node's; `readings` and `rates` are keyed by cgroup id. `offered` are the
    node's allocatable extended resources, by name."""

    usage: MilliCpu | Gap
    workloads: tuple[Workload, ...] = ()
    readings: Mapping[int, CgroupReading] = {}
    rates: Mapping[int, Rate] = {}
    version: CgroupVersion | None = None
    pod_formula: WeightFormula = WeightFormula.LINEAR
    container_formula: WeightFormula = WeightFormula.LINEAR
    offered: Amounts = {}
    held_alone: SetsHeldAlone | Gap = {}


def view_of(seen: NodeSnapshot, held_alone: SetsHeldAlone | Gap = NOT_ASKED) -> TickView:
    return TickView(
        usage=seen.usage,
        workloads=seen.workloads,
        readings=seen.readings,
        rates=seen.rates,
        version=seen.version,
        pod_formula=seen.pod_formula,
        container_formula=seen.container_formula,
        offered=seen.node_resources.extended,
        held_alone=held_alone,
    )


#: The metrics that are asked for, and how old a sample may be; 0 sets no bound.
MetricAges = Mapping[str, Micros]


class NodeMetricFamily(Protocol):
    """Metrics that have one reading in common."""

    names: frozenset[str]
    #: Whether it keeps samples itself, for as long as they may be old.
    keeps_samples: bool

    def measure(
        self, at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        """Those that are wanted; `wanted` names none of another family."""
        ...

    def forget(self) -> None:
        """Nothing of it is wanted any more: closes what is open, drops what was read."""
        ...
