"""Reading on plain directories: every field in both dialects, and every kind of bad file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuTimes,
    Mount,
)
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.knob import KNOBS
from slackwater.model.needs import ReadingField
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from slackwater.observation.cgroups.tree import CgroupTree
from tests.unit.observation.plain_tree import PlainTree, by_path, pods

EVERYTHING = frozenset(ReadingField)
AT = Micros(5)


@pytest.fixture(params=list(CgroupVersion), ids=lambda version: version.value)
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> PlainTree:
    return PlainTree(tmp_path, request.param)


@pytest.fixture
def container(plain: PlainTree) -> Iterator[tuple[PlainTree, CgroupTree, CgroupRef]]:
    path = pods(plain)[-1]
    tree = CgroupTree(plain.mounts, "kubepods")
    yield plain, tree, by_path(tree.scan())[path]
    tree.close()


Container = tuple[PlainTree, CgroupTree, CgroupRef]


def test_everything_is_read(container: Container) -> None:
    plain, tree, ref = container
    reading = tree.read(ref, EVERYTHING, AT)
    assert (reading.ref, reading.at) == (ref, AT)
    assert reading.times == CpuTimes(Micros(7), 4, 3, Micros(2))
    assert reading.quota == Bandwidth(Micros(50_000))
    assert reading.burst == 20_000
    assert reading.weight == (512 if plain.version is CgroupVersion.V1 else 20)
    assert reading.idle is False
    assert reading.cpus == CpuSet.of((0, 1))
    assert isinstance(reading.pressure, Gap) == (plain.version is CgroupVersion.V1)


def part(reading: CgroupReading, field: ReadingField) -> object:
    match field:
        case ReadingField.TIMES:
            return reading.times
        case ReadingField.PRESSURE:
            return reading.pressure
        case _:
            return reading.value(field.value)


@pytest.mark.parametrize("field", list(ReadingField))
def test_only_what_is_wanted_is_read(container: Container, field: ReadingField) -> None:
    _, tree, ref = container
    reading = tree.read(ref, frozenset({field}), AT)
    for other in ReadingField:
        assert (part(reading, other) == NOT_ASKED) == (other is not field)


def test_memory_and_vendors_knobs(container: Container) -> None:
    plain, tree, ref = container
    v1 = plain.version is CgroupVersion.V1
    name = "memory.limit_in_bytes" if v1 else "memory.max"
    plain.put(ref.path, name, "8192\n", CgroupController.MEMORY)
    plain.put(ref.path, "cpu.qos_level", "-1\n")
    reading = tree.read(ref, EVERYTHING, AT)
    assert (reading.value("memory-max"), reading.value("cpu-qos-level")) == (8192, -1)
    assert isinstance(reading.value("memory-qos-level"), Gap)  # the file is not there
    if not v1:
        plain.put(ref.path, "memory.high", "max\n")
        again = tree.read(ref, EVERYTHING, AT)
        assert again.value("memory-high") == UNLIMITED


def test_no_limit_is_a_value(container: Container) -> None:
    plain, tree, ref = container
    if plain.version is CgroupVersion.V1:
        plain.put(ref.path, "cpu.cfs_quota_us", "-1\n")
    else:
        plain.put(ref.path, "cpu.max", "max 100000\n")
    assert tree.read(ref, EVERYTHING, AT).quota == Bandwidth(UNLIMITED)


def read_fresh(plain: PlainTree, ref: CgroupRef) -> CgroupReading:
    """A tree of its own: the other one's descriptors would outlive what a test does to a file."""
    tree = CgroupTree(plain.mounts, "kubepods")
    reading = tree.read(ref, EVERYTHING, AT)
    tree.close()
    return reading


def test_a_missing_file_of_a_living_group_says_so(container: Container) -> None:
    plain, _, ref = container
    for controller in CgroupController:
        for name in os.listdir(plain.directory(ref.path, controller)):
            os.unlink(f"{plain.directory(ref.path, controller)}/{name}")
    reading = read_fresh(plain, ref)
    assert reading.times == Gap("cpu.stat does not exist here")
    assert reading.idle == Gap("cpu.idle does not exist here")
    assert reading.cpus == Gap("cpuset.cpus does not exist here")


def test_a_v1_group_may_lack_another_hierarchy(tmp_path: Path) -> None:
    plain = PlainTree(tmp_path, CgroupVersion.V1)
    path = pods(plain)[-1]
    ref = by_path(CgroupTree(plain.mounts, "kubepods").scan())[path]
    for controller in (CgroupController.CPUACCT, CgroupController.CPUSET):
        directory = plain.directory(path, controller)
        os.unlink(f"{directory}/{os.listdir(directory)[0]}")
        os.rmdir(directory)
    reading = read_fresh(plain, ref)
    assert reading.times == Gap("cpuacct.usage does not exist here")
    assert isinstance(reading.cpus, Gap)
    assert "does not exist" in reading.cpus.reason
    assert reading.weight == 512


