"""cgroup_writer's way to the kernel: what it writes, what it does not, and how it ends."""

import errno
import os

import pytest

from slackwater.execution.knob_writer import Attempt
from slackwater.model.cgroup import CgroupController, CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    MEMORY_HIGH,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Change, Result
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from tests.unit.execution.desk import POD, quota
from tests.unit.execution.plain_kernel import PlainKernel


@pytest.mark.parametrize(
    ("knob", "value", "file", "text"),
    [
        (QUOTA, quota(20_000), "cpu.max", "20000 100000\n"),
        (QUOTA, quota(5_000, 10_000), "cpu.max", "5000 10000\n"),
        (BURST, 1_000, "cpu.max.burst", "1000\n"),
        (WEIGHT, 1, "cpu.weight", "1\n"),
        (IDLE, True, "cpu.idle", "1\n"),
        (CPUS, CpuSet.of([0, 1, 2]), "cpuset.cpus", "0-2\n"),
        (MEMORY_MAX, 4097, "memory.max", "4097\n"),
        (MEMORY_HIGH, 0, "memory.high", "0\n"),
    ],
)
def test_one_write_on_v2(
    kernel: PlainKernel, knob: Knob, value: KnobValue, file: str, text: str
) -> None:
    ref, writer = kernel.make(POD), kernel.writer()
    outcome = writer.write(Change(ref, knob, 0, value))
    assert (outcome.result, outcome.detail) == (Result.APPLIED, "")
    assert kernel.log == [(file, text)]


def test_how_long_it_took_is_the_clocks_word(kernel: PlainKernel) -> None:
    ref = kernel.make(POD)
    assert kernel.writer().write(Change(ref, WEIGHT, 100, 5)).took == 5


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (QUOTA, Bandwidth(UNLIMITED)),
        (BURST, 0),
        (WEIGHT, 100),
        (IDLE, False),
        (CPUS, CpuSet()),
        (MEMORY_MAX, UNLIMITED),
    ],
)
def test_an_equal_value_is_not_written(kernel: PlainKernel, knob: Knob, value: KnobValue) -> None:
    """Whatever the change believes to be the old one."""
    ref = kernel.make(POD)
    assert kernel.writer().write(Change(ref, knob, 77, value)).result is Result.UNCHANGED
    assert kernel.log == []


def test_memory_is_compared_in_the_nodes_pages(kernel: PlainKernel) -> None:
    ref, large = kernel.make(POD), kernel.writer(page=65_536)
    (kernel.folder(POD) / "memory.max").write_text("65536\n")
    assert large.write(Change(ref, MEMORY_MAX, 0, 100_000)).result is Result.UNCHANGED
    assert kernel.writer().write(Change(ref, MEMORY_MAX, 0, 100_000)).result is Result.APPLIED


def test_an_empty_cpuset_is_a_newline(kernel: PlainKernel) -> None:
    ref = kernel.make(POD)
    (kernel.folder(POD) / "cpuset.cpus").write_text("0\n")
    assert (
        kernel.writer().write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.APPLIED
    )
    assert kernel.log == [("cpuset.cpus", "\n")]


