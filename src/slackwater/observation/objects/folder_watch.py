"""Which files of a folder changed, by the kernel's inotify: an unchanged folder costs one read.

The standard library has no inotify, so three functions of the C library are called directly; that
costs 0.4 MiB. Changes are queued before the write that made them returns, so none is seen late.
"""

import errno
import os
import sys

from slackwater.model.gap import Gap

# include/uapi/linux/inotify.h
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_UNMOUNT, _QUEUE_OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_WATCHED = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
    | _DELETE_SELF | _MOVE_SELF
)  # fmt: skip
#: After these it is not known what else changed.
_UNKNOWN = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _QUEUE_OVERFLOW | _IGNORED
#: struct inotify_event: wd, mask, cookie, len; then a name of `len` bytes, padded with zeros.
_HEAD = 16
_LARGEST_READ = 64 * 1024


class FolderWatch:
    """Guards the inotify descriptor of one folder."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def changed_names(self) -> frozenset[str] | None:
        """Since the last call. None where the kernel lost count, or the folder is gone."""
        names: frozenset[str] = frozenset()
        while True:
            try:
                queued = os.read(self._descriptor, _LARGEST_READ)
            except BlockingIOError:
                return names
            except OSError:
                return None
            found = parse_events(queued)
            if found is None:
                return None
            names |= found


def watch_folder(path: str) -> FolderWatch | Gap:
    """A Gap where the kernel has no inotify, no watch left, or no such folder."""
    import ctypes  # here, so that an agent in a cluster does not load it

    try:
        library = ctypes.CDLL(None, use_errno=True)
        descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError) as error:
        return Gap(f"no inotify: {error}")
    if descriptor < 0:
        return Gap(f"no inotify: {errno.errorcode.get(ctypes.get_errno(), 'unknown')}")
    watch = FolderWatch(descriptor)
    if library.inotify_add_watch(descriptor, os.fsencode(path), _WATCHED) < 0:
        return Gap(f"no inotify: {errno.errorcode.get(ctypes.get_errno(), 'unknown')}")
    return watch


def parse_events(queued: bytes) -> frozenset[str] | None:
    """The names in a read of the descriptor; None if one of the events says that some are lost."""
    names = set()
    place = 0
    while place < len(queued):
        mask = int.from_bytes(queued[place + 4 : place + 8], sys.byteorder)
        length = int.from_bytes(queued[place + 12 : place + _HEAD], sys.byteorder)
        if mask & _UNKNOWN:
            return None
        name = queued[place + _HEAD : place + _HEAD + length].rstrip(b"\0")
        names.add(os.fsdecode(name))
        place += _HEAD + length
    return frozenset(names)
