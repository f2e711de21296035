"""A file on the node in Prometheus' text format, written by somebody else on the node.

Refuses what may lead elsewhere or block: links, and all that is no regular file. A file is as old
as its last change, so a writer that died is noticed.
"""

import os
import stat
import time
from collections.abc import Callable

from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import Micros
from slackwater.observation.probes.answers import MOST_SAMPLES, Answer, TextLooks
from slackwater.observation.probes.sources import NodeFile
from slackwater.observation.probes.text_format import LARGEST_ANSWER

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Without O_NONBLOCK a FIFO in the file's place would block for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MICROS_PER_SECOND = 1_000_000
_Stamp = tuple[int, int, int]


class FileTarget:
    """One file that is read again when it changed."""

    def __init__(
        self,
        source: NodeFile,
        clock: Callable[[], Micros],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._clock = clock
        self._wall_clock = wall_clock
        self._looks = TextLooks(MOST_SAMPLES)
        self._last: tuple[_Stamp, frozenset[str], Answer] | None = None

    def ask(self, names: frozenset[str]) -> Answer | Gap:
        path = f"{self._source.folder}/{self._source.name}"
        if not self._source.folder:
            return Gap("no folder of metric files is set")
        if "/" in self._source.name or self._source.name in ("", ".", ".."):
            return Gap(f"{quoted(self._source.name)} is not a file's name")
        try:
            found = self._read(names)
        except OSError as error:
            return Gap(f"{path} cannot be read: {error.strerror}")
        except ValueError:  # a NUL in the name
            return Gap(f"{quoted(path)} cannot be read: no such path can exist")
        return Gap(f"{path}: {found.reason}") if isinstance(found, Gap) else found

    def _read(self, names: frozenset[str]) -> Answer | Gap:
        folder = os.open(self._source.folder, _FOLDER)
        try:
            descriptor = os.open(self._source.name, _FILE, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            return self._look(descriptor, names)
        finally:
            os.close(descriptor)

    def _look(self, descriptor: int, names: frozenset[str]) -> Answer | Gap:
        """A file that did not change is no second look: its counters would seem to stand still."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Gap("it is not a regular file")
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._last is not None and self._last[:2] == (stamp, names):
            return self._last[2]
        body = _read_all(descriptor)
        age = max(self._wall_clock() - status.st_mtime, 0.0)
        found = self._looks.read(body, names, Micros(self._clock() - int(age * _MICROS_PER_SECOND)))
        self._last = None if isinstance(found, Gap) else (stamp, names, found)
        return found


def _read_all(descriptor: int) -> bytes:
    """A byte more than an answer may have, so that one that is too large is told."""
    pieces: list[bytes] = []
    room = LARGEST_ANSWER + 1
    while room and (piece := os.read(descriptor, room)):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)