def test_a_cpuset_that_cannot_be_emptied_gets_every_cpu(
    kernel: PlainKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, writer = kernel.make(POD), kernel.writer()
    (kernel.folder(POD) / "cpuset.cpus").write_text("0\n")
    plain = os.write

    def populated(descriptor: int, data: bytes) -> int:
        if data == b"\n":
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(descriptor, data)

    monkeypatch.setattr(os, "write", populated)
    assert writer.write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.APPLIED
    assert kernel.text(POD, "cpuset.cpus") == "0-3"
    assert writer.write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.UNCHANGED
    (kernel.root / "cpuset.cpus.effective").write_text("garbage")
    assert writer.write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.REFUSED


# The group that was meant.


def test_a_group_that_is_gone(kernel: PlainKernel) -> None:
    ref, writer = CgroupRef("kubepods/none", 5, Level.POD), kernel.writer()
    assert writer.write(Change(ref, WEIGHT, 1, 2)).result is Result.VANISHED
    assert writer.read(ref, WEIGHT) == VANISHED
    assert not writer.lives(ref)


def test_another_group_at_the_same_path(kernel: PlainKernel) -> None:
    made, writer = kernel.make(POD), kernel.writer()
    stale = CgroupRef(POD, made.id + 1, Level.POD)
    outcome = writer.write(Change(stale, WEIGHT, 1, 2))
    assert outcome.result is Result.VANISHED
    assert POD in outcome.detail
    assert kernel.log == []
    assert not writer.lives(stale)
    assert writer.lives(made)


def test_on_v1_the_cpu_hierarchy_says_who_it_is(v1: PlainKernel) -> None:
    ref, writer = v1.make(POD), v1.writer()
    assert writer.write(Change(ref, CPUS, CpuSet(), CpuSet.of([1]))).result is Result.APPLIED
    stale = CgroupRef(POD, ref.id + 1, Level.POD)
    assert writer.write(Change(stale, CPUS, CpuSet(), CpuSet.of([0]))).result is Result.VANISHED
    assert v1.text(POD, "cpuset.cpus", CgroupController.CPUSET) == "1"


def test_a_group_that_is_not_in_every_hierarchy_of_v1_lives(v1: PlainKernel) -> None:
    """It never was in this one, or a runtime removes one after the other: the cpu hierarchy
    says whether it is gone."""
    ref = v1.make(POD)
    for file in v1.folder(POD, CgroupController.CPUSET).iterdir():
        file.unlink()
    v1.folder(POD, CgroupController.CPUSET).rmdir()
    outcome = v1.writer().write(Change(ref, CPUS, CpuSet(), CpuSet.of([1])))
    assert outcome.result is Result.REFUSED
    assert outcome.detail == "the group is not in the cpuset hierarchy"
    v1.folder(POD).rename(v1.root / "gone")
    outcome = v1.writer().write(Change(ref, CPUS, CpuSet(), CpuSet.of([1])))
    assert outcome.result is Result.VANISHED


def test_a_group_that_goes_between_open_and_write(kernel: PlainKernel) -> None:
    ref, writer = kernel.make(POD), kernel.writer()
    kernel.errors["cpu.weight"] = errno.ENODEV
    alive = writer.write(Change(ref, WEIGHT, 1, 2))
    assert alive.result is Result.REFUSED, "the kernel says so of a live group: not now"
    kernel.folder(POD).rename(kernel.root / "elsewhere")
    dead = writer.write(Change(ref, WEIGHT, 1, 2))
    assert dead.result is Result.VANISHED


def test_a_process_out_of_descriptors_does_not_take_groups_for_gone(
    kernel: PlainKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, writer = kernel.make(POD), kernel.writer()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    assert writer.lives(ref)
    assert writer.write(Change(ref, WEIGHT, 1, 2)).result is Result.REFUSED


# Two files for one bandwidth.


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        (quota(50_000), quota(20_000), ["quota 20000"]),
        (quota(50_000), quota(50_000, 200_000), ["period 200000"]),
        (quota(50_000), Bandwidth(UNLIMITED), ["quota -1"]),
        # .25 in between, not 1.0
        (quota(50_000), quota(25_000, 50_000), ["quota 25000", "period 50000"]),
        # .25 in between, not 1.0
        (quota(50_000), quota(100_000, 200_000), ["period 200000", "quota 100000"]),
        # .04 in between, not .05
        (quota(10_000), quota(4_000, 200_000), ["quota 4000", "period 200000"]),
        (Bandwidth(UNLIMITED), quota(5_000, 50_000), ["quota 5000", "period 50000"]),
        (quota(5_000), Bandwidth(UNLIMITED, Micros(50_000)), ["period 50000", "quota -1"]),
    ],
)
def test_the_order_of_quota_and_period(
    v1: PlainKernel, old: Bandwidth, new: Bandwidth, written: list[str]
) -> None:
    ref, writer = v1.make(POD), v1.writer()
    limit = "-1" if old.limit is UNLIMITED else str(old.limit)
    (v1.folder(POD) / "cpu.cfs_quota_us").write_text(f"{limit}\n")
    assert writer.write(Change(ref, QUOTA, old, new)).result is Result.APPLIED
    names = {"cpu.cfs_quota_us": "quota", "cpu.cfs_period_us": "period"}
    assert [f"{names[file]} {text.strip()}" for file, text in v1.log] == written
    assert writer.read(ref, QUOTA) == new


