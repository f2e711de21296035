"""inotify events as bytes, and a watch on a real folder."""

import struct
from pathlib import Path

import pytest

from slackwater.model.gap import Gap
from slackwater.observation.objects.folder_watch import FolderWatch, parse_events, watch_folder

MODIFY, DELETE_SELF, QUEUE_OVERFLOW, IGNORED = 0x2, 0x400, 0x4000, 0x8000


def event(mask: int, name: bytes = b"") -> bytes:
    padded = name + b"\0" * (16 - len(name) % 16) if name else b""
    return struct.pack("=iIII", 1, mask, 0, len(padded)) + padded


@pytest.mark.parametrize(
    ("queued", "names"),
    [
        (b"", frozenset()),
        (event(MODIFY, b"a.yaml"), {"a.yaml"}),
        (
            event(MODIFY, b"a.yaml") + event(MODIFY, b"b") + event(MODIFY, b"a.yaml"),
            {"a.yaml", "b"},
        ),
        (event(MODIFY, b"\xff"), {"\udcff"}),
        (event(MODIFY, b"a.yaml") + event(QUEUE_OVERFLOW), None),
        (event(DELETE_SELF), None),
        (event(IGNORED), None),
    ],
)
def test_events_are_names_or_unknown(queued: bytes, names: set[str] | None) -> None:
    assert parse_events(queued) == (None if names is None else frozenset(names))


def test_a_watch_names_what_changed_since_it_was_asked(tmp_path: Path) -> None:
    watch = watch_folder(str(tmp_path))
    assert isinstance(watch, FolderWatch)
    assert watch.changed_names() == frozenset()
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").mkdir()
    assert watch.changed_names() == frozenset({"a", "b"})
    assert watch.changed_names() == frozenset()
    (tmp_path / "a").unlink()
    (tmp_path / "b").rmdir()
    tmp_path.rmdir()
    assert watch.changed_names() is None


def test_more_changes_than_one_read_holds(tmp_path: Path) -> None:
    watch = watch_folder(str(tmp_path))
    assert isinstance(watch, FolderWatch)
    names = {f"{number:0200}" for number in range(1000)}
    for name in names:
        (tmp_path / name).touch()
    assert watch.changed_names() == frozenset(names)


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    assert watch_folder(str(tmp_path / "none")) == Gap("no inotify: ENOENT")
