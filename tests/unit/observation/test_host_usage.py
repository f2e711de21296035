"""Which source a node's usage has, and that it never falls, on plain directories."""

from pathlib import Path

import pytest

from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupVersion,
    CpuPressure,
    PressureLine,
)
from slackwater.model.gap import Gap
from slackwater.model.machine import NodeUsage, NodeUsageSource
from slackwater.model.units import Micros
from slackwater.observation.host import NodeUsageMeter, Roots
from tests.unit.observation.descriptors import open_descriptors
from tests.unit.observation.plain_tree import PlainTree


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "stat").write_text("cpu  100 10 20 500 0 5 5 99 50 0\nintr 1\n")
    return Roots(proc=str(proc))


@pytest.fixture
def v1(tmp_path: Path) -> PlainTree:
    plain = PlainTree(tmp_path / "v1", CgroupVersion.V1)
    plain.make("kubepods")
    plain.put("", "cpuacct.usage", "5000999\n", CgroupController.CPUACCT)
    plain.put("", "cgroup.sane_behavior", "0\n", CgroupController.CPUACCT)
    return plain


@pytest.fixture
def v2(tmp_path: Path) -> PlainTree:
    plain = PlainTree(tmp_path / "v2", CgroupVersion.V2)
    for name in ("kubepods", "system.slice", "init.scope"):
        plain.make(name)
        plain.put(name, "cpu.stat", "usage_usec 100\n")
    plain.put("", "cpu.stat", "usage_usec 123456\n")
    return plain


def used(meter: NodeUsageMeter) -> int:
    found = meter.read()
    assert isinstance(found, NodeUsage)
    return found.usage


def test_v1_reads_the_root_group(v1: PlainTree, roots: Roots) -> None:
    meter = NodeUsageMeter(v1.mounts, roots)
    assert meter.read() == NodeUsage(Micros(5000), NodeUsageSource.ROOT_GROUP)
    v1.put("", "cpuacct.usage", "6000000\n", CgroupController.CPUACCT)
    assert used(meter) == 6000
    meter.close()


def test_v2_sums_the_top_groups_and_not_the_root(v2: PlainTree, roots: Roots) -> None:
    meter = NodeUsageMeter(v2.mounts, roots)
    assert meter.read() == NodeUsage(Micros(300), NodeUsageSource.TOP_GROUPS)
    v2.put("kubepods", "cpu.stat", "usage_usec 150\n")
    assert used(meter) == 350
    meter.close()


def test_a_top_group_that_comes_counts_whole_and_one_that_goes_stays(
    v2: PlainTree, roots: Roots
) -> None:
    before = open_descriptors()
    meter = NodeUsageMeter(v2.mounts, roots)
    assert used(meter) == 300
    v2.make("user.slice")
    v2.put("user.slice", "cpu.stat", "usage_usec 40\n")
    assert used(meter) == 340
    v2.remove("init.scope")
    assert used(meter) == 340
    v2.put("kubepods", "cpu.stat", "usage_usec 160\n")
    assert used(meter) == 400
    v2.remove("kubepods")
    v2.remove("system.slice")
    assert used(meter) == 400
    assert open_descriptors() == before + 1
    meter.close()
    assert open_descriptors() == before


def test_a_child_that_cannot_be_read_is_a_gap_not_a_smaller_sum(
    v2: PlainTree, roots: Roots
) -> None:
    meter = NodeUsageMeter(v2.mounts, roots)
    assert used(meter) == 300
    v2.put("kubepods", "cpu.stat", "garbage\n")
    found = meter.read()
    assert isinstance(found, Gap)
    assert found.reason.startswith("kubepods: cpu.stat holds")
    v2.put("kubepods", "cpu.stat", "usage_usec 101\n")
    assert used(meter) == 301
    meter.close()


