"""Magic numbers and the mount table."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.observation.detection.mounts import (
    MountPoint,
    covering,
    filesystem_magic,
    is_below,
    parse_mountinfo,
    read_mount_table,
)
from tests.unit.observation.detection.host_picture import HostPicture

#: include/uapi/linux/magic.h
PROC_MAGIC = 0x9FA0


def test_procfs_has_its_magic_number() -> None:
    assert filesystem_magic("/proc") == PROC_MAGIC


def test_a_folder_on_a_disk_is_something_else(tmp_path: Path) -> None:
    magic = filesystem_magic(str(tmp_path))
    assert isinstance(magic, int)
    assert magic not in (PROC_MAGIC, 0)


def test_a_path_that_is_not_there_is_a_gap(tmp_path: Path) -> None:
    path = f"{tmp_path}/absent"
    assert filesystem_magic(path) == Gap(f"statfs of {path}: No such file or directory")


def test_without_ctypes_it_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    found = filesystem_magic("/proc")
    assert isinstance(found, Gap)
    assert "cannot call statfs" in found.reason


@pytest.mark.parametrize(
    ("line", "point"),
    [
        (b"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", ("/sys/fs/cgroup", "cgroup2")),
        (b"36 35 98:0 / /mnt rw shared:1 - ext3 /dev/root rw", ("/mnt", "ext3")),
        (b"36 35 98:0 / /mnt rw shared:1 master:2 - tmpfs none rw", ("/mnt", "tmpfs")),
        (b"36 35 98:0 / /a\\040b rw - tmpfs none rw", ("/a b", "tmpfs")),
        (b"36 35 98:0 / /a\\134040 rw - tmpfs none rw", ("/a\\040", "tmpfs")),
        (b"36 35 98:0 / /t\\011n\\012 rw - tmpfs none rw", ("/t\tn\n", "tmpfs")),
        (b"36 35 98:0 / /a\\999 rw - tmpfs none rw", ("/a\\999", "tmpfs")),
        (b"36 35 98:0 /- /mnt rw - tmpfs none rw", ("/mnt", "tmpfs")),
        (b"36 35 98:0 / /mnt rw - tmpfs  rw", ("/mnt", "tmpfs")),
    ],
)
def test_one_line_of_the_mount_table(line: bytes, point: tuple[str, str]) -> None:
    assert parse_mountinfo(line + b"\n") == (MountPoint(*point),)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"36 35 98:0 / /mnt rw",
        b"36 35 98:0 / /mnt rw -",
        b"36 35 98:0 / /mnt rw - ",
        b"36 35 98:0 / mnt rw - tmpfs none rw",
        b"- - - - - - - - -",
    ],
)
def test_lines_that_are_not_the_kernels_are_left_out(line: bytes) -> None:
    good = b"1 1 0:1 / / rw - ext4 d rw"
    assert parse_mountinfo(b"\n".join((line, good))) == (MountPoint("/", "ext4"),)


@given(st.binary(max_size=400))
def test_garbage_in_the_mount_table_never_raises(data: bytes) -> None:
    assert all(point.directory.startswith("/") for point in parse_mountinfo(data))


@given(
    st.lists(st.sampled_from([b"1", b"-", b"/", b"/a\\040", b"\\777", b"", b"cgroup2", b"\xff"]))
)
def test_almost_good_lines_never_raise(fields: list[bytes]) -> None:
    for point in parse_mountinfo(b" ".join(fields)):
        assert point.kind


@given(st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name))
def test_every_name_survives_the_kernels_escapes(name: bytes) -> None:
    """mangle() in fs/seq_file.c, by hand."""
    escaped = b"".join(b"\\%03o" % c if c in b" \t\n\\" else bytes((c,)) for c in name)
    [point] = parse_mountinfo(b"1 1 0:1 / /" + escaped + b" rw - tmpfs none rw")
    assert point.directory.encode(errors="surrogateescape") == b"/" + name


TABLE = (
    MountPoint("/", "ext4"),
    MountPoint("/sys", "sysfs"),
    MountPoint("/sys/fs/cgroup", "tmpfs"),
    MountPoint("/sys/fs/cgroup", "cgroup2"),
    MountPoint("/sys/fs/cgroup2", "bpf"),
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/srv", "ext4"),
        ("/sys/fs", "sysfs"),
        ("/sys/fs/cgroup", "cgroup2"),
        ("/sys/fs/cgroup/a/b", "cgroup2"),
        ("/sys/fs/cgroup2", "bpf"),
        ("/sys/fs/cgroups", "sysfs"),
    ],
)
def test_the_longest_and_latest_mount_covers(path: str, kind: str) -> None:
    point = covering(TABLE, path)
    assert point is not None
    assert point.kind == kind


def test_nothing_covers_in_an_empty_table() -> None:
    assert covering((), "/sys") is None


def test_a_symbolic_link_is_where_it_points(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to("there")
    top = tmp_path.resolve()
    table = (MountPoint(f"{top}", "ext4"), MountPoint(f"{top}/there", "cgroup2"))
    assert covering(table, f"{tmp_path}/here") == table[1]


@pytest.mark.parametrize(
    ("path", "directory", "answer"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/a", "/", True)],
)
def test_below(path: str, directory: str, answer: object) -> None:
    assert is_below(path, directory) is answer


def test_this_process_has_a_mount_table() -> None:
    from slackwater.observation.host import Roots

    table = read_mount_table(Roots())
    assert not isinstance(table, Gap)
    assert "/proc" in {point.directory for point in table}


def test_no_mount_table_is_a_gap(tmp_path: Path) -> None:
    host = HostPicture(tmp_path)
    (tmp_path / "proc/self/mountinfo").unlink()
    assert read_mount_table(host.roots) == Gap(
        f"{host.roots.proc}/self/mountinfo is not readable: No such file or directory"
    )
