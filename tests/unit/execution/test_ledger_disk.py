"""The ledger on a disk that fills up, and how it stays small."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.execution.ledger import FILE, LOCK, Ledger
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.plan import FILE_ROUTE, LedgerEntry
from slackwater.model.units import Micros
from tests.unit.execution.desk import BOOT, entry, opened, reread


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = opened(tmp_path)
    try:
        yield made
    finally:
        made.close()


class Disk:
    """Lets os.write have so many bytes more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 10**9
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.free == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.free])
        self.free -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("room", [0, 1, 30, 100])
def test_a_note_that_does_not_fit_leaves_no_trace(
    ledger: Ledger, disk: Disk, tmp_path: Path, room: int
) -> None:
    ledger.note(entry(1))
    before = (tmp_path / FILE).read_bytes()
    disk.free = room
    failed = ledger.note(entry(2))
    assert isinstance(failed, Gap)
    assert "No space left" in failed.reason
    assert (tmp_path / FILE).read_bytes() == before
    assert ledger.entries == (entry(1),)
    disk.free = 10**9
    assert ledger.note(entry(3)) is None
    ledger.close()
    assert reread(tmp_path) == (entry(1), entry(3))


@pytest.mark.parametrize("room", [0, 1, 30])
def test_a_first_note_that_does_not_fit(
    ledger: Ledger, disk: Disk, tmp_path: Path, room: int
) -> None:
    disk.free = room
    assert isinstance(ledger.note(entry(1)), Gap)
    disk.free = 10**9
    assert ledger.note(entry(2)) is None
    ledger.close()
    assert reread(tmp_path) == (entry(2),)


def test_half_a_line_that_cannot_be_cut_off_is_ended_by_the_next(
    ledger: Ledger, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.note(entry(1))
    disk.free = 30

    def refuse(descriptor: int, length: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", refuse)
        ledger.note(entry(2))
    disk.free = 10**9
    ledger.note(entry(3))
    ledger.close()
    assert reread(tmp_path) == (entry(1), entry(3))


def test_a_noted_knob_may_change_on_a_full_disk(ledger: Ledger, disk: Disk) -> None:
    ledger.note(entry(1))
    disk.free = 0
    assert isinstance(ledger.note(entry(1, ours="5000 100000")), Gap)
    assert ledger.entries == (entry(1, ours="5000 100000"),)


def test_a_full_disk_can_be_emptied(ledger: Ledger, disk: Disk, tmp_path: Path) -> None:
    ledger.note(entry(1))
    ledger.note(entry(2))
    disk.free = 0
    ledger.clear(entry(1))
    assert "still noted" in ledger.problems[0]
    ledger.clear(entry(2))
    disk.free = 10**9
    ledger.close()
    assert reread(tmp_path) == ()


def test_a_lock_on_a_full_disk_holds_without_its_pid(disk: Disk, tmp_path: Path) -> None:
    disk.free = 0
    found = opened(tmp_path)
    second = Ledger.open(str(tmp_path), BOOT)
    assert isinstance(second, Gap)
    assert "another process" in second.reason
    found.close()


def test_a_path_that_is_not_utf8_is_not_noted(ledger: Ledger) -> None:
    strange = LedgerEntry(
        CgroupRef("kubepods/\udcff", 1, Level.POD), "quota", FILE_ROUTE, "", "", "", Micros(0)
    )
    assert isinstance(ledger.note(strange), Gap)
    assert ledger.entries == ()


# Growth.


def grow(ledger: Ledger, notes: int) -> None:
    for number in range(notes):
        ledger.note(entry(1, ours=f"{number} 100000"))


def test_it_stays_small(ledger: Ledger, tmp_path: Path) -> None:
    ledger.note(entry(2))
    grow(ledger, 5_000)
    assert len((tmp_path / FILE).read_bytes().splitlines()) < 300
    ledger.close()
    assert set(reread(tmp_path)) == {entry(2), entry(1, ours="4999 100000")}


def test_many_live_entries_are_no_reason_to_rewrite_it_each_time(
    ledger: Ledger, tmp_path: Path
) -> None:
    for number in range(1_000):
        ledger.note(entry(number))
    before = (tmp_path / FILE).stat().st_ino
    ledger.note(entry(1, ours="1 1"))
    assert (tmp_path / FILE).stat().st_ino == before


def test_a_rewrite_that_fails_keeps_the_old_file(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def refuse(old: str, new: str) -> None:
        tries.append(old)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        grow(ledger, 1_000)
        assert ledger.note(entry(2)) is None
    assert 1 <= len(tries) <= 5, "less and less often"
    assert sorted(os.listdir(tmp_path)) == [FILE, LOCK]
    grow(ledger, 1_000)
    assert len((tmp_path / FILE).read_bytes().splitlines()) < 1_000, "it is tried again later"
    ledger.close()
    assert set(reread(tmp_path)) == {entry(2), entry(1, ours="999 100000")}


def test_a_rewrite_that_was_killed_is_ignored(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note(entry(1))
    first.close()
    (tmp_path / f"{FILE}.new").write_bytes(b"half a")
    assert reread(tmp_path) == (entry(1),)


notes = st.tuples(st.just("note"), st.integers(1, 4), st.text("0123456789", max_size=3))
clears = st.tuples(st.just("clear"), st.integers(1, 4), st.just(""))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.one_of(notes, clears), max_size=30))
def test_a_reopened_ledger_equals_the_one_in_memory(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = opened(folder)
    for verb, number, ours in steps:
        if verb == "note":
            ledger.note(entry(number, ours=ours))
        else:
            ledger.clear(entry(number))
    memory = ledger.entries
    ledger.close()
    assert set(reread(folder)) == set(memory)
