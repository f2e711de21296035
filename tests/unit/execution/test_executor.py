"""The executor: notes before writes, routes, what is off, and the way back."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import FILE, Ledger
from slackwater.model.cgroup import CgroupController, CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
)
from slackwater.model.plan import FILE_ROUTE, Change, LedgerEntry, Result
from slackwater.model.units import UNLIMITED
from tests.unit.execution.desk import (
    NONE,
    POD,
    one,
    quota,
    results,
)
from tests.unit.execution.plain_kernel import Clock, PlainKernel


def test_the_note_is_on_disk_before_the_kernel_is_written(
    executor: Executor, pod: CgroupRef, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    plain = os.write

    def watched(descriptor: int, data: bytes) -> int:
        if data == b"5000 100000\n":
            seen.append((folder / FILE).read_text())
        return plain(descriptor, data)

    monkeypatch.setattr(os, "write", watched)
    one(executor, pod, QUOTA, quota(5_000))
    (text,) = seen
    assert '"baseline":"max 100000"' in text
    assert '"ours":"5000 100000"' in text


def test_the_baseline_is_the_first_reading_and_stays(
    executor: Executor, ledger: Ledger, pod: CgroupRef
) -> None:
    for limit in (5_000, 6_000, 7_000):
        one(executor, pod, QUOTA, quota(limit))
    (entry,) = ledger.entries
    assert entry == LedgerEntry(
        pod,
        "quota",
        FILE_ROUTE,
        baseline="max 100000",
        before="6000 100000",
        ours="7000 100000",
        since=entry.since,
    )
    assert entry.since == 10, "when it was first touched"


def test_what_does_not_change_is_not_noted(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    assert one(executor, pod, WEIGHT, 100).result is Result.UNCHANGED
    assert ledger.entries == ()
    assert kernel.log == []


def test_a_knob_that_cannot_be_noted_is_not_touched(
    executor: Executor,
    ledger: Ledger,
    kernel: PlainKernel,
    pod: CgroupRef,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    written = len(kernel.log)
    monkeypatch.setattr(ledger, "_write", _no_space)
    for knob, value in ((WEIGHT, 5), (IDLE, True), (CPUS, CpuSet.of([1]))):
        outcome = one(executor, pod, knob, value)
        assert outcome.result is Result.REFUSED
        assert "takes no note" in outcome.detail
    assert len(kernel.log) == written
    assert one(executor, pod, QUOTA, quota(6_000)).result is Result.APPLIED
    assert results(executor.release()) == [("quota", Result.APPLIED)]


def _no_space(_: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# Idle and the weight.


def test_idle_notes_the_weight_that_it_will_cost(
    executor: Executor, ledger: Ledger, pod: CgroupRef
) -> None:
    one(executor, pod, IDLE, True)
    assert [(e.knob, e.baseline) for e in ledger.entries] == [("weight", "100"), ("idle", "0")]


def test_the_weight_comes_back_with_the_end_of_idle(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 7)
    one(executor, pod, IDLE, True)
    outcomes = executor.apply([Change(pod, IDLE, True, False)])
    assert results(outcomes) == [("idle", Result.APPLIED), ("weight", Result.APPLIED)]
    assert kernel.text(POD, "cpu.weight") == "7"


def test_a_plan_with_its_own_weight_has_its_way(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, IDLE, True)
    executor.apply([Change(pod, WEIGHT, 0, 9), Change(pod, IDLE, True, False)])
    assert kernel.text(POD, "cpu.weight") == "9"


def test_idle_of_somebody_elses_has_no_weight_to_note(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """While it is idle its weight reads 0: no baseline. What comes after it is one."""
    (kernel.folder(POD) / "cpu.idle").write_text("1\n")
    (kernel.folder(POD) / "cpu.weight").write_text("0\n")
    assert one(executor, pod, WEIGHT, 9).result is Result.REFUSED
    assert ledger.find(pod.id, "weight", FILE_ROUTE) is None
    executor.apply([Change(pod, IDLE, True, False), Change(pod, WEIGHT, 0, 9)])
    assert [(e.knob, e.baseline) for e in ledger.entries] == [("idle", "1"), ("weight", "100")]
    executor.release()
    assert kernel.text(POD, "cpu.idle") == "1"
    assert ledger.entries == ()


def test_a_group_that_is_idle_again_as_it_was_needs_no_weight(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    (kernel.folder(POD) / "cpu.idle").write_text("1\n")
    executor.apply([Change(pod, IDLE, True, False), Change(pod, WEIGHT, 0, 9)])
    one(executor, pod, IDLE, True)
    assert results(executor.release()) == [
        ("weight", Result.UNCHANGED),
        ("idle", Result.UNCHANGED),
    ]
    assert ledger.entries == ()


# What is off.


def test_what_does_not_work_here_is_said_once_for_each_level(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef, ledger: Ledger
) -> None:
    """However many groups there are, and however often they are tried."""
    kernel.errors["cpu.weight"] = errno.EROFS
    other, tier = kernel.make("kubepods/pod2"), kernel.make("kubepods", Level.TIER)
    said = [one(executor, ref, WEIGHT, 5) for ref in (pod, pod, other, tier)]
    assert {outcome.result for outcome in said} == {Result.UNSUPPORTED}
    assert [bool(outcome.detail) for outcome in said] == [True, False, False, True]
    assert ledger.entries == ()
    assert one(executor, pod, BURST, 5).result is Result.APPLIED


def test_a_missing_file_is_one_groups_and_only_for_now(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """A pod whose parent has not given it the controller yet."""
    other = kernel.make("kubepods/pod2")
    file = kernel.folder(POD) / "cpu.max"
    file.unlink()
    assert one(executor, pod, QUOTA, quota(5_000)).result is Result.UNSUPPORTED
    assert one(executor, other, QUOTA, quota(5_000)).result is Result.APPLIED
    file.write_text("max 100000\n")
    assert one(executor, pod, QUOTA, quota(5_000)).result is Result.APPLIED


def test_a_right_that_is_missing_is_never_noted(
    executor: Executor, pod: CgroupRef, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.open

    def guarded(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "cpu.weight" and flags & os.O_WRONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return plain(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", guarded)
    assert one(executor, pod, WEIGHT, 5).result is Result.UNSUPPORTED
    assert not (folder / FILE).exists()


def test_refused_is_tried_again(executor: Executor, kernel: PlainKernel, pod: CgroupRef) -> None:
    kernel.errors["cpu.weight"] = errno.EBUSY
    assert one(executor, pod, WEIGHT, 5).result is Result.REFUSED
    kernel.errors.clear()
    assert one(executor, pod, WEIGHT, 5).result is Result.APPLIED


def test_one_failure_does_not_hold_up_the_others(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    kernel.errors["cpu.max"] = errno.EINVAL
    outcomes = executor.apply(
        [
            Change(pod, QUOTA, NONE, quota(5_000)),
            Change(pod, CPU_QOS_LEVEL, 0, -1),
            Change(pod, MEMORY_MAX, UNLIMITED, 4096),
        ]
    )
    assert dict(results(outcomes)) == {
        "quota": Result.REFUSED,
        "cpu-qos-level": Result.UNSUPPORTED,
        "memory-max": Result.APPLIED,
    }


# Groups that go.


def test_a_missing_twin_does_not_make_the_ledger_forget(v1: PlainKernel, ledger: Ledger) -> None:
    ref = v1.make(POD)
    executor = Executor(ledger, v1.writer(), None, Clock())
    one(executor, ref, QUOTA, quota(5_000))
    shutil.rmtree(v1.folder(POD, CgroupController.CPUSET))
    assert one(executor, ref, CPUS, CpuSet.of([1])).result is Result.REFUSED
    assert results(executor.release()) == [("quota", Result.APPLIED)]
    assert v1.text(POD, "cpu.cfs_quota_us") == "-1"


def test_a_vanished_group_leaves_the_ledger(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 5)
    one(executor, pod, QUOTA, quota(5_000))
    kernel.folder(POD).rename(kernel.root / "gone")
    assert one(executor, pod, WEIGHT, 6).result is Result.VANISHED
    assert ledger.entries == ()


def test_a_sweep_drops_only_what_is_gone(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    other = kernel.make("kubepods/pod2")
    one(executor, pod, WEIGHT, 5)
    one(executor, other, WEIGHT, 5)
    kernel.folder(POD).rename(kernel.root / "gone")
    assert [entry.ref for entry in executor.sweep()] == [pod]
    assert [entry.ref for entry in ledger.entries] == [other]
