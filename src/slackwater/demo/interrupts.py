"""Signal handling while the demo owns processes and cgroups: Ctrl-C, SIGTERM and SIGHUP.

Each context manager replaces the handlers while its block runs and restores the old ones.
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
def raise_on_termination() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind the stack, as Ctrl-C does."""
    with _replace_handlers(_ENDINGS, _exit):
        yield


@contextmanager
def ignore_signals() -> Iterator[None]:
    """For cleaning up: another Ctrl-C would leave something behind. Do not start processes in it,
    they would inherit the ignored signals."""
    with _replace_handlers(_ALL, signal.SIG_IGN):
        yield


@contextmanager
def defer_signals() -> Iterator[None]:
    """A signal that arrives in the block is delivered at its end."""
    came: list[int] = []
    with _replace_handlers(_ALL, lambda number, _: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _replace_handlers(numbers: tuple[signal.Signals, ...], handler: _Handler) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
