"""The end of the program, asked for by a signal, and what it ends: a sleep, or a question.

Owns the pipe between them. A pipe and not a threading.Event: a signal's handler runs inside
whatever the main thread does, and would wait for the lock that this thread holds. Owns also that a
signal reaches the main thread: of two at once Linux may give both to another thread, after it woke
the main one, whose system call then goes on as if nothing were (complete_signal in
kernel/signal.c). A signal that is sent to a thread is taken by no other.
"""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Iterator

ENDING = "the rebalancer was asked to end"
#: Between two signals to a main thread that did not hear the first, in seconds.
_INSISTING = 0.05


class Interrupted(BaseException):
    """The end was asked for while a question was on its way. As KeyboardInterrupt, so that nobody
    takes it for a question that failed."""


class Stop:
    """Guards the wish to end."""

    def __init__(self) -> None:
        self._asked = False
        self._interruptible = False
        self._closed = False
        self._ear, self._hammer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._bell = -1
        self._insisting: threading.Thread | None = None

    def on(self, *numbers: int) -> None:
        """Of the main thread only, and once."""
        for number in numbers:
            signal.signal(number, lambda *_: self._heard())
        ear, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(ear, True)
        # Whichever thread takes a signal rings here before Python knows of it.
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        self._insisting = threading.Thread(
            target=self._insist, args=(ear, numbers), name="signals", daemon=True
        )
        self._insisting.start()

    def ask(self) -> None:
        """From any thread, and from a signal's handler."""
        self._asked = True
        self.wake()

    def wake(self) -> None:
        """Ends a sleep without ending the program."""
        if self._closed:
            return
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
        self._interruptible = True
        try:
            if self._asked:
                raise Interrupted
            yield
        finally:
            self._interruptible = False

    def _heard(self) -> None:
        self.ask()
        if self._interruptible:
            self._interruptible = False
            raise Interrupted

    def _insist(self, ear: int, numbers: tuple[int, ...]) -> None:
        """Until the pipe is closed: a sleep is ended, a question is interrupted."""
        with open(ear, "rb", buffering=0) as rings:
            while rung := rings.read(1):
                if rung[0] not in numbers:
                    continue
                self.ask()
                while self._interruptible:
                    signal.pthread_kill(_main_thread(), rung[0])
                    time.sleep(_INSISTING)

    def close(self) -> None:
        """Of the main thread, where signals are heard. A signal that comes later does nothing."""
        self._closed = True
        if self._insisting is not None:
            signal.set_wakeup_fd(-1)
            os.close(self._bell)
            self._insisting.join()
        os.close(self._ear)
        os.close(self._hammer)


def _main_thread() -> int:
    found = threading.main_thread().ident
    if found is None:
        raise AssertionError("the main thread has begun")
    return found
