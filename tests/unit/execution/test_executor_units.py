"""The executor where systemd owns the cgroups."""

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    QUOTA,
    WEIGHT,
    Knob,
)
from slackwater.model.plan import Change, Ownership, Result
from slackwater.model.unit_property import INFINITY
from tests.unit.execution.desk import POD, SLICE, UNIT, adopted, one, quota, results
from tests.unit.execution.fake_systemd import FakeSystemd, hang_up
from tests.unit.execution.plain_kernel import Clock, PlainKernel


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
    assert adopted(with_units) == dict.fromkeys(noted, Ownership.OURS)
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
    assert found.ownership is Ownership.UNREAD
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
