"""What a plug-in prints, as the agent's standard error shows it: a little of it, line by line.

A plug-in that prints at each question would fill the pod's log, and with it the node's disk.
"""

import os
import threading
from collections.abc import Callable, Iterator

#: Lines of one plug-in in one span, and the bytes of a line: 6 kB a minute at most.
LINES, LONGEST = 20, 300
SPAN_SECONDS = 60.0
_PIECE = 65_536
#: After a whole piece, seconds: reading a flood without a pause would be the agent's CPU.
_PAUSE = 0.05


class PluginOutput:
    """Guards how much of one plug-in's output was shown lately. Times are in seconds."""

    def __init__(self, name: str) -> None:
        self._head = f"plug-in {name}: "
        self._begin: float | None = None
        self._shown = 0
        self._line = b""

    def take(self, piece: bytes, at: float) -> Iterator[str]:
        """The lines to show, of what was printed now."""
        if self._begin is None or at - self._begin >= SPAN_SECONDS:
            self._begin, self._shown = at, 0
        *whole, rest = piece.split(b"\n")
        for line in whole:
            if self._shown > LINES:
                break
            yield from self._show(self._line + line)
            self._line = b""
        # One byte more than is shown tells that there was more.
        self._line = ((b"" if whole else self._line) + rest)[: LONGEST + 1]

    def end(self) -> Iterator[str]:
        """The last line, where nothing ended it."""
        if self._line and self._shown <= LINES:
            yield from self._show(self._line)

    def _show(self, line: bytes) -> Iterator[str]:
        self._shown += 1
        if self._shown > LINES:
            told = f"more than {LINES} lines in {SPAN_SECONDS:g} s: the others are left out"
            yield f"{self._head}it printed {told}"
            return
        text = line[:LONGEST].decode("utf-8", "replace").rstrip()
        shown = "".join(each if each.isprintable() else "?" for each in text)
        yield f"{self._head}{shown}{'...' if len(line) > LONGEST else ''}"


def follow_output(
    name: str, descriptor: int, show: Callable[[str], None], clock: Callable[[], float]
) -> None:
    """Shows what is read until the other end is closed, and closes this one."""
    output, pause = PluginOutput(name), threading.Event()
    try:
        while piece := os.read(descriptor, _PIECE):
            for line in output.take(piece, clock()):
                show(line)
            if len(piece) == _PIECE:
                pause.wait(_PAUSE)
        for line in output.end():
            show(line)
    except OSError as error:
        show(f"plug-in {name}: what it prints cannot be read any more: {error.strerror}")
    finally:
        os.close(descriptor)
