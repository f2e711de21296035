"""The processes that a tool starts: each leads a process group, and none outlives the tool.

Ending is polite first: pytest removes its cgroups on an interrupt, so a child gets that, then time,
before anything harsher.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

# What is sent, and the seconds the group has to end before the next one.
FAREWELLS = ((signal.SIGINT, 20.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
INTERRUPTED = 130
CANNOT_START = 127


class Children:
    """The running children of this process; threads may share them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._starting = threading.Lock()
        self._is_ending = False

    def heed_endings(self) -> None:
        """Ctrl-C, kill and a closed terminal all raise KeyboardInterrupt, also below nohup."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._interrupt)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._is_ending = True
        # A child already runs before Popen returns it: raised there, nobody would know of it.
        if not self._starting.locked():
            raise KeyboardInterrupt

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        output: IO[bytes] | int | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Begins a command; its output and errors go to `output`, or where ours go."""
        with self._starting:
            if self._is_ending:
                raise KeyboardInterrupt
            child = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
            )
            self._running.append(child)
        if self._is_ending:
            raise KeyboardInterrupt
        return child

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """The exit code as a shell reports it: 128 + n for signal n."""
        code = child.wait()
        self._forget(child)
        return code if code >= 0 else 128 - code

    def run(self, command: Sequence[str], env: Mapping[str, str], output: int | None = None) -> int:
        """Runs a command whose output the person sees as it comes."""
        return self.wait(self.start(command, env, output))

    def run_quietly(self, command: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
        """Runs a command and keeps what it says; one that cannot start is 127, as in a shell."""
        try:
            child = self.start(command, env, subprocess.PIPE)
        except OSError as error:
            return CANNOT_START, f"{command[0]}: {error.strerror}\n"
        said, _ = child.communicate()
        return self.wait(child), said.decode(errors="replace")

    def end_all(self) -> None:
        """Ends what still runs; another Ctrl-C goes on to the next, harsher farewell."""
        self._is_ending = True
        with self._starting:  # what another thread starts just now is known after this
            pass
        for number, patience in FAREWELLS:
            with suppress(KeyboardInterrupt):
                self._send(number)
                self._await_ends(patience)
            if not self._running:
                return

    def _send(self, number: signal.Signals) -> None:
        for child in tuple(self._running):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)

    def _await_ends(self, patience: float) -> None:
        for child in tuple(self._running):
            with suppress(subprocess.TimeoutExpired):
                child.wait(patience)
                self._forget(child)

    def _forget(self, child: subprocess.Popen[bytes]) -> None:
        """Its group may hold orphans still: what a shell starts with & is deaf to interrupts."""
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(ValueError):  # another thread was first
            self._running.remove(child)
