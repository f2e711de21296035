"""The CPU pressure of protected pods, from files as the kernel writes them. That the kernel does
write them so is tested on real cgroups, in tests/kernel/test_pod_pressure.py."""

import os
from pathlib import Path

import msgspec
import pytest

from slackwater.contract.crane.fields import Selector
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample
from slackwater.model.units import UNLIMITED, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.observation.probes.sources import PressureSource
from tests.unit.observation.plain_tree import PlainTree
from tests.unit.observation.probes.probe_world import HandClock, make_pod, probe_set, unstamped

KEY = MetricKey("cpu-pressure", "EnsuranceMetric/cpu-pressure")


def pressure(total: int) -> str:
    return f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"


def throttled(micros: int) -> str:
    return f"usage_usec 7\nnr_periods 4\nnr_throttled 3\nthrottled_usec {micros}\n"


class World:
    """One pod with one container, in plain files."""

    def __init__(self, top: Path, version: CgroupVersion = CgroupVersion.V2) -> None:
        self.tree = PlainTree(top, version)
        self.clock = HandClock()
        self.pod_path = self.tree.make("kubepods/burstable/pod1")
        self.inner_path = self.tree.make("kubepods/burstable/pod1/c1")
        self.write(0, 0, 0)
        self.probes = probe_set(self.clock, mounts=self.tree.mounts)
        self.pod = self._pod()
        self.probes.update({KEY.source: PressureSource()}, (self.pod,))

    def write(self, waited: int, of_pod: int, of_container: int) -> None:
        self.tree.put(self.pod_path, "cpu.pressure", pressure(waited))
        self.tree.put(self.pod_path, "cpu.stat", throttled(of_pod))
        self.tree.put(self.inner_path, "cpu.stat", throttled(of_container))

    def look(self) -> tuple[Sample, ...] | Gap:
        self.probes.samples(KEY, self.clock())
        self.probes.ask_due()
        return self.probes.samples(KEY, self.clock())

    def ref(self, path: str, level: Level) -> CgroupRef:
        number = os.stat(self.tree.directory(path)).st_ino
        return CgroupRef(path, number, level, Tier.BURSTABLE)

    def _pod(self) -> Workload:
        inner = WorkloadContainer(
            "c", self.ref(self.inner_path, Level.CONTAINER), MilliCpu(0), UNLIMITED
        )
        ended = WorkloadContainer("i", Gap("gone"), MilliCpu(0), UNLIMITED)
        return msgspec.structs.replace(
            make_pod("web"), ref=self.ref(self.pod_path, Level.POD), containers=(inner, ended)
        )


@pytest.mark.parametrize(
    ("waited", "of_pod", "of_container", "percent"),
    [
        (0, 0, 0, 0.0),
        (250_000, 0, 0, 25.0),
        (250_000, 100_000, 0, 15.0),
        (250_000, 100_000, 50_000, 10.0),
        (250_000, 900_000, 0, 0.0),  # on several CPUs at once
        (2_000_000, 0, 0, 100.0),  # read a little later than the clock
    ],
)
def test_what_waited_without_what_was_throttled(
    tmp_path: Path, waited: int, of_pod: int, of_container: int, percent: float
) -> None:
    world = World(tmp_path)
    assert world.look() == Gap("the pods were read only once so far")
    world.clock.pass_seconds(1)
    world.write(waited, of_pod, of_container)
    labels = {"PodName": "web", "PodNamespace": "shop", "PodUid": "uid-web"}
    assert unstamped(world.look()) == (Sample(percent, labels),)


def test_a_container_that_began_anew(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(0, 0, 500)
    world.look()
    world.clock.pass_seconds(1)
    world.write(100, 0, 0)
    assert world.look() == Gap("the pods were read only once so far")


def test_a_pod_whose_group_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.tree.remove(world.pod_path)
    told = world.look()
    assert isinstance(told, Gap)
    assert told.reason.startswith("shop/web: ")


def test_whom_it_is_about(tmp_path: Path) -> None:
    world = World(tmp_path)
    best_effort = msgspec.structs.replace(world.pod, tier=Tier.BESTEFFORT)
    assert PressureSource().selects(world.pod)
    assert not PressureSource().selects(best_effort)
    chosen = PressureSource(Selector({"app": "web"}))
    assert chosen.selects(best_effort)
    world.probes.update({KEY.source: PressureSource(Selector({"app": "db"}))}, (world.pod,))
    assert world.look() == Gap("no pod of this node is selected", is_idle=True)


def test_cgroup_v1_has_none(tmp_path: Path) -> None:
    world = World(tmp_path, CgroupVersion.V1)
    assert world.look() == Gap("cgroup v1 does not say how long pods wait for a CPU")


def test_without_cgroups() -> None:
    clock = HandClock()
    probes = probe_set(clock)
    probes.update({KEY.source: PressureSource()}, ())
    assert probes.samples(KEY, clock()) == Gap("there are no cgroups to read")
