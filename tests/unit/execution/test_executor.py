"""The executor: notes before writes, routes, what is off, and the way back."""

import errno
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import FILE, Ledger
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.ledger import FILE_ROUTE, LedgerEntry, Standing
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.unit_property import INFINITY
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from tests.unit.execution.fake_systemd import FakeSystemd, hang_up
from tests.unit.execution.plain_kernel import Clock, PlainKernel

POD = "kubepods/pod1"
SLICE = "kubepods.slice/kubepods-pod1.slice"
UNIT = "unit:kubepods-pod1.slice"
NONE = Bandwidth(UNLIMITED)


def quota(limit: int) -> Bandwidth:
    return Bandwidth(Micros(limit))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainKernel:
    (tmp_path / "cgroup").mkdir()
    return PlainKernel(tmp_path / "cgroup", CgroupVersion.V2, monkeypatch)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = reopened(tmp_path)
    try:
        yield made
    finally:
        made.close()


def reopened(tmp_path: Path) -> Ledger:
    found = Ledger.open(str(tmp_path / "ledger"), "boot")
    assert isinstance(found, Ledger), found
    return found


@pytest.fixture
def pod(kernel: PlainKernel) -> CgroupRef:
    return kernel.make(POD)


@pytest.fixture
def executor(kernel: PlainKernel, ledger: Ledger) -> Executor:
    return Executor(ledger, kernel.writer(), None, Clock())


@pytest.fixture
def systemd(tmp_path: Path, kernel: PlainKernel) -> Iterator[FakeSystemd]:
    made = FakeSystemd(tmp_path / "private", kernel)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def slice_(systemd: FakeSystemd, kernel: PlainKernel) -> CgroupRef:
    ref = kernel.make(SLICE)
    systemd.unit(SLICE, CPUWeight=("t", 79))
    return ref


@pytest.fixture
def with_units(kernel: PlainKernel, ledger: Ledger, systemd: FakeSystemd) -> Executor:
    return Executor(ledger, kernel.writer(), units(systemd), Clock())


def units(systemd: FakeSystemd) -> UnitWriter:
    found = UnitWriter.open(systemd.kernel.writer(), Clock(), systemd.path)
    assert isinstance(found, UnitWriter), found
    return found


def results(outcomes: list[Outcome]) -> list[tuple[str, Result]]:
    return [(outcome.change.knob.name, outcome.result) for outcome in outcomes]


def one(executor: Executor, ref: CgroupRef, knob: Knob, new: KnobValue) -> Outcome:
    (outcome,) = executor.apply([Change(ref, knob, new, new)])
    return outcome


# Noting.


def test_the_note_is_on_disk_before_the_kernel_is_written(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef, tmp_path: Path
) -> None:
    kernel.errors["cpu.max"] = errno.EINVAL
    assert one(executor, pod, QUOTA, quota(5_000)).result is Result.REFUSED
    text = (tmp_path / "ledger" / FILE).read_text()
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
    assert entry.since == 5, "when it was first touched"


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