def test_garbage_in_the_root_group_is_a_gap(v1: PlainTree, roots: Roots) -> None:
    meter = NodeUsageMeter(v1.mounts, roots)
    v1.put("", "cpuacct.usage", "x\n", CgroupController.CPUACCT)
    assert isinstance(meter.read(), Gap)
    meter.close()


def assert_from_ticks(mounts: CgroupMounts, roots: Roots) -> None:
    """Guest time is inside user, idle and stolen time is not use; USER_HZ is 100 everywhere."""
    meter = NodeUsageMeter(mounts, roots)
    found = meter.read()
    assert found == NodeUsage(Micros(140 * 10_000), NodeUsageSource.TICKS)
    assert not found.exact()
    meter.close()


def test_without_cgroups_there_is_proc_stat(roots: Roots) -> None:
    assert_from_ticks(CgroupMounts({}), roots)


def test_an_inner_group_is_not_the_machine(v1: PlainTree, v2: PlainTree, roots: Roots) -> None:
    """In a cgroup namespace the mount's top is some group of the machine, not its root."""
    Path(v1.directory("", CgroupController.CPUACCT), "cgroup.sane_behavior").unlink()
    assert_from_ticks(v1.mounts, roots)
    v2.put("", "cgroup.events", "populated 1\n")
    assert_from_ticks(v2.mounts, roots)


def test_v1_without_accounting_falls_back(v1: PlainTree, roots: Roots) -> None:
    cpu = v1.mounts.by_controller[CgroupController.CPU]
    assert_from_ticks(CgroupMounts({CgroupController.CPU: cpu}), roots)
    Path(v1.directory("", CgroupController.CPUACCT), "cpuacct.usage").unlink()
    assert_from_ticks(v1.mounts, roots)


def test_without_anything_there_is_a_gap(tmp_path: Path) -> None:
    meter = NodeUsageMeter(CgroupMounts({}), Roots(proc=f"{tmp_path}/no"))
    assert isinstance(meter.read(), Gap)
    meter.close()


def test_a_v2_root_that_goes_away_is_a_gap(v2: PlainTree, roots: Roots) -> None:
    meter = NodeUsageMeter(v2.mounts, roots)
    assert used(meter) == 300
    for name in ("kubepods", "system.slice", "init.scope"):
        v2.remove(name)
    Path(v2.directory(""), "cpu.stat").unlink()
    v2.top.rmdir()
    assert isinstance(meter.read(), Gap)
    meter.close()


SOME = "some avg10=1.00 avg60=0.50 avg300=0.25 total={}\n"
PSI = f"{SOME}full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def test_pressure_is_the_whole_machines_and_has_no_full_line(v2: PlainTree, roots: Roots) -> None:
    file = Path(roots.proc) / "pressure" / "cpu"
    file.parent.mkdir()
    file.write_text(PSI.format(7))
    before = open_descriptors()
    meter = NodeUsageMeter(v2.mounts, roots)
    assert meter.read_pressure() == CpuPressure(PressureLine(100, 50, 25, Micros(7)))
    file.write_text(PSI.format(9))
    found = meter.read_pressure()
    assert isinstance(found, CpuPressure)
    assert found.some.total == 9
    meter.close()
    assert open_descriptors() == before


def test_a_kernel_without_psi_is_asked_once(v2: PlainTree, roots: Roots) -> None:
    meter = NodeUsageMeter(v2.mounts, roots)
    gap = meter.read_pressure()
    assert gap == Gap(f"{roots.proc}/pressure/cpu: No such file or directory")
    assert meter.read_pressure() is gap
    meter.close()


def test_pressure_that_is_garbage_is_a_gap(v2: PlainTree, roots: Roots) -> None:
    file = Path(roots.proc) / "pressure" / "cpu"
    file.parent.mkdir()
    file.write_text("what\n")
    meter = NodeUsageMeter(v2.mounts, roots)
    assert isinstance(meter.read_pressure(), Gap)
    meter.close()
