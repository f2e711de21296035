"""Held descriptors: identity, long files, errors as Gaps, and what happens when they run out."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.gap import VANISHED, Gap
from slackwater.observation.cgroups.files import GroupFolders, HeldFiles, raise_descriptor_limit
from tests.unit.observation.descriptors import descriptor_limit, open_descriptors
from tests.unit.observation.plain_tree import PlainTree

FILES = {"cpu.stat": CgroupController.CPU, "cpuacct.usage": CgroupController.CPUACCT}


class Groups:
    """Some groups of plain directories, and the files of them that are held."""

    def __init__(self, top: Path) -> None:
        self.plain = PlainTree(top, CgroupVersion.V1)
        self.paths = [self.plain.make(f"g{number}") for number in range(10)]
        self.folders = GroupFolders(self.plain.mounts)
        self.held = HeldFiles(self.folders, FILES)

    def many(self) -> list[str]:
        """More than the descriptors of the tests that run out of them."""
        return [self.plain.make(f"g{number}") for number in range(120)]

    def id(self, path: str) -> int:
        return os.stat(self.plain.directory(path)).st_ino

    def text(self, path: str, name: str = "cpu.stat") -> bytes | Gap:
        return self.held.text(name, path, self.id(path))


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Groups]:
    made = Groups(tmp_path)
    yield made
    made.held.close()


def test_the_second_reading_opens_nothing(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    first = groups.text("g0")
    identity = groups.id("g0")

    def never(*arguments: object, **named: object) -> int:
        raise AssertionError("opened again")

    monkeypatch.setattr(os, "open", never)
    assert groups.held.text("cpu.stat", "g0", identity) == first


@pytest.mark.parametrize("size", [0, 1, 447, 448, 449, 4095, 4096, 4097, 8192, 20_000, 65_536])
def test_a_file_of_any_size_is_read_whole(groups: Groups, size: int) -> None:
    text = (b"0123456789" * (size // 10 + 1))[:size]
    groups.plain.put("g0", "cpu.stat", text.decode())
    assert groups.text("g0") == text
    assert groups.text("g0") == text
    found = groups.folders.texts(CgroupController.CPU, "g0", groups.id("g0"), ("cpu.stat",))
    assert found == (text,)


def test_a_file_of_megabytes_is_cut(groups: Groups) -> None:
    groups.plain.put("g0", "cpu.stat", "9" * 5_000_000)
    text = groups.text("g0")
    assert isinstance(text, bytes)
    assert len(text) == 65_536


def test_several_files_in_one_visit(groups: Groups) -> None:
    found = groups.folders.texts(
        CgroupController.CPU, "g1", groups.id("g1"), ("cpu.shares", "cpu.nothing", "cpu.idle")
    )
    assert found == (b"512\n", Gap("cpu.nothing does not exist here"), b"0\n")


def test_no_files_are_no_texts(groups: Groups) -> None:
    assert groups.folders.texts(CgroupController.CPU, "nowhere", 1, ()) == ()


def test_a_stranger_at_the_path_is_not_read(groups: Groups) -> None:
    before = open_descriptors()
    wrong = groups.id("g1")
    assert groups.held.text("cpu.stat", "g0", wrong) is VANISHED
    assert groups.held.text("cpuacct.usage", "g0", wrong) is VANISHED
    assert groups.folders.texts(CgroupController.CPUSET, "g0", wrong, ("cpuset.cpus",)) == (
        VANISHED,
    )
    assert open_descriptors() == before


def test_a_path_that_is_nowhere_has_vanished(groups: Groups) -> None:
    assert groups.held.text("cpu.stat", "nowhere", 5) is VANISHED
    assert groups.held.text("cpuacct.usage", "nowhere", 5) is VANISHED
    assert groups.folders.texts(CgroupController.CPU, "nowhere", 5, ("a", "b")) == (VANISHED,) * 2


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EOPNOTSUPP, errno.EPERM])
def test_other_errors_are_gaps_in_the_kernels_words(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*arguments: object) -> bytes:
        raise OSError(number, os.strerror(number))

    groups.text("g0")
    monkeypatch.setattr(os, "pread", refuse)
    expected = Gap(f"cpu.stat: {os.strerror(number)}")
    assert groups.text("g0") == expected
    assert groups.text("g1") == expected
    monkeypatch.undo()
    assert isinstance(groups.text("g0"), bytes)


def test_a_file_that_went_and_came_again_is_opened_again(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cgroup.pressure and cgroup.subtree_control do that to files of living groups."""
    first = groups.text("g0")
    pread = os.pread
    answers = [OSError(errno.ENODEV, "No such device")]

    def once(fd: int, size: int, offset: int) -> bytes:
        if answers:
            raise answers.pop()
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", once)
    assert groups.text("g0") == first


def test_a_file_that_went_for_good_does_not_exist_here(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(fd: int, size: int, offset: int) -> bytes:
        raise OSError(errno.ENODEV, "No such device")

    groups.text("g0")
    before = open_descriptors()
    monkeypatch.setattr(os, "pread", gone)
    for _ in range(3):
        assert groups.text("g0") == Gap("cpu.stat does not exist here")
    assert open_descriptors() <= before


def test_keeping_some_closes_the_others(groups: Groups) -> None:
    before = open_descriptors()
    for path in groups.paths[:10]:
        groups.text(path)
        groups.text(path, "cpuacct.usage")
    assert groups.held.count() == 20
    groups.held.keep(frozenset(map(groups.id, groups.paths[:3])))
    assert groups.held.count() == 6
    assert open_descriptors() == before + 6
    groups.held.close()
    assert open_descriptors() == before


def test_out_of_descriptors_files_are_opened_read_and_closed(groups: Groups) -> None:
    """The limit falls under a process that runs already: no reading suffers."""
    paths = groups.many()
    with descriptor_limit(open_descriptors() + 100):
        for _ in range(2):
            for path in paths:
                assert isinstance(groups.text(path), bytes)
                assert isinstance(groups.text(path, "cpuacct.usage"), bytes)
        assert 0 < groups.held.count() < 100
        # The rest of the process has room again: a socket, a file.
        for fd in [os.open("/dev/null", os.O_RDONLY) for _ in range(40)]:
            os.close(fd)


def test_a_small_limit_is_respected_from_the_start(groups: Groups) -> None:
    paths = groups.many()
    with descriptor_limit(open_descriptors() + 80):
        held = HeldFiles(groups.folders, FILES)
        for path in paths:
            assert isinstance(held.text("cpu.stat", path, groups.id(path)), bytes)
        for fd in [os.open("/dev/null", os.O_RDONLY) for _ in range(40)]:
            os.close(fd)
    assert held.count() > 0
    held.close()


def test_without_a_single_descriptor_there_is_a_gap(groups: Groups) -> None:
    identity = groups.id("g0")
    with descriptor_limit(0):
        found = groups.held.text("cpu.stat", "g0", identity)
    assert found == Gap("cpu.stat: Too many open files")


def test_the_limit_is_raised_to_the_hard_one() -> None:
    with descriptor_limit(256):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        assert raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_refused_limit_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_descriptor_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
