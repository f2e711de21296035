"""The running programs of one cluster: where they come from, their logs, ports and ends.

Each is ended by its own process id, and the kernel ends it if this process dies first. Refuses to
touch a process that it did not start.
"""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tools.children import Children
from tools.kubernetes.__main__ import ready_made
from tools.kubernetes.building import build
from tools.kubernetes.programs import BuildError, variable_of
from tools.provision import ROOT, SetupError, cache_folder


class ClusterError(Exception):
    """One sentence for the person, and the last words of the program that is to blame."""


#: The signal comes when the thread that started the program ends: start from one that stays.
WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
#: Long enough for a kubelet or an API server on a busy machine.
STOP_SECONDS = 20.0
#: How long to wait for what usually takes a few seconds.
PATIENCE_SECONDS = 300.0
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


LOOPBACK = "127.0.0.1"
#: Below net.ipv4.ip_local_port_range, which begins at 32768, and above what services are known by.
_RANGE = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """So many different ones that nobody listens on now."""
    candidates = random.SystemRandom().sample(_RANGE, len(_RANGE))
    free = (port for port in candidates if is_free(port))
    return [next(free) for _ in range(count)]


def is_free(port: int) -> bool:
    with socket.socket() as trial:
        # A port whose last connections are still fading away is free for a server.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def find_programs(
    names: Sequence[str], environ: Mapping[str, str], children: Children | None = None
) -> dict[str, Path]:
    """Builds what is neither named nor cached, which takes minutes and says so on stderr."""
    named = {name: environ.get(variable_of(name), "") for name in names}
    found = {name: Path(path) for name, path in named.items() if path}
    for name, path in found.items():
        if not os.access(path, os.X_OK):
            raise ClusterError(f"{variable_of(name)} is {str(path)!r}, which is no program")
    lacking = [name for name in names if name not in found]
    if lacking:
        workers = children or Children(ROOT)
        try:
            built = build(workers, lacking, cache_folder(environ), ready_made(environ))
        except (BuildError, SetupError) as error:
            raise ClusterError(str(error)) from error
        found |= dict(zip(lacking, built, strict=True))
    return found


T = TypeVar("T")
POLL_SECONDS = 0.1
#: A look may start a program, which costs as much CPU as it takes time: it is not always looking.
_REST = 2.0
_LONGEST_REST_SECONDS = 2.0


def wait_for(what: str, look: Callable[[], T], patience: float = PATIENCE_SECONDS) -> T:
    """The first answer that is true; ClusterError with the last one if none comes."""
    deadline = time.monotonic() + patience
    while True:
        began = time.monotonic()
        if seen := look():
            return seen
        now = time.monotonic()
        if now > deadline:
            raise ClusterError(f"{patience:.0f} s were not enough for {what}; last seen: {seen!r}")
        time.sleep(rest_after(now - began))


def rest_after(seconds: float) -> float:
    """Before the next look, where one took so long."""
    return min(max(_REST * seconds, POLL_SECONDS), _LONGEST_REST_SECONDS)
