"""The CPU pressure of pods on real cgroups: work that waits shows, work that its own container's
quota stops does not."""

import os
import time

import pytest

from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, Micros, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.observation.probes.pod_pressure import PressureTarget
from tests.kernel.bed import Bed
from tests.kernel.hand import despite_neighbours

pytestmark = [pytest.mark.cgroupfs]

NAME = "cpu-pressure"


def clock() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


class PressedPod:
    """A pod with one container, in which processes burn."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        path = bed.make(f"{bed.kubepods}/burstable/pod1")
        self.inner = bed.make(f"{path}/c1")
        container = WorkloadContainer(
            "c",
            CgroupRef(self.inner, bed.id(self.inner), Level.CONTAINER, Tier.BURSTABLE),
            MilliCpu(0),
            UNLIMITED,
        )
        group = CgroupRef(path, bed.id(path), Level.POD, Tier.BURSTABLE)
        self.target = PressureTarget(bed.mounts, clock)
        self.target.pods = (
            Workload("1", "web", "shop", Tier.BURSTABLE, group, containers=(container,)),
        )

    def percent(self, seconds: float) -> float:
        """Between two looks."""
        self.target.ask(frozenset({NAME}))
        time.sleep(seconds)
        answer = self.target.ask(frozenset({NAME}))
        assert not isinstance(answer, Gap), answer
        samples = answer.metrics[NAME]
        assert not isinstance(samples, Gap), samples
        (sample,) = samples
        assert sample.labels["PodName"] == "web"
        return float(sample.value)


@pytest.mark.v2
def test_work_that_waits_for_others(bed: Bed) -> None:
    pod = PressedPod(bed)
    best_effort = bed.make(f"{bed.kubepods}/besteffort")
    bed.write(best_effort, "cpu.weight", "10000")
    bed.burn(best_effort, 2 * (os.cpu_count() or 1))
    bed.burn(pod.inner, os.cpu_count() or 1)

    def judge() -> None:
        assert pod.percent(1) > 50

    despite_neighbours(judge)


@pytest.mark.v2
def test_work_that_waits_for_its_own_quota_is_no_pressure(bed: Bed) -> None:
    pod = PressedPod(bed)
    bed.write(pod.inner, "cpu.max", "10000 100000")
    bed.stay_awake()
    bed.burn(pod.inner, 1)

    def judge() -> None:
        assert pod.percent(2) < 15

    despite_neighbours(judge)
    waited = bed.read(f"{bed.kubepods}/burstable/pod1", "cpu.pressure").split()[4]
    assert int(waited.removeprefix("total=")) > 1_000_000


@pytest.mark.v1
def test_v1_has_none(bed: Bed) -> None:
    pod = PressedPod(bed)
    assert pod.target.ask(frozenset({NAME})) == Gap(
        "cgroup v1 does not say how long pods wait for a CPU"
    )