def test_one_mount_for_cpu_and_cpuacct(tmp_path: Path) -> None:
    plain = PlainTree(tmp_path, CgroupVersion.V1)
    shared = Mount(CgroupVersion.V1, f"{tmp_path}/cpu,cpuacct")
    plain.mounts = CgroupMounts(
        {
            **plain.mounts.by_controller,
            CgroupController.CPU: shared,
            CgroupController.CPUACCT: shared,
        }
    )
    path = pods(plain)[-1]
    ref = by_path(CgroupTree(plain.mounts, "kubepods").scan())[path]
    assert isinstance(read_fresh(plain, ref).times, CpuTimes)


def test_every_file_may_be_a_directory_a_loop_or_garbage(container: Container) -> None:
    plain, _, ref = container
    for controller in CgroupController:
        directory = plain.directory(ref.path, controller)
        for damage in ("garbage", "huge", "loop", "directory"):
            for name in os.listdir(directory):
                spoil(f"{directory}/{name}", damage)
            reading = read_fresh(plain, ref)
            assert reading.ref == ref
            if controller is CgroupController.CPU:
                assert isinstance(reading.times, Gap)
                assert isinstance(reading.weight, Gap)
                assert VANISHED not in (reading.times, reading.weight)
                assert len(reading.quota.reason if isinstance(reading.quota, Gap) else "") < 120


def spoil(path: str, damage: str) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        return
    match damage:
        case "loop":
            os.symlink(path, path)
        case "directory":
            os.mkdir(path)
        case _:
            with open(path, "wb") as file:
                file.write(b"\xff\x00 x" if damage == "garbage" else b"9" * 1_000_000)


def test_a_ref_of_another_id_is_gone(container: Container) -> None:
    plain, tree, ref = container
    reading = tree.read(CgroupRef(ref.path, ref.id + 1, ref.level), EVERYTHING, AT)
    elsewhere = {knob.name for knob in KNOBS if isinstance(knob.file(plain.version), Gap)}
    parts = {part(reading, field) for field in ReadingField if field.value not in elsewhere}
    assert parts <= {VANISHED, reading.pressure}
    assert reading.times is VANISHED


def test_what_changes_each_tick_is_read_anew(container: Container) -> None:
    plain, tree, ref = container
    tree.read(ref, EVERYTHING, AT)
    if plain.version is CgroupVersion.V1:
        plain.put(ref.path, "cpuacct.usage", "9000\n", CgroupController.CPUACCT)
    else:
        plain.put(ref.path, "cpu.stat", "usage_usec 9\n")
    times = tree.read(ref, EVERYTHING, AT).times
    assert isinstance(times, CpuTimes)
    assert times.usage == 9


VENDORS = (ReadingField.CPU_QOS_LEVEL, ReadingField.MEMORY_QOS_LEVEL)


def test_a_vendors_file_that_comes_is_found_after_a_while(container: Container) -> None:
    plain, tree, ref = container
    wants = frozenset({ReadingField.QUOTA, *VENDORS})
    for name, controller in (
        ("cpu.qos_level", CgroupController.CPU),
        ("memory.qos_level", CgroupController.MEMORY),
    ):
        path = os.path.join(plain.directory(ref.path, controller), name)
        if os.path.exists(path):
            os.unlink(path)
    missing = {"cpu-qos-level": Gap("cpu.qos_level does not exist here")}
    missing |= {"memory-qos-level": Gap("memory.qos_level does not exist here")}
    assert tree.read(ref, wants, AT).others == missing
    assert tree.read(ref, wants, AT).others == missing
    plain.put(ref.path, "cpu.qos_level", "-1\n")
    found = [tree.read(ref, wants, AT).others["cpu-qos-level"] for _ in range(65)]
    assert found[-1] == -1
    assert tree.read(ref, frozenset({VENDORS[0]}), AT).others == {"cpu-qos-level": -1}


def test_a_group_that_went_lacks_nothing(container: Container) -> None:
    plain, tree, ref = container
    wants = frozenset({ReadingField.QUOTA, VENDORS[0]})
    tree.read(ref, wants, AT)
    plain.remove(ref.path)
    gone = tree.read(ref, wants, AT)
    assert (gone.quota, gone.others["cpu-qos-level"]) == (VANISHED, VANISHED)
