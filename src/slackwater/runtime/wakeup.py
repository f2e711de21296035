"""A loop's sleep, which ends at a time, at a signal, at another thread's call or at an alarm.

Built on a pipe and not on a threading.Event: a signal handler runs inside whatever the main thread
is doing, and would deadlock on a lock that this thread holds.
"""

import contextlib
import enum
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Protocol

#: Seconds between two signals to a main thread that missed the first.
_RESEND_SECONDS = 0.05


class Woken(enum.Enum):
    """What ended a wait."""

    TIMEOUT = "timeout"
    CALL = "call"
    ALARM = "alarm"
    STOP = "stop"


class Alarms(Protocol):
    """Descriptors that become ready with POLLPRI, and whether that means anything."""

    def descriptors(self) -> tuple[int, ...]: ...

    def means_something(self, fd: int) -> bool: ...


class NoAlarms:
    def descriptors(self) -> tuple[int, ...]:
        return ()

    def means_something(self, fd: int) -> bool:
        raise AssertionError(f"descriptor {fd} was never registered")


class WakePipe:
    """Guards the pipe, and whether the program was asked to stop."""

    def __init__(self, alarms: Alarms | None = None) -> None:
        self._alarms = alarms or NoAlarms()
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = False
        self._closed = False
        self._has_signals = False

    def stop_on(self, *numbers: int) -> None:
        """From the main thread, once: these signals ask the program to stop."""
        for number in numbers:
            signal.signal(number, self._handle_signal)
        # Linux may deliver a signal to any thread. Python's handler runs in the main thread only,
        # and only once that returns from poll: so whichever thread takes the signal writes here.
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._has_signals = True

    def wake(self) -> None:
        """From any thread: end the wait without stopping."""
        if self._closed:
            return
        # Full: there are calls enough. Else the wait ends by its time; no caller dies of it.
        with contextlib.suppress(OSError):
            os.write(self._write_fd, b"!")

    def request_stop(self) -> None:
        """From any thread, and from a signal handler."""
        self._stopping = True
        self.wake()

    def is_stopping(self) -> bool:
        return self._stopping

    def wait(self, seconds: float) -> Woken:
        """All calls until now count once. After a request to stop it never waits."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        for fd in self._alarms.descriptors():
            poll.register(fd, select.POLLPRI)
        while not self.is_stopping():
            left = max(deadline - time.monotonic(), 0.0)
            ready = poll.poll(left * 1000)
            if self.is_stopping():
                break
            if any(fd == self._read_fd for fd, _ in ready):
                self._drain()
                return Woken.CALL
            for fd, events in ready:
                if events & (select.POLLERR | select.POLLNVAL):
                    poll.unregister(fd)  # its cgroup is gone
                elif self._alarms.means_something(fd):
                    return Woken.ALARM
            if not ready and time.monotonic() >= deadline:
                return Woken.TIMEOUT
        return Woken.STOP

    def sleep(self, seconds: float) -> bool:
        """The same for callers that only want to know whether to stop."""
        return self.wait(seconds) is Woken.STOP

    def close(self) -> None:
        """From the main thread if it handles signals. A later signal does nothing."""
        self._closed = True
        if self._has_signals:
            signal.set_wakeup_fd(-1)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _drain(self) -> None:
        with contextlib.suppress(OSError):  # empty, mostly
            while os.read(self._read_fd, 4096):
                pass

    def _handle_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.request_stop()


class Interrupted(BaseException):
    """A stop was requested while the main thread waited for an answer. Like KeyboardInterrupt, so
    that nobody mistakes it for a request that failed."""


class InterruptibleWakePipe(WakePipe):
    """One whose signals also interrupt a blocking call of the main thread.

    Of two signals at once Linux may deliver both to another thread after it woke the main one,
    whose system call is then restarted (complete_signal in kernel/signal.c). A signal that is sent
    to a thread is taken by no other, so a thread of our own repeats it until it is heard.
    """

    def __init__(self) -> None:
        super().__init__()
        self._interruptible = False
        self._signal_fd = -1
        self._resending: threading.Thread | None = None

    def stop_on(self, *numbers: int) -> None:
        super().stop_on(*numbers)
        read_fd, self._signal_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(read_fd, True)
        signal.set_wakeup_fd(self._signal_fd, warn_on_full_buffer=False)
        self._resending = threading.Thread(
            target=self._resend, args=(read_fd, numbers), name="signals", daemon=True
        )
        self._resending.start()

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """In the main thread: a request to stop raises Interrupted instead of waiting for an
        answer. Never around a change: its outcome must be known."""
        self._interruptible = True
        try:
            if self._stopping:
                raise Interrupted
            yield
        finally:
            self._interruptible = False

    def close(self) -> None:
        if self._resending is not None:
            signal.set_wakeup_fd(-1)
            os.close(self._signal_fd)
            self._resending.join()
        super().close()

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        super()._handle_signal(number, frame)
        if self._interruptible:
            self._interruptible = False
            raise Interrupted

    def _resend(self, read_fd: int, numbers: tuple[int, ...]) -> None:
        """Until the pipe is closed, or cannot be read: then a signal is heard with the answer."""
        with contextlib.suppress(OSError), open(read_fd, "rb", buffering=0) as signals:
            while taken := signals.read(1):
                if taken[0] not in numbers:
                    continue
                self.request_stop()
                while self._interruptible:
                    signal.pthread_kill(_main_thread(), taken[0])
                    time.sleep(_RESEND_SECONDS)


def _main_thread() -> int:
    found = threading.main_thread().ident
    if found is None:
        raise AssertionError("the main thread has started")
    return found
