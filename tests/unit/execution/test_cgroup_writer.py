"""cgroup_writer's way to the kernel: what it writes, what it does not, and how it ends."""

import errno
import os
from pathlib import Path

import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.verdict import Verdict, verdict_of
from slackwater.model.cgroup import CgroupMounts, CgroupRef, CgroupVersion, Controller, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED, Gap
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
from tests.unit.execution.plain_kernel import Clock, PlainKernel

POD = "kubepods/besteffort/pod1"
V1, V2 = CgroupVersion.V1, CgroupVersion.V2


def quota(limit: int, period: int = 100_000) -> Bandwidth:
    return Bandwidth(Micros(limit), Micros(period))


@pytest.fixture
def v1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainKernel:
    return PlainKernel(tmp_path, V1, monkeypatch)


@pytest.fixture
def v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainKernel:
    return PlainKernel(tmp_path, V2, monkeypatch)


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
    v2: PlainKernel, knob: Knob, value: KnobValue, file: str, text: str
) -> None:
    ref, writer = v2.make(POD), v2.writer()
    outcome = writer.write(Change(ref, knob, 0, value))
    assert (outcome.result, outcome.detail) == (Result.APPLIED, "")
    assert v2.log == [(file, text)]


def test_how_long_it_took_is_the_clocks_word(v2: PlainKernel) -> None:
    ref = v2.make(POD)
    assert v2.writer().write(Change(ref, WEIGHT, 100, 5)).took == 5


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
def test_an_equal_value_is_not_written(v2: PlainKernel, knob: Knob, value: KnobValue) -> None:
    """Whatever the change believes to be the old one."""
    ref = v2.make(POD)
    assert v2.writer().write(Change(ref, knob, 77, value)).result is Result.UNCHANGED
    assert v2.log == []


def test_memory_is_compared_in_the_nodes_pages(v2: PlainKernel) -> None:
    ref, large = v2.make(POD), v2.writer(page=65_536)
    (v2.folder(POD) / "memory.max").write_text("65536\n")
    assert large.write(Change(ref, MEMORY_MAX, 0, 100_000)).result is Result.UNCHANGED
    assert v2.writer().write(Change(ref, MEMORY_MAX, 0, 100_000)).result is Result.APPLIED


def test_an_empty_cpuset_is_a_newline(v2: PlainKernel) -> None:
    ref = v2.make(POD)
    (v2.folder(POD) / "cpuset.cpus").write_text("0\n")
    assert v2.writer().write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.APPLIED
    assert v2.log == [("cpuset.cpus", "\n")]