def test_what_does_not_work_here_is_tried_once_for_each_level(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    kernel.errors["cpu.weight"] = errno.EROFS
    assert one(executor, pod, WEIGHT, 5).detail
    again = one(executor, pod, WEIGHT, 6)
    assert (again.result, again.detail) == (Result.UNSUPPORTED, "")
    assert len(kernel.log) == 1
    tier = kernel.make("kubepods", Level.TIER)
    one(executor, tier, WEIGHT, 5)
    assert len(kernel.log) == 2
    assert one(executor, pod, BURST, 5).result is Result.APPLIED


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


# Adoption.


def adopted(executor: Executor) -> dict[str, Standing]:
    return {a.entry.knob: a.standing for a in executor.adopt().live}


def test_what_a_restart_finds(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef, tmp_path: Path
) -> None:
    for knob, value in ((QUOTA, quota(5_000)), (BURST, 100), (WEIGHT, 5), (MEMORY_MAX, 8193)):
        one(executor, pod, knob, value)
    ledger.close()
    (kernel.folder(POD) / "cpu.max.burst").write_text("0\n")
    (kernel.folder(POD) / "cpu.weight").write_text("33\n")
    (kernel.folder(POD) / "memory.max").write_text("8192\n")  # as the kernel rounds it
    next_run = Executor(reopened(tmp_path), kernel.writer(), None, Clock())
    assert adopted(next_run) == {
        "quota": Standing.OURS,
        "burst": Standing.BASELINE,
        "weight": Standing.DRIFT,
        "memory-max": Standing.OURS,
    }


def test_a_value_that_was_noted_but_never_written_is_no_drift(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    kernel.errors["cpu.max"] = errno.EINVAL
    one(executor, pod, QUOTA, quota(6_000))
    assert adopted(executor) == {"quota": Standing.OURS}


def test_a_weight_that_idle_hides_is_no_drift(executor: Executor, pod: CgroupRef) -> None:
    one(executor, pod, IDLE, True)
    assert adopted(executor) == {"weight": Standing.OURS, "idle": Standing.OURS}


def test_what_cannot_be_read_is_said_and_kept(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 5)
    (kernel.folder(POD) / "cpu.weight").unlink()
    (found,) = executor.adopt().live
    assert found.standing is Standing.UNREAD
    assert isinstance(found.reading, Gap)


# Release.


def test_a_release_needs_only_the_ledger(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef, tmp_path: Path
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
    later = reopened(tmp_path)
    outcomes = Executor(later, kernel.writer(), None, Clock()).release()
    assert {o.result for o in outcomes} == {Result.APPLIED, Result.UNCHANGED}
    assert picture(kernel) == before
    assert later.entries == ()
    later.close()
    assert reopened(tmp_path).entries == ()


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


# Units.


@pytest.mark.parametrize(
    ("knob", "route"),
    [(QUOTA, UNIT), (WEIGHT, UNIT), (IDLE, UNIT), (CPUS, UNIT), (BURST, "file")],
)
def test_routes(with_units: Executor, slice_: CgroupRef, knob: Knob, route: str) -> None:
    assert with_units.route(slice_, knob) == route
    assert with_units.route(CgroupRef(POD, 1, Level.POD), knob) == "file"


def test_without_a_unit_writer_everything_is_a_file(executor: Executor, slice_: CgroupRef) -> None:
    assert executor.route(slice_, QUOTA) == "file"


def test_a_units_baseline_is_its_properties(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    one(with_units, slice_, QUOTA, quota(5_000))
    one(with_units, slice_, IDLE, True)
    noted = {e.knob: (e.route, e.baseline) for e in ledger.entries}
    assert noted == {
        "quota": (UNIT, f"CPUQuotaPerSecUSec={INFINITY} CPUQuotaPeriodUSec={INFINITY}"),
        "weight": (UNIT, "CPUWeight=79"),
        "idle": (UNIT, "CPUWeight=79"),
    }
    assert adopted(with_units) == dict.fromkeys(noted, Standing.OURS)
    with_units.release()
    assert systemd.units[slice_.name()]["CPUWeight"] == ("t", 79)
    assert systemd.units[slice_.name()]["CPUQuotaPerSecUSec"] == ("t", INFINITY)
    assert ledger.entries == ()


def test_idle_of_a_unit_ends_in_its_own_weight(
    with_units: Executor, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    one(with_units, slice_, IDLE, True)
    outcomes = with_units.apply([Change(slice_, IDLE, True, False)])
    assert results(outcomes) == [("idle", Result.APPLIED), ("weight", Result.APPLIED)]
    assert systemd.units[slice_.name()]["CPUWeight"] == ("t", 79)


def test_a_file_that_does_not_show_its_unit_is_noted_beside_it(
    with_units: Executor,
    ledger: Ledger,
    slice_: CgroupRef,
    kernel: PlainKernel,
    systemd: FakeSystemd,
) -> None:
    (kernel.folder(SLICE) / "cpuset.cpus").write_text("0-1\n")
    one(with_units, slice_, CPUS, CpuSet.of([2]))
    noted = [(e.route, e.baseline) for e in ledger.entries]
    assert noted == [("file", "0-1"), (UNIT, "AllowedCPUs=0")]
    with_units.release()
    assert kernel.text(SLICE, "cpuset.cpus") == "0-1"
    assert systemd.units[slice_.name()]["AllowedCPUs"] == ("ay", b"")
    assert ledger.entries == ()


def test_a_units_entry_waits_for_systemd(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, kernel: PlainKernel
) -> None:
    one(with_units, slice_, WEIGHT, 5)
    lonely = Executor(ledger, kernel.writer(), None, Clock())
    (found,) = lonely.adopt().live
    assert found.standing is Standing.UNREAD
    (outcome,) = lonely.release()
    assert outcome.result is Result.REFUSED
    assert "kubepods-pod1.slice" in outcome.detail
    assert len(ledger.entries) == 1
    assert results(with_units.release()) == [("weight", Result.APPLIED)]


def test_a_route_that_changed_is_released_on_both(
    with_units: Executor,
    executor: Executor,
    ledger: Ledger,
    slice_: CgroupRef,
    kernel: PlainKernel,
    systemd: FakeSystemd,
) -> None:
    """A first run could not reach systemd, the next one can."""
    one(executor, slice_, WEIGHT, 5)
    one(with_units, slice_, WEIGHT, 6)
    assert {e.route for e in ledger.entries} == {"file", UNIT}
    assert {o.result for o in with_units.release()} <= {Result.APPLIED, Result.UNCHANGED}
    assert kernel.text(SLICE, "cpu.weight") == "79"
    assert systemd.units[slice_.name()]["CPUWeight"] == ("t", 79)
    assert ledger.entries == ()


def test_a_bystander_that_cannot_be_read_forbids_the_change(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    """Two conversations: idle's own, and one for the weight; the second one breaks, twice."""
    calls = [0]
    broken = hang_up(2)

    def before(member: str) -> None:
        calls[0] += 1
        if calls[0] > 3:
            broken(member)

    systemd.before = before
    assert one(with_units, slice_, IDLE, True).result is Result.REFUSED
    assert systemd.sets == []
    assert ledger.entries == ()
