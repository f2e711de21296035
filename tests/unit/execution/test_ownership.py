"""Whose value it is: what others wrote is kept, what follows from our own writes is undone."""

import errno

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import CPUS, IDLE, MEMORY_MAX, QUOTA, WEIGHT
from slackwater.model.plan import Ownership, Result
from tests.unit.execution.desk import (
    POD,
    SLICE,
    adopted,
    killed_before,
    one,
    quota,
    results,
)
from tests.unit.execution.fake_systemd import FakeSystemd
from tests.unit.execution.plain_kernel import Clock, PlainKernel

# What others wrote.


def test_a_release_leaves_what_somebody_else_wrote(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """An in-place resize by the kubelet, say."""
    one(executor, pod, QUOTA, quota(5_000))
    (kernel.folder(POD) / "cpu.max").write_text("45000 100000\n")
    assert adopted(executor) == {"quota": Ownership.DRIFT}
    (outcome,) = executor.release()
    assert outcome.result is Result.UNCHANGED
    assert outcome.detail == "left: somebody else wrote '45000 100000'"
    assert kernel.text(POD, "cpu.max") == "45000 100000"
    assert ledger.entries == ()


def test_after_drift_the_drifted_value_is_the_baseline(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    (kernel.folder(POD) / "cpu.max").write_text("45000 100000\n")
    one(executor, pod, QUOTA, quota(6_000))
    assert results(executor.release()) == [("quota", Result.APPLIED)]
    assert kernel.text(POD, "cpu.max") == "45000 100000"


def test_the_old_baseline_again_is_no_new_one(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """The kubelet's tick."""
    one(executor, pod, QUOTA, quota(5_000))
    since = ledger.entries[0].since
    (kernel.folder(POD) / "cpu.max").write_text("max 100000\n")
    one(executor, pod, QUOTA, quota(6_000))
    assert (ledger.entries[0].baseline, ledger.entries[0].since) == ("max 100000", since)


def test_a_write_that_was_refused_leaves_no_note(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    for file, knob, value in (("cpu.max", QUOTA, quota(5_000)), ("cpu.idle", IDLE, True)):
        kernel.errors[file] = errno.EINVAL
        assert one(executor, pod, knob, value).result is Result.REFUSED
        assert ledger.entries == ()


def test_killed_before_the_first_write_then_somebody_else_writes(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_before(1, monkeypatch, lambda: one(executor, pod, QUOTA, quota(5_000)))
    assert adopted(executor) == {"quota": Ownership.BASELINE}
    (kernel.folder(POD) / "cpu.max").write_text("40000 100000\n")
    executor.release()
    assert kernel.text(POD, "cpu.max") == "40000 100000"


# What follows from our own writes.


@pytest.mark.parametrize(
    ("start", "new"),
    [
        ("80000", quota(10_000, 50_000)),
        ("-1", quota(10_000, 50_000)),
        ("10000", quota(80_000, 400)),
    ],
)
def test_half_a_quota_of_v1_is_ours(
    v1: PlainKernel, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, start: str, new: object
) -> None:
    ref = v1.make(POD)
    executor = Executor(ledger, v1.writer(), None, Clock())
    (v1.folder(POD) / "cpu.cfs_quota_us").write_text(f"{start}\n")
    assert isinstance(new, type(quota(1)))
    killed_before(2, monkeypatch, lambda: one(executor, ref, QUOTA, new))
    assert adopted(executor) == {"quota": Ownership.OURS}
    executor.release()
    assert v1.text(POD, "cpu.cfs_quota_us") == start
    assert v1.text(POD, "cpu.cfs_period_us") == "100000"


def test_a_cpuset_on_its_way_back_is_ours(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kernel.folder(POD) / "cpuset.cpus").write_text("0\n")
    one(executor, pod, CPUS, CpuSet.of([2]))
    killed_before(2, monkeypatch, executor.release)
    assert kernel.text(POD, "cpuset.cpus") == "0,2"
    assert adopted(executor) == {"cpus": Ownership.OURS}
    executor.release()
    assert kernel.text(POD, "cpuset.cpus") == "0"


def test_memory_in_whole_pages_is_ours(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, MEMORY_MAX, 8193)
    (kernel.folder(POD) / "memory.max").write_text("8192\n")
    assert results(executor.release()) == [("memory-max", Result.APPLIED)]
    assert kernel.text(POD, "memory.max") == "max"


def test_a_units_property_that_somebody_else_set_is_left(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    one(with_units, slice_, WEIGHT, 5)
    systemd.unit(SLICE, CPUWeight=("t", 500))
    (outcome,) = with_units.release()
    assert "CPUWeight=500" in outcome.detail
    assert systemd.units[slice_.name()]["CPUWeight"] == ("t", 500)
    assert ledger.entries == ()


def test_a_property_that_the_kernel_refused_leaves_no_note(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    systemd.applies = False
    assert one(with_units, slice_, QUOTA, quota(20_000)).result is Result.REFUSED
    assert ledger.entries == ()
