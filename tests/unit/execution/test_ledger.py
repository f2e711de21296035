"""The ledger: what it keeps through kills, garbage, other boots, a full disk and a second agent."""

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.execution.ledger import FILE, LOCK, VOID, Ledger
from slackwater.model.gap import Gap
from slackwater.model.plan import FILE_ROUTE
from tests.unit.execution.desk import BOOT, entry, opened, reread


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = opened(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_a_fresh_ledger_is_empty_and_writes_nothing(tmp_path: Path) -> None:
    opened(tmp_path / "new").close()
    assert not (tmp_path / "new" / FILE).exists()
    assert reread(tmp_path / "new") == ()


def test_what_is_noted_is_there_at_once(ledger: Ledger, tmp_path: Path) -> None:
    """Before the process closes, flushes or lives on: the next line of code may be a kill."""
    assert ledger.note(entry(1)) is None
    assert ledger.note(entry(2)) is None
    lines = (tmp_path / FILE).read_text().splitlines()
    assert json.loads(lines[0]) == {"ledger": 1, "boot": BOOT, "hierarchy": ""}
    assert lines[1] == lines[0], "twice: without it the rest is void"
    assert [json.loads(line)["note"]["ref"]["id"] for line in lines[2:]] == [1, 2]


def test_entries_survive(ledger: Ledger, tmp_path: Path) -> None:
    entries = (entry(1), entry(2), entry(1, "weight"))
    for each in entries:
        ledger.note(each)
    ledger.close()
    assert reread(tmp_path) == entries


def test_the_last_word_holds(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note(entry(1))
    first.note(entry(2))
    first.note(entry(1, ours="30000 100000"))
    first.clear(entry(2))
    first.close()
    assert reread(tmp_path) == (entry(1, ours="30000 100000"),)


def test_each_route_has_an_entry_of_its_own(ledger: Ledger) -> None:
    unit = msgspec.structs.replace(entry(1), route="unit:x.slice")
    ledger.note(entry(1))
    ledger.note(unit)
    assert ledger.entries == (entry(1), unit)
    assert ledger.find(1, "quota", "unit:x.slice") == unit
    assert ledger.find(1, "weight", FILE_ROUTE) is None


def test_only_root_may_read_it(ledger: Ledger, tmp_path: Path) -> None:
    ledger.note(entry())
    for name in (FILE, LOCK):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_clearing_all_leaves_an_empty_file(ledger: Ledger, tmp_path: Path) -> None:
    for number in (1, 2):
        ledger.note(entry(number))
    ledger.clear(entry(1))
    ledger.clear(entry(2))
    assert (tmp_path / FILE).read_bytes() == b""
    ledger.note(entry(3))
    ledger.close()
    assert reread(tmp_path) == (entry(3),)


def test_clearing_what_is_not_noted_changes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    ledger.note(entry(1))
    before = (tmp_path / FILE).read_bytes()
    ledger.clear(entry(9))
    assert (tmp_path / FILE).read_bytes() == before


def test_a_ledger_of_another_boot_is_void_and_set_aside(tmp_path: Path) -> None:
    old = opened(tmp_path, "another-boot")
    old.note(entry())
    old.close()
    new = opened(tmp_path)
    assert new.entries == ()
    assert "another-boot" in new.problems[0]
    assert b"another-boot" in (tmp_path / VOID).read_bytes()
    new.note(entry(2))
    new.close()
    assert reread(tmp_path) == (entry(2),)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"garbage",
        b'{"ledger":1}',
        b'{"ledger":2,"boot":"x","hierarchy":""}',
        b"\xff\xfe",
        b"[" * 9999,
    ],
)
def test_without_a_readable_first_line_the_boot_is_unknown(tmp_path: Path, header: bytes) -> None:
    (tmp_path / FILE).write_bytes(header + b"\n" + b'{"note":{}}\n')
    found = opened(tmp_path)
    assert found.entries == ()
    assert len(found.problems) == 1
    assert (tmp_path / VOID).exists()
    found.close()


GARBAGE = [
    b"\x00\x00\x00",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b"\xff",
]


