"""A systemd that is silent at a start or at the end: no baseline is lost, nothing is left."""

from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import BURST, CPUS, IDLE, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.plan import FILE_ROUTE, LedgerEntry, Ownership, Result
from slackwater.model.units import Micros
from tests.unit.execution.desk import SLICE, UNIT, adopted, one, opened, quota, results
from tests.unit.execution.fake_systemd import FakeSystemd
from tests.unit.execution.plain_kernel import Clock, PlainKernel

FIVE, SIX = quota(5_000), quota(6_000)


def lazy(kernel: PlainKernel, path: str, clock: Clock | None = None) -> UnitWriter:
    """Of a node whose driver is systemd; nobody has been asked yet."""
    return UnitWriter(kernel.writer(), clock or Clock(), path, 300.0)


@pytest.fixture
def silent(kernel: PlainKernel, ledger: Ledger, tmp_path: Path) -> Executor:
    """Of a node with the systemd driver, whose systemd has no socket at this moment."""
    return Executor(ledger, kernel.writer(), lazy(kernel, str(tmp_path / "absent")), Clock())


def test_a_file_noted_after_its_unit_has_the_units_baseline(
    with_units: Executor,
    executor: Executor,
    ledger: Ledger,
    slice_: CgroupRef,
    kernel: PlainKernel,
) -> None:
    """The first run had systemd, the second wrote files, the third has systemd again."""
    one(with_units, slice_, QUOTA, FIVE)
    one(executor, slice_, QUOTA, SIX)
    assert {e.route: e.baseline for e in ledger.entries}[FILE_ROUTE] == "max 100000"
    outcomes = with_units.release()
    assert {each.result for each in outcomes} <= {Result.APPLIED, Result.UNCHANGED}
    assert kernel.text(SLICE, "cpu.max") == "max 100000"
    assert ledger.entries == ()


@pytest.mark.parametrize("later", [FIVE, quota(7_000)])
def test_a_ledger_that_took_our_value_for_a_baseline_is_not_believed(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, kernel: PlainKernel, later: KnobValue
) -> None:
    """As versions before this one wrote it: the file's note is younger than the unit's."""
    one(with_units, slice_, QUOTA, FIVE)
    ours = "5000 100000"
    ledger.note(LedgerEntry(slice_, "quota", FILE_ROUTE, ours, ours, "6000 100000", Micros(10**9)))
    (kernel.folder(SLICE) / "cpu.max").write_text("6000 100000\n")
    one(with_units, slice_, QUOTA, later)
    with_units.release()
    assert kernel.text(SLICE, "cpu.max") == "max 100000"
    assert ledger.entries == ()


@pytest.mark.parametrize(
    ("knob", "value"), [(QUOTA, FIVE), (WEIGHT, 5), (IDLE, True), (CPUS, CpuSet.of([1]))]
)
def test_no_file_is_written_where_systemd_owns_it(
    silent: Executor,
    ledger: Ledger,
    slice_: CgroupRef,
    kernel: PlainKernel,
    knob: Knob,
    value: KnobValue,
) -> None:
    before = len(kernel.log)
    outcome = one(silent, slice_, knob, value)
    assert outcome.result is Result.REFUSED
    assert "systemd" in outcome.detail
    assert (kernel.log[before:], ledger.entries) == ([], ())


def test_what_has_no_property_is_a_file_all_the_same(
    silent: Executor, slice_: CgroupRef, kernel: PlainKernel
) -> None:
    one(silent, slice_, BURST, Micros(0))
    assert silent.route(slice_, BURST) == FILE_ROUTE


def test_systemd_is_asked_again_until_it_answers(
    kernel: PlainKernel, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    late = lazy(kernel, f"{systemd.path}.absent")
    executor = Executor(ledger, kernel.writer(), late, Clock())
    assert one(executor, slice_, QUOTA, FIVE).result is Result.REFUSED
    late._socket_path = systemd.path
    assert one(executor, slice_, QUOTA, FIVE).result is Result.APPLIED
    assert [entry.route for entry in ledger.entries] == [UNIT]
    assert late.systemd == 252


def test_an_older_systemd_is_found_out_by_the_first_answer(
    kernel: PlainKernel, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    """Before 252 there is no property for idle: then the file is the way, from the next tick on."""
    systemd.version = "249"
    executor = Executor(ledger, kernel.writer(), lazy(kernel, systemd.path), Clock())
    assert one(executor, slice_, IDLE, True).result is Result.REFUSED
    assert systemd.sets == []
    assert one(executor, slice_, IDLE, True).result is Result.APPLIED
    assert executor.route(slice_, IDLE) == FILE_ROUTE


def test_precision_follows_from_what_was_found_out(
    kernel: PlainKernel, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    systemd.version = "249"
    executor = Executor(ledger, kernel.writer(), lazy(kernel, systemd.path), Clock())
    before = executor.precision()
    one(executor, slice_, QUOTA, FIVE)
    assert "idle" in before.unit_knobs
    assert "idle" not in executor.precision().unit_knobs
    assert executor.precision() is executor.precision()


def test_a_restart_without_systemd_keeps_what_is_noted(
    with_units: Executor,
    ledger: Ledger,
    slice_: CgroupRef,
    folder: Path,
    kernel: PlainKernel,
    systemd: FakeSystemd,
) -> None:
    """Upgrade of systemd for longer than our patience, in the middle of a restart of ours."""
    one(with_units, slice_, QUOTA, FIVE)
    ledger.close()
    later = opened(folder)
    writer = lazy(kernel, f"{systemd.path}.absent")
    executor = Executor(later, kernel.writer(), writer, Clock())
    assert adopted(executor) == {"quota": Ownership.UNREAD}
    assert one(executor, slice_, QUOTA, SIX).result is Result.REFUSED
    assert results(executor.release()) == [("quota", Result.REFUSED)]
    writer._socket_path = systemd.path
    assert results(executor.release()) == [("quota", Result.APPLIED)]
    assert kernel.text(SLICE, "cpu.max") == "max 100000"
    later.close()
