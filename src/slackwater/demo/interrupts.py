"""Ctrl-C, SIGTERM and SIGHUP while the demo owns things: in order, and never in between.

Owns the process's handlers for these three while a block runs, and puts the old ones back.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
_ALL = (signal.SIGINT, *_ENDINGS)
_Handler = Callable[[int, FrameType | None], Any] | int | None


@contextmanager
def endings_raised() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind as Ctrl-C does."""
    with _handled(_ENDINGS, _exit):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Nothing interrupts: another Ctrl-C while things are put back would leave some of them.
    For blocks that start no process, which would inherit this deafness."""
    with _handled(_ALL, signal.SIG_IGN):
        yield


@contextmanager
def deferred() -> Iterator[None]:
    """What comes meanwhile is delivered at the end."""
    came: list[int] = []
    with _handled(_ALL, lambda number, _: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _handled(numbers: tuple[signal.Signals, ...], handler: _Handler) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
