"""When the ledger is believed: its hierarchy, a spoiled first line, a disk that was full."""

import errno
from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import FILE, Ledger
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion, Mount
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.plan import Ownership, Result
from tests.unit.execution.desk import (
    POD,
    adopted,
    entry,
    one,
    opened,
    quota,
    results,
)
from tests.unit.execution.plain_kernel import Clock, PlainKernel

# The hierarchy that the ledger is about.


@pytest.mark.parametrize("root", ["missing", "other"])
def test_another_hierarchy_touches_nothing(
    executor: Executor,
    ledger: Ledger,
    kernel: PlainKernel,
    pod: CgroupRef,
    folder: Path,
    tmp_path: Path,
    root: str,
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    ledger.close()
    (tmp_path / "other").mkdir()
    mount = Mount(CgroupVersion.V2, str(tmp_path / root))
    lost = kernel.writer()
    lost._mounts = CgroupMounts(dict.fromkeys(CgroupController, mount))
    later = opened(folder)
    astray = Executor(later, lost, None, Clock())
    (found,) = astray.adopt().live
    assert (found.ownership, astray.sweep()) == (Ownership.UNREAD, ())
    assert isinstance(found.reading, Gap)
    for outcome in (*astray.release(), one(astray, pod, QUOTA, quota(6_000))):
        assert outcome.result is Result.REFUSED
        assert outcome.detail == found.reading.reason
    assert len(later.entries) == 1
    assert Executor(later, kernel.writer(), None, Clock()).release()[0].result is Result.APPLIED
    later.close()


def test_a_bind_mount_is_the_same_hierarchy_a_symbolic_link_too(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef, tmp_path: Path
) -> None:
    one(executor, pod, WEIGHT, 5)
    (tmp_path / "host").symlink_to(kernel.root)
    elsewhere = kernel.writer()
    mount = Mount(CgroupVersion.V2, str(tmp_path / "host"))
    elsewhere._mounts = CgroupMounts(dict.fromkeys(CgroupController, mount))
    assert results(Executor(ledger, elsewhere, None, Clock()).release()) == [
        ("weight", Result.APPLIED)
    ]


def test_a_ledger_without_entries_is_about_any_hierarchy(tmp_path: Path) -> None:
    """Even where its file could not be emptied."""
    first = opened(tmp_path)
    first.check_hierarchy("1:1")
    first.note(entry(1))
    first.note(entry(2))
    first.close()
    cleared = b'{"clear":[1,"quota","file"]}\n{"clear":[2,"quota","file"]}\n'
    with (tmp_path / FILE).open("ab") as file:
        file.write(cleared)
    second = opened(tmp_path)
    assert second.check_hierarchy("2:1") is None
    second.note(entry(3))
    second.close()
    third = opened(tmp_path)
    assert isinstance(third.check_hierarchy("1:1"), Gap)
    assert third.check_hierarchy("2:1") is None
    third.close()


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_one_spoiled_byte_in_the_first_line_costs_nothing(tmp_path: Path, at: int) -> None:
    ledger = opened(tmp_path)
    ledger.note(entry(1))
    ledger.close()
    whole = bytearray((tmp_path / FILE).read_bytes())
    whole[at] ^= 1
    (tmp_path / FILE).write_bytes(whole)
    found = opened(tmp_path)
    assert found.entries == (entry(1),)
    found.close()


# A full disk keeps our last value from the ledger.


def test_values_that_were_not_noted_are_still_ours(
    executor: Executor,
    ledger: Ledger,
    kernel: PlainKernel,
    pod: CgroupRef,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    with monkeypatch.context() as full:
        full.setattr(ledger, "_write", _no_space)
        full.setattr(ledger, "_compact", lambda: _no_space(b""))
        assert one(executor, pod, QUOTA, quota(6_000)).result is Result.APPLIED
    ledger.close()
    later = opened(folder)
    assert later.entries[0].ours == "5000 100000"
    next_run = Executor(later, kernel.writer(), None, Clock())
    assert adopted(next_run) == {"quota": Ownership.OURS}
    next_run.release()
    assert kernel.text(POD, "cpu.max") == "max 100000"
    later.close()


def test_what_did_not_fit_is_noted_as_soon_as_it_does(
    executor: Executor,
    ledger: Ledger,
    pod: CgroupRef,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
) -> None:
    one(executor, pod, QUOTA, quota(5_000))
    with monkeypatch.context() as full:
        full.setattr(ledger, "_write", _no_space)
        full.setattr(ledger, "_compact", lambda: _no_space(b""))
        one(executor, pod, QUOTA, quota(6_000))
    one(executor, pod, WEIGHT, 5)
    ledger.close()
    later = opened(folder)
    assert [e.ours for e in later.entries] == ["6000 100000", "5"]
    assert not later.is_old
    later.close()


def _no_space(_: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_old_ledger_that_was_emptied_is_trusted_again(tmp_path: Path) -> None:
    """What is noted afresh is complete: from here on another writer's value is theirs."""
    first = opened(tmp_path)
    assert first.note(entry()) is None
    first.close()
    with open(tmp_path / FILE, "ab") as file:
        file.write(b'{"note": {"half')
    old = opened(tmp_path)
    states = [old.is_old]
    for each in old.entries:
        old.clear(each)
    states.append(old.is_old)
    assert states == [True, False]
    old.close()
