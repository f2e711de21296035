"""The end of the program, asked for by a signal, and what it ends: a sleep, or a question.

Owns the pipe between them. A pipe and not a threading.Event: a signal's handler runs inside
whatever the main thread does, and would wait for the lock that this thread holds.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator

ENDING = "the rebalancer was asked to end"


class Interrupted(BaseException):
    """The end was asked for while a question was on its way. As KeyboardInterrupt, so that nobody
    takes it for a question that failed."""


class Stop:
    """Guards the wish to end."""

    def __init__(self) -> None:
        self._asked = False
        self._interruptible = False
        self._ear, self._hammer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def on(self, *numbers: int) -> None:
        """Of the main thread only."""
        for number in numbers:
            signal.signal(number, lambda *_: self._heard())

    def ask(self) -> None:
        """From any thread, and from a signal's handler."""
        self._asked = True
        self.wake()

    def wake(self) -> None:
        """Ends a sleep without ending the program."""
        with contextlib.suppress(BlockingIOError):  # it was woken often enough
            os.write(self._hammer, b"!")

    def is_asked(self) -> bool:
        return self._asked

    def wait(self, seconds: float) -> bool:
        """Sleeps so long, or until it is woken; whether it is to end."""
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        if not self._asked and poll.poll(max(seconds, 0.0) * 1000):
            with contextlib.suppress(BlockingIOError):
                while os.read(self._ear, 4096):
                    pass
        return self._asked

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Of the main thread: a signal raises Interrupted here instead of waiting for an answer.
        Not around what changes something: how that ended has to be known."""
        if self._asked:
            raise Interrupted
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def _heard(self) -> None:
        self.ask()
        if self._interruptible:
            self._interruptible = False
            raise Interrupted

    def close(self) -> None:
        os.close(self._ear)
        os.close(self._hammer)
