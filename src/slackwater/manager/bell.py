"""The loop's sleep: until a time, or until another thread or a signal rings."""

import contextlib
import os
import select


class Bell:
    """Guards a pipe. A pipe and not a threading.Event: a signal's handler runs inside whatever the
    loop's thread does, and would wait for the lock that this thread holds."""

    def __init__(self) -> None:
        self._ear, self._hammer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """From any thread, and from a signal's handler."""
        with contextlib.suppress(BlockingIOError):  # it has rung often enough
            os.write(self._hammer, b"!")

    def wait(self, seconds: float) -> bool:
        """Whether it rang; all that rang until now counts once."""
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        if not poll.poll(max(seconds, 0.0) * 1000):
            return False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._ear, 4096):
                pass
        return True

    def close(self) -> None:
        os.close(self._ear)
        os.close(self._hammer)
