"""Keys as they are pressed, without Enter. Guards the terminal's mode while somebody listens."""

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self


class Keyboard:
    """Where stdin is no terminal nothing is ever pressed, and waiting is only waiting."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._fd is not None and self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """What was pressed within this time; the empty text if nothing was."""
        watched = [] if self._fd is None else [self._fd]
        ready, _, _ = select.select(watched, [], [], max(seconds, 0))
        if not ready or self._fd is None:
            return ""
        pressed = os.read(self._fd, 32)
        if not pressed:
            self._fd = None  # the terminal hung up
        return pressed.decode("ascii", "replace")
