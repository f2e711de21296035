"""The start of a file: bounded, never blocking, never raising."""

import os
import tracemalloc
from pathlib import Path

import pytest

from slackwater.bounded_read import LARGEST_READ, Contents, read_start
from slackwater.model.gap import Gap


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"some text\n")
    assert read_start(f"{tmp_path}/file") == Contents(b"some text\n")


def test_exactly_the_bound_is_not_cut(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345678")
    assert read_start(f"{tmp_path}/file", 8) == Contents(b"12345678")


def test_more_than_the_bound_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"123456789")
    assert read_start(f"{tmp_path}/file", 8) == Contents(b"12345678", cut=True)


def test_ten_megabytes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10_000_000)
    contents = read_start(f"{tmp_path}/file")
    assert contents == Contents(b"x" * LARGEST_READ, cut=True)


def test_a_large_bound_takes_no_memory_for_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"small")
    tracemalloc.start()
    read_start(f"{tmp_path}/file", 256 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


def test_procfs_in_several_pieces() -> None:
    """smaps comes a page at a time, so that a single read would miss most of it."""
    contents = read_start("/proc/self/smaps")
    assert isinstance(contents, Contents)
    assert len(contents.data) > 4096


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent", "not readable: No such file or directory"),
        ("folder", "not readable: not a regular file"),
        ("fifo", "not readable: not a regular file"),
        ("loop", "not readable: Too many levels of symbolic links"),
        ("a\0b", "not readable: no such path can exist"),
        ("x" * 300, "not readable: File name too long"),
    ],
)
def test_what_cannot_be_read_is_a_gap(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    assert read_start(f"{tmp_path}/{name}") == Gap(reason)


def test_a_fault_while_reading_is_a_gap_and_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, size: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "file").write_bytes(b"text")
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "read", fail)
    assert read_start(f"{tmp_path}/file") == Gap("not readable: Permission denied")
    assert len(os.listdir("/proc/self/fd")) == before
