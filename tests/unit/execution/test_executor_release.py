"""The executor after a restart, and the way back to every baseline."""

import errno
from pathlib import Path

import msgspec
import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
)
from slackwater.model.plan import Change, Ownership, Result
from slackwater.model.units import UNLIMITED
from tests.unit.execution.desk import (
    NONE,
    POD,
    adopted,
    one,
    opened,
    quota,
    reread,
    results,
)
from tests.unit.execution.plain_kernel import Clock, PlainKernel


def test_what_a_restart_finds(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef, folder: Path
) -> None:
    for knob, value in ((QUOTA, quota(5_000)), (BURST, 100), (WEIGHT, 5), (MEMORY_MAX, 8193)):
        one(executor, pod, knob, value)
    ledger.close()
    (kernel.folder(POD) / "cpu.max.burst").write_text("0\n")
    (kernel.folder(POD) / "cpu.weight").write_text("33\n")
    (kernel.folder(POD) / "memory.max").write_text("8192\n")  # as the kernel rounds it
    next_run = Executor(opened(folder), kernel.writer(), None, Clock())
    assert adopted(next_run) == {
        "quota": Ownership.OURS,
        "burst": Ownership.BASELINE,
        "weight": Ownership.DRIFT,
        "memory-max": Ownership.OURS,
    }


def test_a_value_that_was_noted_but_never_written_is_no_drift(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    kernel.errors["cpu.max"] = errno.EINVAL
    one(executor, pod, QUOTA, quota(6_000))
    assert adopted(executor) == {"quota": Ownership.OURS}


def test_a_weight_that_idle_hides_is_no_drift(executor: Executor, pod: CgroupRef) -> None:
    one(executor, pod, IDLE, True)
    assert adopted(executor) == {"weight": Ownership.OURS, "idle": Ownership.OURS}


def test_what_cannot_be_read_is_said_and_kept(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 5)
    (kernel.folder(POD) / "cpu.weight").unlink()
    (found,) = executor.adopt().live
    assert found.ownership is Ownership.UNREAD
    assert isinstance(found.reading, Gap)


# Release.


def test_a_release_needs_only_the_ledger(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef, folder: Path
) -> None:
    before = picture(kernel)
    executor.apply(
        [
            Change(pod, QUOTA, NONE, quota(5_000)),
            Change(pod, BURST, 0, 5_000),
            Change(pod, CPUS, CpuSet(), CpuSet.of([2])),
            Change(pod, MEMORY_MAX, UNLIMITED, 2**20),
            Change(pod, IDLE, False, True),
        ]
    )
    ledger.close()
    later = opened(folder)
    outcomes = Executor(later, kernel.writer(), None, Clock()).release()
    assert {o.result for o in outcomes} == {Result.APPLIED, Result.UNCHANGED}
    assert picture(kernel) == before
    assert later.entries == ()
    later.close()
    assert reread(folder) == ()


def picture(kernel: PlainKernel) -> dict[str, str]:
    return {file.name: file.read_text() for file in kernel.folder(POD).iterdir()}


def test_a_release_writes_in_the_kernels_order(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    (kernel.folder(POD) / "cpu.max").write_text("9000 100000\n")
    (kernel.folder(POD) / "cpu.max.burst").write_text("8000\n")
    executor.apply(
        [Change(pod, QUOTA, quota(9_000), quota(5_000)), Change(pod, BURST, 8_000, 5_000)]
    )
    kernel.log.clear()
    executor.release()
    assert [file for file, _ in kernel.log] == ["cpu.max", "cpu.max.burst"]


def test_a_cpuset_goes_back_by_the_union(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef, ledger: Ledger
) -> None:
    (kernel.folder(POD) / "cpuset.cpus").write_text("0\n")
    executor.apply([Change(pod, CPUS, CpuSet.of([0]), CpuSet.of([2]))])
    kernel.log.clear()
    executor.release()
    assert kernel.log == [("cpuset.cpus", "0,2\n"), ("cpuset.cpus", "0\n")]
    assert ledger.entries == ()


def test_what_is_refused_stays_for_the_next_try(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 5)
    one(executor, pod, QUOTA, quota(5_000))
    kernel.errors["cpu.max"] = errno.EINVAL
    assert dict(results(executor.release())) == {
        "weight": Result.APPLIED,
        "quota": Result.REFUSED,
    }
    assert [e.knob for e in ledger.entries] == ["quota"]
    kernel.errors.clear()
    assert results(executor.release()) == [("quota", Result.APPLIED)]
    assert ledger.entries == ()


def test_a_release_tries_what_was_off(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 5)
    kernel.errors["cpu.weight"] = errno.EROFS
    one(executor, pod, WEIGHT, 6)
    kernel.errors.clear()
    assert results(executor.release()) == [("weight", Result.APPLIED)]


def test_a_group_that_went_is_cleared_by_the_release(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 5)
    kernel.folder(POD).rename(kernel.root / "gone")
    assert results(executor.release()) == [("weight", Result.VANISHED)]
    assert ledger.entries == ()


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_baseline_that_somebody_spoiled_is_refused_and_kept(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef, unreadable: bool
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    ledger.note(msgspec.structs.replace(ledger.entries[0], baseline="spoiled"))
    if unreadable:
        (kernel.folder(POD) / "cpu.max").unlink()
    (outcome,) = executor.release()
    assert outcome.result is Result.REFUSED
    assert "spoiled" in outcome.detail
    assert len(ledger.entries) == 1


def test_nothing_noted_is_nothing_to_release(executor: Executor) -> None:
    assert executor.release() == []
    assert executor.adopt().live == ()