def test_a_period_that_is_refused_takes_the_quota_back(v1: PlainKernel) -> None:
    ref, writer = v1.make(POD), v1.writer()
    v1.errors["cpu.cfs_period_us"] = errno.EINVAL
    outcome = writer.write(Change(ref, QUOTA, Bandwidth(UNLIMITED), quota(5_000, 50_000)))
    assert outcome.result is Result.REFUSED
    assert "cpu.cfs_period_us" in outcome.detail
    assert writer.read(ref, QUOTA) == Bandwidth(UNLIMITED)


def test_a_mixture_that_is_refused_gives_way_to_the_other(
    v1: PlainKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent may not go below its child on the way, 1.0 to 1.0 by .5: it goes by 2.0."""
    ref, writer, plain = v1.make(POD), v1.writer(), os.write
    (v1.folder(POD) / "cpu.cfs_quota_us").write_text("100000\n")

    def with_a_child(descriptor: int, data: bytes) -> int:
        is_quota = os.readlink(f"/proc/self/fd/{descriptor}").endswith("quota_us")
        if is_quota and v1.text(POD, "cpu.cfs_period_us") == "100000":
            raise OSError(errno.EINVAL, "Invalid argument")
        return plain(descriptor, data)

    monkeypatch.setattr(os, "write", with_a_child)
    outcome = writer.write(Change(ref, QUOTA, quota(100_000), quota(50_000, 50_000)))
    assert outcome.result is Result.APPLIED
    assert [file for file, _ in v1.log] == ["cpu.cfs_period_us", "cpu.cfs_quota_us"]


# The note comes first.


def test_the_note_sees_what_stands_and_what_comes(kernel: PlainKernel) -> None:
    ref, seen = kernel.make(POD), list[tuple[str, str, int]]()

    def note(current: str, ours: str) -> Attempt | None:
        seen.append((current, ours, len(kernel.log)))
        return None

    kernel.writer().write(Change(ref, QUOTA, Bandwidth(UNLIMITED), quota(5_000)), note)
    assert seen == [("max 100000", "5000 100000", 0)]


def test_a_note_that_fails_forbids_the_write(kernel: PlainKernel) -> None:
    ref = kernel.make(POD)
    outcome = kernel.writer().write(
        Change(ref, WEIGHT, 100, 5), lambda _, __: Attempt(Result.REFUSED, "the disk is full")
    )
    assert (outcome.result, outcome.detail) == (Result.REFUSED, "the disk is full")
    assert kernel.log == []


def test_an_equal_value_is_not_noted(kernel: PlainKernel) -> None:
    def note(current: str, ours: str) -> Attempt | None:
        raise AssertionError(current, ours)

    outcome = kernel.writer().write(Change(kernel.make(POD), WEIGHT, 5, 100), note)
    assert outcome.result is Result.UNCHANGED


def test_no_descriptor_is_left_open(kernel: PlainKernel) -> None:
    ref, writer = kernel.make(POD), kernel.writer()
    before = len(os.listdir("/proc/self/fd"))
    kernel.errors["cpu.max"] = errno.EINVAL
    for knob, value in ((WEIGHT, 5), (QUOTA, quota(5_000)), (CPU_QOS_LEVEL, 0), (BURST, -1)):
        writer.write(Change(ref, knob, 0, value))
    writer.write(Change(CgroupRef(POD, 1, Level.POD), WEIGHT, 1, 2))
    assert len(os.listdir("/proc/self/fd")) == before