def test_a_cpuset_that_cannot_be_emptied_gets_every_cpu(
    v2: PlainKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, writer = v2.make(POD), v2.writer()
    (v2.folder(POD) / "cpuset.cpus").write_text("0\n")
    plain = os.write

    def populated(descriptor: int, data: bytes) -> int:
        if data == b"\n":
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(descriptor, data)

    monkeypatch.setattr(os, "write", populated)
    assert writer.write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.APPLIED
    assert v2.text(POD, "cpuset.cpus") == "0-3"
    assert writer.write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.UNCHANGED
    (v2.root / "cpuset.cpus.effective").write_text("garbage")
    assert writer.write(Change(ref, CPUS, CpuSet.of([0]), CpuSet())).result is Result.REFUSED


# The group that was meant.


def test_a_group_that_is_gone(v2: PlainKernel) -> None:
    ref, writer = CgroupRef("kubepods/none", 5, Level.POD), v2.writer()
    assert writer.write(Change(ref, WEIGHT, 1, 2)).result is Result.VANISHED
    assert writer.read(ref, WEIGHT) == VANISHED
    assert not writer.lives(ref)


def test_another_group_at_the_same_path(v2: PlainKernel) -> None:
    made, writer = v2.make(POD), v2.writer()
    stale = CgroupRef(POD, made.id + 1, Level.POD)
    outcome = writer.write(Change(stale, WEIGHT, 1, 2))
    assert outcome.result is Result.VANISHED
    assert POD in outcome.detail
    assert v2.log == []
    assert not writer.lives(stale)
    assert writer.lives(made)


def test_on_v1_the_cpu_hierarchy_says_who_it_is(v1: PlainKernel) -> None:
    ref, writer = v1.make(POD), v1.writer()
    assert writer.write(Change(ref, CPUS, CpuSet(), CpuSet.of([1]))).result is Result.APPLIED
    stale = CgroupRef(POD, ref.id + 1, Level.POD)
    assert writer.write(Change(stale, CPUS, CpuSet(), CpuSet.of([0]))).result is Result.VANISHED
    assert v1.text(POD, "cpuset.cpus", Controller.CPUSET) == "1"


def test_a_group_half_removed_on_v1_is_vanished_not_unsupported(v1: PlainKernel) -> None:
    """A runtime removes the hierarchies one after the other."""
    ref = v1.make(POD)
    for file in v1.folder(POD, Controller.CPUSET).iterdir():
        file.unlink()
    v1.folder(POD, Controller.CPUSET).rmdir()
    outcome = v1.writer().write(Change(ref, CPUS, CpuSet(), CpuSet.of([1])))
    assert outcome.result is Result.VANISHED


def test_a_group_that_goes_between_open_and_write(v2: PlainKernel) -> None:
    ref, writer = v2.make(POD), v2.writer()
    v2.errors["cpu.weight"] = errno.ENODEV
    alive = writer.write(Change(ref, WEIGHT, 1, 2))
    assert alive.result is Result.REFUSED, "the kernel says so of a live group: not now"
    v2.folder(POD).rename(v2.root / "elsewhere")
    dead = writer.write(Change(ref, WEIGHT, 1, 2))
    assert dead.result is Result.VANISHED


def test_a_process_out_of_descriptors_does_not_take_groups_for_gone(
    v2: PlainKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, writer = v2.make(POD), v2.writer()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    assert writer.lives(ref)
    assert writer.write(Change(ref, WEIGHT, 1, 2)).result is Result.REFUSED


# What does not work here.


def test_a_file_that_this_kernel_lacks(v2: PlainKernel) -> None:
    ref, writer = v2.make(POD), v2.writer()
    outcome = writer.write(Change(ref, CPU_QOS_LEVEL, 0, -1))
    assert outcome.result is Result.UNSUPPORTED
    assert outcome.detail == "this cgroup has no cpu.qos_level"
    assert writer.read(ref, CPU_QOS_LEVEL) == Gap("this cgroup has no cpu.qos_level")


def test_a_knob_that_this_version_lacks(v1: PlainKernel) -> None:
    outcome = v1.writer().write(Change(v1.make(POD), MEMORY_HIGH, 0, 1))
    assert outcome.result is Result.UNSUPPORTED
    assert "cgroup v1" in outcome.detail


def test_a_controller_that_is_mounted_nowhere() -> None:
    writer = CgroupWriter(CgroupMounts({}), 4096, Clock())
    ref = CgroupRef(POD, 1, Level.POD)
    assert writer.write(Change(ref, WEIGHT, 1, 2)).result is Result.UNSUPPORTED
    assert isinstance(writer.value(WEIGHT, "1"), Gap)
    assert writer.lives(ref), "nothing was seen, so nothing is known to be gone"


@pytest.mark.parametrize(
    ("number", "result"),
    [
        (errno.EINVAL, Result.REFUSED),
        (errno.EBUSY, Result.REFUSED),
        (errno.ERANGE, Result.REFUSED),
        (errno.ENOSPC, Result.REFUSED),
        (errno.EIO, Result.REFUSED),
        (errno.ENOMEM, Result.REFUSED),
        # A rule of cpuset's, where a missing right would have shown at open.
        (errno.EACCES, Result.REFUSED),
        (errno.EPERM, Result.UNSUPPORTED),
        (errno.EROFS, Result.UNSUPPORTED),
    ],
)
def test_what_the_kernel_answers_to_a_write(v2: PlainKernel, number: int, result: Result) -> None:
    v2.errors["cpu.weight"] = number
    outcome = v2.writer().write(Change(v2.make(POD), WEIGHT, 100, 50))
    assert outcome.result is result
    assert outcome.detail == (f"the kernel refused '50' in cpu.weight: {os.strerror(number)}")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_file_that_may_not_be_opened(
    v2: PlainKernel, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    ref, writer, plain = v2.make(POD), v2.writer(), os.open

    def guarded(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_WRONLY:
            raise OSError(number, os.strerror(number), path)
        return plain(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", guarded)
    outcome = writer.write(Change(ref, WEIGHT, 100, 50))
    assert outcome.result is Result.UNSUPPORTED
    assert outcome.detail == f"cpu.weight: {os.strerror(number)}"


def test_a_folder_in_place_of_a_file(v2: PlainKernel) -> None:
    ref = v2.make(POD)
    (v2.folder(POD) / "cpu.weight").unlink()
    (v2.folder(POD) / "cpu.weight").mkdir()
    assert v2.writer().write(Change(ref, WEIGHT, 1, 2)).result is Result.REFUSED


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        (WEIGHT, 0, "must lie in 1..10000"),
        (QUOTA, quota(999), "must lie in 1000"),
        (IDLE, 1, "no value for idle"),
        (BURST, UNLIMITED, "no unlimited value"),
    ],
)
def test_a_value_that_cannot_be_written(
    v2: PlainKernel, knob: Knob, value: KnobValue, words: str
) -> None:
    outcome = v2.writer().write(Change(v2.make(POD), knob, 0, value))
    assert outcome.result is Result.REFUSED
    assert words in outcome.detail
    assert v2.log == []


@pytest.mark.parametrize("text", ["", "x", "1 2 3", "-" * 70_000, "\x00"])
def test_a_reading_that_is_garbage_is_not_overwritten(v2: PlainKernel, text: str) -> None:
    """What cannot be read could not be put back."""
    ref, writer = v2.make(POD), v2.writer()
    (v2.folder(POD) / "cpu.max").write_text(text)
    outcome = writer.write(Change(ref, QUOTA, quota(5_000), quota(6_000)))
    assert outcome.result is Result.REFUSED
    assert "cpu.max holds" in outcome.detail
    assert v2.log == []


def test_an_error_without_a_number_is_still_one_clause() -> None:
    assert verdict_of(OSError("odd")) == Verdict(Result.REFUSED, "odd")


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


# The note comes first.


def test_the_note_sees_what_stands_and_what_comes(v2: PlainKernel) -> None:
    ref, seen = v2.make(POD), list[tuple[str, str, int]]()

    def note(current: str, ours: str) -> Verdict | None:
        seen.append((current, ours, len(v2.log)))
        return None

    v2.writer().write(Change(ref, QUOTA, Bandwidth(UNLIMITED), quota(5_000)), note)
    assert seen == [("max 100000", "5000 100000", 0)]


def test_a_note_that_fails_forbids_the_write(v2: PlainKernel) -> None:
    ref = v2.make(POD)
    outcome = v2.writer().write(
        Change(ref, WEIGHT, 100, 5), lambda _, __: Verdict(Result.REFUSED, "the disk is full")
    )
    assert (outcome.result, outcome.detail) == (Result.REFUSED, "the disk is full")
    assert v2.log == []


def test_an_equal_value_is_not_noted(v2: PlainKernel) -> None:
    def note(current: str, ours: str) -> Verdict | None:
        raise AssertionError(current, ours)

    outcome = v2.writer().write(Change(v2.make(POD), WEIGHT, 5, 100), note)
    assert outcome.result is Result.UNCHANGED


def test_no_descriptor_is_left_open(v2: PlainKernel) -> None:
    ref, writer = v2.make(POD), v2.writer()
    before = len(os.listdir("/proc/self/fd"))
    v2.errors["cpu.max"] = errno.EINVAL
    for knob, value in ((WEIGHT, 5), (QUOTA, quota(5_000)), (CPU_QOS_LEVEL, 0), (BURST, -1)):
        writer.write(Change(ref, knob, 0, value))
    writer.write(Change(CgroupRef(POD, 1, Level.POD), WEIGHT, 1, 2))
    assert len(os.listdir("/proc/self/fd")) == before
