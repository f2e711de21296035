"""The start of a file that others wrote: bounded, never blocking, never raising.

Owns the bound. For configuration and procfs text that is read once; the tick's own readings go
through descriptors that are held open.
"""

import os
import stat

import msgspec

from slackwater.model.gap import Gap

#: A kubelet's configuration has a few KiB; the kernel lets one argument have 128 KiB.
LARGEST_READ = 1024 * 1024
#: Without O_NONBLOCK a FIFO in the file's place would block the open for ever.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Contents(msgspec.Struct, frozen=True):
    """What was read; `cut` says that there was more."""

    data: bytes
    cut: bool = False


def read_start(path: str, largest: int = LARGEST_READ) -> Contents | Gap:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        return Gap(f"not readable: {error.strerror}")
    except ValueError:  # a NUL or a lone surrogate in the path
        return Gap("not readable: no such path can exist")
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return Gap("not readable: not a regular file")
        return _read(descriptor, largest)
    except OSError as error:
        return Gap(f"not readable: {error.strerror}")
    finally:
        os.close(descriptor)


def _read(descriptor: int, largest: int) -> Contents:
    """procfs hands out a page or so at a time, so one read is not enough. Nor may one ask for all
    that is allowed: Python makes room for it first."""
    pieces: list[bytes] = []
    room = largest + 1
    while room and (piece := os.read(descriptor, min(room, LARGEST_READ))):
        pieces.append(piece)
        room -= len(piece)
    data = b"".join(pieces)
    return Contents(data[:largest], cut=len(data) > largest)
