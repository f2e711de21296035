"""The ledger between versions: an upgrade, its rollback and the next upgrade lose no baseline."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from slackwater.execution import ledger as module
from slackwater.execution.executor import Executor
from slackwater.execution.ledger import FILE, VOID, Ledger
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion, Mount
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.plan import Result
from tests.unit.execution.desk import BOOT, POD, entry, one, opened, quota, reread
from tests.unit.execution.plain_kernel import Clock, PlainKernel

OTHER_LINES = [
    b'{"note":null}',
    b'{"note":{"ref":1}}',
    b'{"clear":[1]}',
    b'{"other":1}',
    b'{"snapshot":{"of":"everything"}}',
]
NEW_KNOB = "from-the-future"


def add(folder: Path, *lines: bytes) -> None:
    with (folder / FILE).open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))


def lines_of(folder: Path) -> list[bytes]:
    return (folder / FILE).read_bytes().splitlines()


def compact(ledger: Ledger) -> None:
    """By enough notes of one knob."""
    for number in range(500):
        ledger.note(entry(77, ours=f"{10_000 + number} 100000"))


@pytest.mark.parametrize("line", OTHER_LINES)
def test_a_line_of_another_version_is_kept_as_it_stands(tmp_path: Path, line: bytes) -> None:
    first = opened(tmp_path)
    first.note(entry(1))
    first.close()
    add(tmp_path, line)
    older = opened(tmp_path)
    assert older.entries == (entry(1),)
    [problem] = older.problems
    assert "1 lines" in problem
    assert "another version's" in problem
    compact(older)
    older.close()
    assert len(lines_of(tmp_path)) < 300, "it was compacted"
    assert lines_of(tmp_path).count(line) == 1


def test_a_knob_of_another_version_is_kept_until_that_version_clears_it(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note(entry(1))
    first.note(entry(1, NEW_KNOB))
    first.close()
    older = opened(tmp_path)
    assert older.entries == (entry(1),)
    older.clear(entry(1))
    assert any(NEW_KNOB.encode() in line for line in lines_of(tmp_path)), "not emptied"
    compact(older)
    older.close()
    assert sum(NEW_KNOB.encode() in line for line in lines_of(tmp_path)) == 1
    add(tmp_path, b'{"clear":[1,"from-the-future","file"]}')
    last = opened(tmp_path)
    assert last.problems == ()
    compact(last)
    last.close()
    assert not any(NEW_KNOB.encode() in line for line in lines_of(tmp_path))


def test_a_field_of_another_version_is_kept_while_nobody_notes_anew(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note(entry(2))
    first.close()
    newer = json.loads(msgspec.json.encode({"note": entry(1)}))
    newer["note"]["reason"] = "new in 2"
    add(tmp_path, json.dumps(newer).encode())
    older = opened(tmp_path)
    assert set(older.entries) == {entry(1), entry(2)}
    assert older.problems == ()
    compact(older)
    assert sum(b"new in 2" in line for line in lines_of(tmp_path)) == 1
    older.note(entry(1, ours="30000 100000"))
    compact(older)
    assert not any(b"new in 2" in line for line in lines_of(tmp_path))
    older.close()


@pytest.mark.parametrize(
    "header",
    [
        {"ledger": 2, "boot": BOOT, "hierarchy": ""},
        {"ledger": 3, "boot": BOOT, "hierarchy": "", "reader": 2},
        {"ledger": 9, "era": "spelt in a new way"},
        {"ledger": 2, "boot": BOOT, "hierarchy": "", "reader": "two"},
    ],
)
def test_a_format_from_the_future_is_not_touched(
    kernel: PlainKernel, folder: Path, pod: CgroupRef, header: dict[str, object]
) -> None:
    """Our throttles stand in there, in words that are not known: nothing may become a baseline."""
    folder.mkdir(mode=0o700)
    text = f"{json.dumps(header)}\n{json.dumps(header)}\n" + '{"noted":{}}\n'
    (folder / FILE).write_text(text)
    older = opened(folder)
    assert "newer version" in older.problems[0]
    assert older.unusable is not None
    executor = Executor(older, kernel.writer(), None, Clock())
    assert executor.adopt().live == ()
    outcome = one(executor, pod, QUOTA, quota(5_000))
    assert (outcome.result, outcome.detail) == (Result.REFUSED, older.unusable.reason)
    assert isinstance(older.note(entry()), Gap)
    assert executor.release() == []
    older.close()
    assert kernel.text(POD, "cpu.max") == "max 100000"
    assert (folder / FILE).read_text() == text
    assert not (folder / VOID).exists()


def test_a_newer_format_that_we_may_read_is_read_and_stays_newer(tmp_path: Path) -> None:
    header = {"ledger": 2, "boot": BOOT, "hierarchy": "", "reader": 1}
    tmp_path.joinpath(FILE).write_text(f"{json.dumps(header)}\n" * 2)
    add(tmp_path, msgspec.json.encode({"note": entry(1)}), b'{"placement":{"pod":"a"}}')
    older = opened(tmp_path)
    assert older.entries == (entry(1),)
    compact(older)
    older.close()
    assert json.loads(lines_of(tmp_path)[0])["ledger"] == 2
    assert lines_of(tmp_path).count(b'{"placement":{"pod":"a"}}') == 1


def test_upgrade_rollback_upgrade(
    kernel: PlainKernel, folder: Path, pod: CgroupRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer version knows the weight, the older one does not. Both change the quota."""
    names = module._KNOWN

    def run(known: frozenset[str], *changes: tuple[object, object]) -> None:
        monkeypatch.setattr(module, "_KNOWN", known)
        ledger = opened(folder)
        executor = Executor(ledger, kernel.writer(), None, Clock())
        executor.adopt()
        for knob, value in changes:
            assert one(executor, pod, knob, value).result is Result.APPLIED  # type: ignore[arg-type]
        compact(ledger)
        ledger.clear(entry(77))
        ledger.close()

    kernel.folder(POD).joinpath("cpu.weight").write_text("79\n")
    older = names - {"weight"}
    run(older, (QUOTA, quota(5_000)))
    run(names, (QUOTA, quota(6_000)), (WEIGHT, 5))
    run(older, (QUOTA, quota(7_000)))
    run(names, (WEIGHT, 6))
    ledger = opened(folder)
    assert {each.knob: each.baseline for each in ledger.entries} == {
        "quota": "max 100000",
        "weight": "79",
    }
    Executor(ledger, kernel.writer(), None, Clock()).release()
    assert (kernel.text(POD, "cpu.max"), kernel.text(POD, "cpu.weight")) == ("max 100000", "79")
    ledger.close()


