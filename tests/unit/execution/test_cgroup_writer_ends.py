"""How a write by cgroup_writer ends when it is not simply done."""

import errno
import os

import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.knob_writer import Attempt, failed_attempt
from slackwater.model.cgroup import CgroupMounts, CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    IDLE,
    MEMORY_HIGH,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Change, Result
from slackwater.model.units import UNLIMITED
from tests.unit.execution.desk import POD, quota
from tests.unit.execution.plain_kernel import Clock, PlainKernel


def test_a_file_that_this_kernel_lacks(kernel: PlainKernel) -> None:
    ref, writer = kernel.make(POD), kernel.writer()
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
def test_what_the_kernel_answers_to_a_write(
    kernel: PlainKernel, number: int, result: Result
) -> None:
    kernel.errors["cpu.weight"] = number
    outcome = kernel.writer().write(Change(kernel.make(POD), WEIGHT, 100, 50))
    assert outcome.result is result
    assert outcome.detail == (f"the kernel refused '50' in cpu.weight: {os.strerror(number)}")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_file_that_may_not_be_opened(
    kernel: PlainKernel, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    ref, writer, plain = kernel.make(POD), kernel.writer(), os.open

    def guarded(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_WRONLY:
            raise OSError(number, os.strerror(number), path)
        return plain(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", guarded)
    outcome = writer.write(Change(ref, WEIGHT, 100, 50))
    assert outcome.result is Result.UNSUPPORTED
    assert outcome.detail == f"cpu.weight: {os.strerror(number)}"


def test_a_folder_in_place_of_a_file(kernel: PlainKernel) -> None:
    ref = kernel.make(POD)
    (kernel.folder(POD) / "cpu.weight").unlink()
    (kernel.folder(POD) / "cpu.weight").mkdir()
    assert kernel.writer().write(Change(ref, WEIGHT, 1, 2)).result is Result.REFUSED


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
    kernel: PlainKernel, knob: Knob, value: KnobValue, words: str
) -> None:
    outcome = kernel.writer().write(Change(kernel.make(POD), knob, 0, value))
    assert outcome.result is Result.REFUSED
    assert words in outcome.detail
    assert kernel.log == []


@pytest.mark.parametrize("text", ["", "x", "1 2 3", "-" * 70_000, "\x00"])
def test_a_reading_that_is_garbage_is_not_overwritten(kernel: PlainKernel, text: str) -> None:
    """What cannot be read could not be put back."""
    ref, writer = kernel.make(POD), kernel.writer()
    (kernel.folder(POD) / "cpu.max").write_text(text)
    outcome = writer.write(Change(ref, QUOTA, quota(5_000), quota(6_000)))
    assert outcome.result is Result.REFUSED
    assert "cpu.max holds" in outcome.detail
    assert kernel.log == []


def test_an_error_without_a_number_is_still_one_clause() -> None:
    assert failed_attempt(OSError("odd")) == Attempt(Result.REFUSED, "odd")
