"""Journal entries as lines of JSON on stdout, each with the time of day first.

Owns stdout while a program runs. A thread of its own writes: a reader that stops reading stalls
that thread and not the loop. Lines for which there is no room then are dropped, and counted in a
line of their own.
"""

import collections
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import click
import msgspec

from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.record.timestamps import format_timestamp
from slackwater.runtime.change_log import EntrySink
from slackwater.runtime.loop import monotonic_now

#: About 200 KiB; a round says a few lines, and a stalled reader is rarely back within minutes.
QUEUE_SIZE = 500
#: For a reader to take what is left at the end.
_LAST_LINES_SECONDS = 2.0


def encode_line(entry: JournalEntry, offset: Micros) -> bytes:
    """`offset` is the time of day, in microseconds since 1970, minus the entry's clock."""
    said = {"time": format_timestamp(Micros(entry.at + offset)), **msgspec.to_builtins(entry)}
    return msgspec.json.encode(said) + b"\n"


def clock_offset() -> Micros:
    """Taken for each line: the time of day may be set, the monotonic clock is not."""
    return Micros((time.time_ns() - time.monotonic_ns()) // 1000)


class JsonLinesWriter:
    """A queue of lines, and the thread that writes them to a file descriptor."""

    def __init__(self, descriptor: int, clock: Callable[[], Micros]) -> None:
        self._descriptor = descriptor
        self._clock = clock
        self._waiting: collections.deque[bytes] = collections.deque()
        self._dropped = 0
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="lines", daemon=True)
        self._thread.start()

    def write(self, entry: JournalEntry) -> None:
        """From any thread; never waits for the reader."""
        line = encode_line(entry, clock_offset())
        with self._changed:
            if len(self._waiting) >= QUEUE_SIZE:
                self._dropped += 1
                return
            self._report_dropped()
            self._waiting.append(line)
            self._changed.notify()

    def close(self, patience: float) -> None:
        """Writes what is queued, if it is read within `patience` seconds."""
        with self._changed:
            self._report_dropped()
            self._ended = True
            self._changed.notify()
        self._thread.join(patience)

    def _report_dropped(self) -> None:
        """Where lines are missing, one line says how many."""
        if self._dropped:
            because = f"{self._dropped} lines were dropped here: stdout was not read"
            note = JournalEntry(0, self._clock(), "stdout", because=because)
            self._waiting.append(encode_line(note, clock_offset()))
            self._dropped = 0

    def _write_all(self) -> None:
        while (line := self._next()) is not None:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError as error:
                self._discard_output(error)

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            return self._waiting.popleft() if self._waiting else None

    def _discard_output(self, error: OSError) -> None:
        """A log that cannot be written must not stop the loop: it is reported on stderr, once."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._descriptor)
        with contextlib.suppress(OSError):
            click.echo(f"slackwater: no more entries on stdout: {error.strerror}", err=True)


@contextlib.contextmanager
def writing_entries() -> Iterator[EntrySink]:
    """Takes entries to stdout inside the block."""
    lines = JsonLinesWriter(sys.stdout.fileno(), monotonic_now)
    try:
        yield lines.write
    finally:
        lines.close(_LAST_LINES_SECONDS)