@pytest.mark.parametrize("line", GARBAGE)
def test_a_garbage_line_is_left_out_and_said(tmp_path: Path, line: bytes) -> None:
    first = opened(tmp_path)
    first.note(entry(1))
    first.note(entry(2))
    first.close()
    lines = (tmp_path / FILE).read_bytes().split(b"\n")
    lines.insert(3, line)
    (tmp_path / FILE).write_bytes(b"\n".join(lines))
    found = opened(tmp_path)
    assert found.entries == (entry(1), entry(2))
    assert "line 4" in found.problems[0]
    found.close()


def test_a_knob_that_this_version_does_not_know_is_said(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note(entry(1, "from-the-future"))
    first.note(entry(2))
    first.close()
    found = opened(tmp_path)
    assert found.entries == (entry(2),)
    assert len(found.problems) == 1
    found.close()


def test_many_garbage_lines_are_one_sentence(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note(entry(1))
    first.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"x\n" * 1000)
    found = opened(tmp_path)
    assert found.entries == (entry(1),)
    assert found.problems == (
        f"1000 unreadable lines in {tmp_path / FILE} are left out (line 4, 5, 6, 7, 8, ...)",
    )
    found.close()


def test_a_file_cut_off_anywhere_keeps_all_whole_lines(tmp_path: Path) -> None:
    """A kill can tear a write that crosses a page."""
    first = opened(tmp_path)
    for number in (1, 2, 3):
        first.note(entry(number))
    first.close()
    whole = (tmp_path / FILE).read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(ends[0], len(whole)):
        (tmp_path / FILE).write_bytes(whole[:cut])
        found = opened(tmp_path)
        # The newline itself may be missing; the first two lines are no entries.
        kept = max(sum(end <= cut + 1 for end in ends) - 2, 0)
        assert found.entries == tuple(entry(n) for n in range(1, kept + 1))
        found.note(entry(9))
        found.close()
        assert reread(tmp_path)[-1] == entry(9), "the next line starts afresh"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=8))
def test_no_garbage_raises(tmp_path: Path, lines: list[bytes]) -> None:
    head = json.dumps({"ledger": 1, "boot": BOOT, "hierarchy": ""}).encode()
    (tmp_path / FILE).write_bytes(b"\n".join([head, head, *lines]))
    found = opened(tmp_path)
    assert found.entries == ()
    assert bool(found.problems) == any(line for line in b"\n".join(lines).split(b"\n"))
    found.close()


# One agent per node.


def test_a_second_agent_is_told_who_holds_it(ledger: Ledger, tmp_path: Path) -> None:
    found = Ledger.open(str(tmp_path), BOOT)
    assert isinstance(found, Gap)
    assert f"process {os.getpid()} holds the ledger" in found.reason


def test_a_holder_without_a_pid_is_another_process(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    found = Ledger.open(str(tmp_path), BOOT)
    assert isinstance(found, Gap)
    assert "another process holds" in found.reason
    os.close(descriptor)


def test_a_closed_ledger_takes_no_note(ledger: Ledger, tmp_path: Path) -> None:
    """Its lock is another agent's by now."""
    ledger.close()
    ledger.close()
    assert isinstance(ledger.note(entry()), Gap)
    assert not (tmp_path / FILE).exists()


def test_a_refused_open_leaves_no_descriptor(ledger: Ledger, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    Ledger.open(str(tmp_path), BOOT)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_dead_agents_lock_is_free(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        try:
            opened(tmp_path).note(entry())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert (tmp_path / LOCK).read_text() == f"{pid}\n"
    assert reread(tmp_path) == (entry(),)


def test_a_folder_that_cannot_be_made_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = Ledger.open(str(tmp_path / "file" / "ledger"), BOOT)
    assert isinstance(found, Gap)
    assert "Not a directory" in found.reason


def test_a_ledger_that_cannot_be_read_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    found = Ledger.open(str(tmp_path), BOOT)
    assert isinstance(found, Gap)
    assert "Is a directory" in found.reason
    assert isinstance(opened(tmp_path / "elsewhere"), Ledger)
