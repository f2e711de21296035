"""The loop's sleep: until the next round is due, a signal, somebody's request, or pressure."""

import contextlib
import enum
import os
import select
import signal
import threading
import time
from types import FrameType
from typing import Protocol


class Woken(enum.Enum):
    DUE = "due"
    STOP = "stop"
    ASKED = "asked"
    PRESSURE = "pressure"


class Alarms(Protocol):
    """Descriptors that ring (POLLPRI), and whether a ring means something."""

    def descriptors(self) -> tuple[int, ...]: ...

    def means_something(self, fd: int) -> bool: ...


class Waiter:
    """Guards the pipe by which signals and other threads wake the loop."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._ear, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = threading.Event()

    def stop_on(self, *numbers: int) -> None:
        for number in numbers:
            signal.signal(number, self._stop)

    def wake(self) -> None:
        """From any thread: look now."""
        with contextlib.suppress(BlockingIOError):  # it is full of calls already
            os.write(self._bell, b"!")

    def wait(self, seconds: float) -> Woken:
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        for fd in self._alarms.descriptors():
            poll.register(fd, select.POLLPRI)
        while not self._stopping.is_set():
            left = max(deadline - time.monotonic(), 0.0)
            rung = poll.poll(left * 1000)
            if self._stopping.is_set():
                break
            if any(fd == self._ear for fd, _ in rung):
                os.read(self._ear, 512)
                return Woken.ASKED
            for fd, happened in rung:
                if happened & (select.POLLERR | select.POLLNVAL):
                    poll.unregister(fd)  # its group is gone
                elif self._alarms.means_something(fd):
                    return Woken.PRESSURE
            if not rung and time.monotonic() >= deadline:
                return Woken.DUE
        return Woken.STOP

    def close(self) -> None:
        os.close(self._ear)
        os.close(self._bell)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping.set()
        self.wake()