# Ledgers that are set aside, and what is told.


def test_what_is_set_aside_does_not_replace_what_was_before(tmp_path: Path) -> None:
    for number in range(8):
        ledger = opened(tmp_path, f"boot-{number}")
        ledger.note(entry(number + 1))
        ledger.close()
    names = sorted(path.name for path in tmp_path.glob("ledger.void*"))
    assert names == ["ledger.void.2.jsonl", "ledger.void.3.jsonl", "ledger.void.4.jsonl",
                     "ledger.void.5.jsonl", VOID]  # fmt: skip
    assert "boot-0" in (tmp_path / VOID).read_text(), "the first is kept"
    assert "boot-6" in (tmp_path / "ledger.void.5.jsonl").read_text(), "the last is replaced"


def test_problems_do_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk each release that cannot be noted is one more."""
    ledger = opened(tmp_path)
    for number in range(100):
        ledger.note(entry(number))
    monkeypatch.setattr(ledger, "_write", _no_space)
    monkeypatch.setattr(ledger, "_compact", lambda: _no_space(b""))
    for number in range(99):
        ledger.clear(entry(number))
    assert len(ledger.problems) == 10
    assert "kubepods/pod98" in ledger.problems[-1]
    ledger.close()


def _no_space(_text: bytes) -> None:
    raise OSError(28, "No space left on device")


# Where ledgers used to be, before they were on /run.


def test_the_ledger_of_the_former_folder_is_taken_over(tmp_path: Path) -> None:
    before, now = tmp_path / "var", tmp_path / "run"
    old = opened(before)
    old.note(entry(1))
    old.close()
    new = Ledger.open(str(now), BOOT, "", str(before))
    assert isinstance(new, Ledger)
    assert new.entries == (entry(1),)
    assert not (before / FILE).exists()
    new.close()
    assert reread(now) == (entry(1),)


@pytest.mark.parametrize("newer", [True, False])
def test_it_is_not_taken_over_twice_or_from_another_boot(tmp_path: Path, newer: bool) -> None:
    before, now = tmp_path / "var", tmp_path / "run"
    old = opened(before, BOOT if newer else "another")
    old.note(entry(1))
    old.close()
    if newer:
        now.mkdir(mode=0o700)
        (now / FILE).write_bytes(b"")  # released, on a read-only /var that keeps the old one
    new = Ledger.open(str(now), BOOT, "", str(before))
    assert isinstance(new, Ledger)
    assert new.entries == ()
    new.close()


def test_a_read_only_former_folder_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = tmp_path / "var", tmp_path / "run"
    old = opened(before)
    old.note(entry(1))
    old.close()
    unlink = os.unlink

    def read_only(path: str) -> None:
        if path.startswith(str(before)):
            raise OSError(30, "Read-only file system")
        unlink(path)

    monkeypatch.setattr(os, "unlink", read_only)
    new = Ledger.open(str(now), BOOT, "", str(before))
    assert isinstance(new, Ledger)
    new.clear(entry(1))
    new.close()
    again = Ledger.open(str(now), BOOT, "", str(before))
    assert isinstance(again, Ledger)
    assert again.entries == (), "what was released does not come back"
    again.close()


# Nodes that are containers: the boot stays, process 1 and the cgroup root do not.


@pytest.mark.parametrize(
    ("inits", "gone", "set_aside"),
    [
        (("100", "200"), True, True),
        (("100", "100"), True, False),  # another mount of the same node
        (("100", "200"), False, False),  # a noted cgroup lives: this is no new node
        (("", "200"), True, False),  # an older version's ledger
        (("100", ""), True, False),
    ],
)
def test_a_node_that_is_a_container_and_was_started_again(
    kernel: PlainKernel,
    folder: Path,
    tmp_path: Path,
    inits: tuple[str, str],
    gone: bool,
    set_aside: bool,
) -> None:
    pod = kernel.make(POD)
    first = Ledger.open(str(folder), BOOT, inits[0])
    assert isinstance(first, Ledger)
    one(Executor(first, kernel.writer(), None, Clock()), pod, QUOTA, quota(5_000))
    first.close()
    root = tmp_path / "restarted"
    root.mkdir()
    if not gone:
        (root / "kubepods").mkdir()
        os.rename(kernel.folder(POD), root / POD)
    writer = kernel.writer()
    mount = Mount(CgroupVersion.V2, str(root))
    writer._mounts = CgroupMounts(dict.fromkeys(CgroupController, mount))
    later = Ledger.open(str(folder), BOOT, inits[1])
    assert isinstance(later, Ledger)
    executor = Executor(later, writer, None, Clock())
    executor.adopt()
    assert (later.entries == ()) is set_aside
    assert (folder / VOID).exists() is set_aside
    assert any("container that was started again" in each for each in later.problems) is set_aside
    later.close()


def test_one_that_cannot_be_set_aside_stays_untouched(
    kernel: PlainKernel, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Ledger.open(str(folder), BOOT, "100")
    assert isinstance(first, Ledger)
    one(Executor(first, kernel.writer(), None, Clock()), kernel.make(POD), QUOTA, quota(5_000))
    first.close()
    later = Ledger.open(str(folder), BOOT, "200")
    assert isinstance(later, Ledger)

    def refused(_old: str, _new: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "rename", refused)
    assert isinstance(later.check_hierarchy("9:9", lambda _ref: False), Gap)
    assert "cannot be set aside" in later.problems[-1]
    assert len(later.entries) == 1
    later.close()


# Whom the folder belongs to.


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o722])
def test_a_folder_that_others_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    found = Ledger.open(str(folder), BOOT)
    assert isinstance(found, Gap)
    assert "may be written by others" in found.reason
    assert list(folder.iterdir()) == []


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    found = Ledger.open(str(tmp_path), BOOT)
    assert isinstance(found, Gap)
    assert "this is 4711" in found.reason


def test_as_the_kubelet_makes_it_is_fine(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    opened(tmp_path).close()


@pytest.mark.parametrize("name", [FILE, "ledger.lock", f"{FILE}.new"])
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    """Whoever may make one there must not have us write elsewhere."""
    target = tmp_path / "elsewhere"
    target.write_text("untouched")
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / name).symlink_to(target)
    found = Ledger.open(str(folder), BOOT)
    if isinstance(found, Ledger):
        compact(found)
        found.close()
    else:
        assert "symbolic links" in found.reason
    assert target.read_text() == "untouched"
