"""Writes cpio archives in the "newc" format, the kernel's format for an initramfs.

Format: Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's source.
Reads no archive, and writes only what an initramfs needs here: files and directories of root.
"""

import stat
from collections.abc import Iterable
from dataclasses import dataclass

_MAGIC = b"070701"
_TRAILER = "TRAILER!!!"
_ALIGNMENT = 4


@dataclass(frozen=True)
class Entry:
    """One member; `mode` holds the file type too, as in stat(2)."""

    name: str
    mode: int
    data: bytes = b""


def directory(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def executable(name: str, data: bytes) -> Entry:
    return Entry(name, stat.S_IFREG | 0o755, data)


def regular(name: str, data: bytes) -> Entry:
    return Entry(name, stat.S_IFREG | 0o644, data)


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive's bytes; equal entries give equal bytes, so that a hash can name them."""
    members = [*entries, Entry(_TRAILER, 0)]
    return b"".join(_member(inode, entry) for inode, entry in enumerate(members, start=1))


def _member(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # inode, mode, uid, gid, links, mtime, size, device major and minor, rdev major and minor,
    # name size, checksum (unused in this variant)
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)
