"""Output for a person: colour, and one live line that says what is running.

Refuses colour and redrawing where nobody watches (no terminal, a dumb one, NO_COLOR): there a
progress line is printed once, so that a log stays readable.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from enum import Enum
from types import TracebackType
from typing import Self, TextIO

REDRAW_SECONDS = 0.5


class Colour(Enum):
    GREEN = "32"
    RED = "31"
    YELLOW = "33"


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """NO_COLOR counts when it is set and not empty (no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, colour: Colour, stream: TextIO) -> str:
    if not wants_colour(stream, os.environ):
        return text
    return f"\033[{colour.value}m{text}\033[0m"


def say(text: str, stream: TextIO | None = None) -> None:
    """One line, at once: children write to the same terminal, so nothing may stay in a buffer."""
    print(text, file=stream or sys.stdout, flush=True)


def elapsed_text(seconds: float) -> str:
    """Below a minute one decimal, above it minutes and seconds."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


class ProgressLine:
    """Guards one line of the terminal while something runs quietly."""

    def __init__(self, text: str, stream: TextIO | None = None) -> None:
        self._text = text
        self._detail = ""
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._redrawing = threading.Thread(target=self._redraw, daemon=True)

    def __enter__(self) -> Self:
        if self._live:
            self._redrawing.start()
        else:
            say(self._text, self._stream)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._ended.set()
            self._redrawing.join()
            self._stream.write("\r\033[K")
            self._stream.flush()

    def tell(self, detail: str) -> None:
        """News about what runs; where the line is not redrawn, each new detail is a line."""
        if detail == self._detail:
            return
        self._detail = detail
        if not self._live:
            say(f"{self._text}: {detail}", self._stream)

    def _redraw(self) -> None:
        while True:
            self._stream.write(f"\r\033[K{self._line(shutil.get_terminal_size().columns)}")
            self._stream.flush()
            if self._ended.wait(REDRAW_SECONDS):
                return

    def _line(self, columns: int) -> str:
        """Cut to the terminal's width: a wrapped line cannot be redrawn."""
        detail = f" {self._detail}" if self._detail else ""
        line = f"{self._text}{detail} ({elapsed_text(time.monotonic() - self._began)})"
        return line[: max(columns - 1, 1)]
