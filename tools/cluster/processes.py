"""Owns the running programs of one cluster: their logs, their ends, and waiting for their news.

Each is ended by its own process id, and the kernel ends it if this process dies first. Refuses to
touch a process that it did not start.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tools.cluster.failure import ClusterError
from tools.provision import ROOT

#: The signal comes when the thread that started the program ends: start from one that stays.
WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
#: Long enough for a kubelet or an API server on a busy machine.
STOP_SECONDS = 20.0
#: How long to wait for what usually takes a few seconds.
PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.05
_BOND_SECONDS = 0.001
_LAST_LINES = 15


class Processes:
    """Guards programs by name; one name runs once at a time."""

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str]) -> None:
        """In a process group of its own: a Ctrl-C is for this process to answer."""
        if self.is_running(name):
            raise ClusterError(f"{name} runs already")
        with self.log(name).open("ab") as words:
            try:
                self._running[name] = subprocess.Popen(
                    [*WITH_US, *command],
                    cwd=ROOT,
                    env=without_proxies(os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                    process_group=0,
                )
            except OSError as error:
                raise ClusterError(f"{name} cannot be started: {error}") from error
        _await_bond(self._running[name])

    def is_running(self, name: str) -> bool:
        return name in self._running and self._running[name].poll() is None

    def ended(self) -> list[str]:
        """Those that nobody stopped, and that do not run any more."""
        return [name for name in self._running if not self.is_running(name)]

    def pid(self, name: str) -> int:
        if name not in self._running:
            known = ", ".join(self._running) or "none"
            raise ClusterError(f"{name} does not run here; these do: {known}")
        return self._running[name].pid

    def send(self, name: str, number: signal.Signals) -> None:
        self.pid(name)
        self._running[name].send_signal(number)

    def kill(self, name: str) -> None:
        """At once, as a crash would."""
        self.pid(name)
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str, patience: float = STOP_SECONDS) -> None:
        """Politely, then as `kill` does; a paused one is woken first."""
        self.send(name, signal.SIGTERM)
        self.send(name, signal.SIGCONT)
        self.await_end(name, patience)

    def await_end(self, name: str, patience: float = STOP_SECONDS) -> None:
        """Of one that was told to end; it is killed when patience is."""
        with suppress(subprocess.TimeoutExpired):
            self._running[name].wait(patience)
        self.kill(name)

    def kill_all(self) -> None:
        """The last one first. What they hold is thrown away, so none needs time to save it."""
        for name in reversed(tuple(self._running)):
            self.kill(name)

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def last_words(self, name: str) -> str:
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(lines[-_LAST_LINES:]) or "it said nothing"

    def wait_until(
        self, what: str, of: str, is_so: Callable[[], bool], patience: float = PATIENCE_SECONDS
    ) -> None:
        """Waits as long as the program lives and patience lasts."""
        deadline = time.monotonic() + patience
        while not is_so():
            if not self.is_running(of):
                raise ClusterError(f"{of} ended by itself:\n{self.last_words(of)}")
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{patience:.0f} s were not enough for {what}:\n{self.last_words(of)}"
                )
            time.sleep(_POLL_SECONDS)


def without_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """A cluster's programs call each other and pods, and a company's proxy knows neither."""
    return {name: value for name, value in environ.items() if not name.lower().endswith("_proxy")}


def _await_bond(process: subprocess.Popen[bytes]) -> None:
    """Until setpriv has become the program: before that our death would not be its own."""
    while process.poll() is None:
        try:
            if Path(os.readlink(f"/proc/{process.pid}/exe")).name != WITH_US[0]:
                return
        except OSError:  # it has just ended
            return
        time.sleep(_BOND_SECONDS)
