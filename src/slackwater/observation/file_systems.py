"""Which file system a directory is on: by its magic number, or by the mount table.

Owns statfs and the text of mountinfo. Python's os.statvfs has no f_type, so the C library's
statfs is called through ctypes, loaded here and only when asked (0.2 MiB, measured).
"""

import os
import re
import sys

import msgspec

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.observation.bounded_read import read_start
from slackwater.observation.roots import Roots

#: include/uapi/linux/magic.h
CGROUP1_MAGIC = 0x27E0EB
CGROUP2_MAGIC = 0x63677270
VERSION_BY_MAGIC = {CGROUP1_MAGIC: CgroupVersion.V1, CGROUP2_MAGIC: CgroupVersion.V2}
#: The names of the same two in the mount table.
VERSION_BY_NAME = {"cgroup": CgroupVersion.V1, "cgroup2": CgroupVersion.V2}

#: struct statfs has at most 120 bytes on any architecture.
_STATFS_BYTES = 256
#: f_type comes first: four bytes on s390x, a long elsewhere, and those machines are little-endian.
_TYPE_BYTES = 4

# show_mountinfo in fs/proc_namespace.c: "36 35 98:0 /root /point options optional* - type source".
_OPTIONAL_FIELDS_AT = 6
_MOUNT_POINT_AT = 4
# mangle() in fs/seq_file.c escapes blank, tab, newline and backslash as three octal digits.
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2})")


class MountPoint(msgspec.Struct, frozen=True):
    """One line of the mount table: where, and the file system's name."""

    directory: str
    kind: str


def filesystem_magic(path: str) -> int | Gap:
    """f_type of statfs(2)."""
    try:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(_STATFS_BYTES)
        failed = library.statfs(os.fsencode(path), buffer)
    except (ImportError, OSError, AttributeError):
        return Gap(f"the file system of {path} is unknown: this Python cannot call statfs")
    if failed:
        return Gap(f"statfs of {path}: {os.strerror(ctypes.get_errno())}")
    return int.from_bytes(buffer.raw[:_TYPE_BYTES], sys.byteorder)


def read_mount_table(roots: Roots) -> tuple[MountPoint, ...] | Gap:
    """Our own mounts: a container's table lists the host's cgroups where it mounted them."""
    path = f"{roots.proc}/self/mountinfo"
    match read_start(path):
        case Gap(reason):
            return Gap(f"{path} is {reason}")
        case contents:
            return parse_mountinfo(contents.data)


def parse_mountinfo(data: bytes) -> tuple[MountPoint, ...]:
    """Lines that are not the kernel's are left out."""
    return tuple(point for line in data.split(b"\n") if (point := _parse_line(line)))


def covering(table: tuple[MountPoint, ...], path: str) -> MountPoint | None:
    """The mount that a path is on: the longest mount point above it, the latest of equals."""
    real = os.path.realpath(path)
    above = [point for point in table if is_below(real, point.directory)]
    longest = max((len(point.directory) for point in above), default=0)
    return next((point for point in reversed(above) if len(point.directory) == longest), None)


def is_below(path: str, directory: str) -> bool:
    """Whether a path is this directory or lies in it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _parse_line(line: bytes) -> MountPoint | None:
    fields = line.split(b" ")
    try:
        kind = fields[fields.index(b"-", _OPTIONAL_FIELDS_AT) + 1]
    except (ValueError, IndexError):
        return None
    point = _ESCAPE.sub(lambda escape: bytes((int(escape[1], 8),)), fields[_MOUNT_POINT_AT])
    if not point.startswith(b"/") or not kind:
        return None
    return MountPoint(os.fsdecode(point), os.fsdecode(kind))
