"""Which containers a static CPU manager pinned, by their cgroups alone."""

import pytest

from slackwater.model.cgroup import CgroupReading, CgroupRef, Level, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Unlimited
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.observation.kubelet_pins import find_pinned

REF = CgroupRef("kubepods/pod1/main", 7, Level.CONTAINER)
TWO = CpuSet.of((1, 5))
TWO_CPUS = MilliCpu(2000)


def pod(
    tier: Tier = Tier.GUARANTEED,
    request: int = 2000,
    limit: MilliCpu | Unlimited = TWO_CPUS,
    ref: CgroupRef | Gap = REF,
) -> Workload:
    container = WorkloadContainer("main", ref, MilliCpu(request), limit)
    other = WorkloadContainer("side", NOT_ASKED, MilliCpu(100), MilliCpu(100))
    return Workload("1", "pod", "default", tier, NOT_ASKED, containers=(container, other))


@pytest.mark.parametrize(
    ("asked", "cpus", "pinned"),
    [
        (pod(), TWO, True),
        (pod(), CpuSet.of((0, 1, 2, 3)), False),
        (pod(), CpuSet(), False),
        (pod(), NOT_ASKED, False),
        (pod(Tier.BURSTABLE), TWO, False),
        (pod(request=1000), TWO, False),
        (pod(limit=UNLIMITED), TWO, False),
        (pod(request=1500, limit=MilliCpu(1500)), CpuSet.of((1,)), False),
        (pod(request=0, limit=MilliCpu(0)), CpuSet(), False),
        (pod(ref=Gap("it is being made")), TWO, False),
    ],
)
def test_guaranteed_whole_and_exactly_as_many(
    asked: Workload, cpus: CpuSet | Gap, pinned: bool
) -> None:
    readings = {REF.id: CgroupReading(REF, Micros(0), cpus=cpus)}
    assert find_pinned([asked], readings) == ({"1": {"main": cpus}} if pinned else {})


def test_a_group_that_was_not_read() -> None:
    assert find_pinned([pod()], {}) == {}
