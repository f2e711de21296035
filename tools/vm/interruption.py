"""Signals that end a process, as exceptions, so that `finally` and `with` do their work.

The only module that sets signal handlers.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBySignalError(Exception):
    """A signal asked this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        # As a shell reports a process that the signal ended.
        self.exit_code = 128 + number


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise StoppedBySignalError where a signal would end the process."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        # A second signal must not cut the cleaning short, which ends by itself within seconds.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise StoppedBySignalError(number)

    before = {each: signal.signal(each, interrupt) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
