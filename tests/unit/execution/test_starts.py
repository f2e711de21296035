"""Quotas that a container runtime was told of: noted first, adopted when they stand, given back."""

import errno
import os
from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import FILE, MOST_STARTS, Ledger
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.plan import Result, StartNote
from slackwater.model.snapshot import Held
from slackwater.model.units import Micros
from tests.unit.execution.desk import SLICE, entry, opened, quota
from tests.unit.execution.plain_kernel import Clock, PlainKernel

CONTAINER = "kubepods/pod1/c1"
AT = Micros(5)


def note(number: int = 1, told: int = 83_334) -> StartNote:
    return StartNote(f"kubepods/pod1/c{number}", quota(100_000), quota(told), AT)


def reread_starts(folder: Path) -> tuple[StartNote, ...]:
    found = opened(folder)
    found.close()
    return found.starts


@pytest.fixture
def container(kernel: PlainKernel, pod: CgroupRef) -> CgroupRef:
    """As the runtime made it, with the quota that it was told of."""
    made = kernel.make(CONTAINER)
    (kernel.root / CONTAINER / "cpu.max").write_text("83334 100000\n")
    assert pod.level is Level.POD
    return made


def test_a_start_is_on_disk_before_anybody_is_told(ledger: Ledger, folder: Path) -> None:
    assert ledger.note_start(note()) is None
    assert '"start"' in (folder / FILE).read_text()
    ledger.close()
    assert reread_starts(folder) == (note(),)


def test_the_last_note_of_a_container_counts(ledger: Ledger, folder: Path) -> None:
    for told in (1_000, 2_000):
        ledger.note_start(note(told=told))
    ledger.forget_start(note(told=1_000))
    assert ledger.starts == (note(told=2_000),)
    ledger.note_start(note(2))
    ledger.forget_start(note(told=2_000))
    ledger.close()
    assert reread_starts(folder) == (note(2),)


def test_starts_and_knobs_share_the_file(ledger: Ledger, folder: Path) -> None:
    """Neither is lost when the last of the other goes, or when the file is written anew."""
    ledger.note(entry(1))
    ledger.note_start(note())
    ledger.clear(entry(1))
    assert ledger.starts == (note(),)
    ledger.note(entry(2))
    for number in range(500):
        ledger.note(entry(2, ours=f"{10_000 + number} 100000"))
    ledger.close()
    assert reread_starts(folder) == (note(),)
    again = opened(folder)
    again.forget_start(note())
    assert [each.ref.id for each in again.entries] == [2]
    again.clear(again.entries[0])
    again.close()
    assert (folder / FILE).read_text() == ""


def test_there_are_so_many_and_no_more(ledger: Ledger) -> None:
    for number in range(MOST_STARTS):
        assert ledger.note_start(note(number)) is None
    assert isinstance(ledger.note_start(note(MOST_STARTS)), Gap)
    assert ledger.note_start(note(0, told=1_000)) is None


def test_a_full_disk_forbids_it(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    assert isinstance(ledger.note_start(note()), Gap)
    assert ledger.starts == ()


def test_what_the_runtime_set_is_ours_and_the_kubelets_word_its_baseline(
    executor: Executor, container: CgroupRef, kernel: PlainKernel
) -> None:
    assert executor.note_start(note()) is None
    assert executor.starts() == (note(),)
    executor.adopt_start(note(), container)
    assert executor.starts() == ()
    assert executor.held() == (Held(container, "quota", quota(100_000), quota(83_334), AT),)
    assert kernel.log == [], "nothing was written"
    [outcome] = executor.release()
    assert outcome.result is Result.APPLIED
    assert (kernel.root / CONTAINER / "cpu.max").read_text().strip() == "100000 100000"
    assert executor.held() == ()


def test_an_update_moves_the_baseline(
    executor: Executor, container: CgroupRef, kernel: PlainKernel
) -> None:
    executor.note_start(note())
    executor.adopt_start(note(), container)
    (kernel.root / CONTAINER / "cpu.max").write_text("125000 100000\n")
    update = StartNote(CONTAINER, quota(150_000), quota(125_000), Micros(9))
    executor.note_start(update)
    executor.adopt_start(update, container)
    assert executor.held() == (Held(container, "quota", quota(150_000), quota(125_000), AT),)
    executor.release()
    assert (kernel.root / CONTAINER / "cpu.max").read_text().strip() == "150000 100000"


def test_a_release_before_any_tick_saw_it(
    executor: Executor, container: CgroupRef, kernel: PlainKernel
) -> None:
    """Killed after the answer: `slackwater release` has the ledger alone."""
    executor.note_start(note())
    executor.note_start(note(2))  # it never came
    [outcome] = executor.release()
    assert (outcome.change.ref.id, outcome.result) == (container.id, Result.APPLIED)
    assert (kernel.root / CONTAINER / "cpu.max").read_text().strip() == "100000 100000"
    assert executor.starts() == (note(2),)


def test_a_release_leaves_what_the_runtime_did_not_take(
    executor: Executor, container: CgroupRef, kernel: PlainKernel
) -> None:
    (kernel.root / CONTAINER / "cpu.max").write_text("100000 100000\n")
    executor.note_start(note())
    assert executor.release() == []
    assert kernel.log == []
    executor.forget_start(note())
    assert executor.starts() == ()
    assert executor.locate(container.path) == container.id
    assert executor.locate("kubepods/nobody") is None


def test_where_systemd_owns_the_scope_its_property_goes_back(
    kernel: PlainKernel, ledger: Ledger, with_units: Executor
) -> None:
    path = f"{SLICE}/cri-containerd-{'a' * 64}.scope"
    ref = kernel.make(path)
    told = StartNote(path, quota(100_000), quota(84_000), AT)
    with_units.note_start(told)
    with_units.adopt_start(told, ref)
    [made] = ledger.entries
    assert made.route.startswith("unit:")
    [held] = with_units.held()
    assert (held.baseline, held.ours) == (quota(100_000), quota(84_000))


def test_in_another_hierarchy_nobody_is_told(kernel: PlainKernel, folder: Path) -> None:
    first = opened(folder)
    first.check_hierarchy("another")
    first.note(entry(1))
    first.close()
    again = opened(folder)
    executor = Executor(again, kernel.writer(), None, Clock())
    assert isinstance(executor.note_start(note()), Gap)
    again.close()
