"""Entries as lines of JSON on stdout, each with the time of day first.

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
from slackwater.runtime.clock import monotonic_now

#: About 200 KiB; a round says a few lines, and a stalled reader is rarely back within minutes.
ROOM = 500
#: For a reader to take what is left at the end.
_LAST_LINES_SECONDS = 2.0


def encoded(entry: JournalEntry, offset: Micros) -> bytes:
    """One line. `offset` is the time of day, in microseconds since 1970, less the entry's clock."""
    said = {"time": format_timestamp(Micros(entry.at + offset)), **msgspec.to_builtins(entry)}
    return msgspec.json.encode(said) + b"\n"


def offset() -> Micros:
    """Taken anew for each line: the time of day may be set, the other clock is not."""
    return Micros((time.time_ns() - time.monotonic_ns()) // 1000)


class Lines:
    """Guards a descriptor and the lines that wait for it."""

    def __init__(self, descriptor: int, clock: Callable[[], Micros]) -> None:
        self._descriptor = descriptor
        self._clock = clock
        self._waiting: collections.deque[bytes] = collections.deque()
        self._dropped = 0
        self._ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="lines", daemon=True)
        self._thread.start()

    def tell(self, entry: JournalEntry) -> None:
        """From any thread; never waits for the reader."""
        line = encoded(entry, offset())
        with self._news:
            if len(self._waiting) >= ROOM:
                self._dropped += 1
                return
            self._own_up()
            self._waiting.append(line)
            self._news.notify()

    def close(self, patience: float) -> None:
        """What waits is written, if it is read within so many seconds."""
        with self._news:
            self._own_up()
            self._ended = True
            self._news.notify()
        self._thread.join(patience)

    def _own_up(self) -> None:
        """Where lines are missing, a line says how many."""
        if self._dropped:
            because = f"{self._dropped} lines were dropped here: nobody read them"
            note = JournalEntry(0, self._clock(), "stdout", because=because)
            self._waiting.append(encoded(note, offset()))
            self._dropped = 0

    def _write_all(self) -> None:
        while (line := self._next()) is not None:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError as error:
                self._give_up(error)

    def _next(self) -> bytes | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._ended)
            return self._waiting.popleft() if self._waiting else None

    def _give_up(self, error: OSError) -> None:
        """A log that cannot be written ends no control loop: stderr hears of it, once."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._descriptor)
        with contextlib.suppress(OSError):
            click.echo(f"slackwater: no more entries on stdout: {error.strerror}", err=True)


@contextlib.contextmanager
def writing_entries() -> Iterator[EntrySink]:
    """Takes entries to stdout inside the block."""
    lines = Lines(sys.stdout.fileno(), monotonic_now)
    try:
        yield lines.tell
    finally:
        lines.close(_LAST_LINES_SECONDS)
