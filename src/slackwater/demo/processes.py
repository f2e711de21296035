"""The demo's child processes: started in a cgroup of its tree and ended by their own pid.

No child outlives the demo, whatever ends it. Each has a process group of its own: Ctrl-C reaches
only the demo, which then ends its children in order. One of them is the real agent, `slackwater
agent --standalone`, without any variables in its environment that would configure it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from slackwater.demo.cgroup_tree import DemoTree
from slackwater.demo.measurements import AgentEntry, MeasurementError

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


_END_TIMEOUT = 15.0
#: Of an agent; a slow machine needs long to start Python.
_START_TIMEOUT = 60.0
_VARIABLE = "SLACKWATER_"
_KEPT = ("SLACKWATER_CGROUP_VERSION",)


class ChildProcess:
    """One process and the thread that reads its output."""

    def __init__(self, process: subprocess.Popen[str], on_line: Callable[[str], None]) -> None:
        self.process = process
        self._on_line = on_line
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._on_line(line.rstrip("\n"))

    def output_ended(self) -> bool:
        """Whether its last line has been read."""
        return not self._reader.is_alive()

    def wait_for_output(self, seconds: float) -> bool:
        self._reader.join(seconds)
        return self.output_ended()

    def terminate(self) -> None:
        """With SIGTERM, so that it can clean up; waits for it."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_TIMEOUT)

    def end(self) -> None:
        """Kills it by its own pid."""
        self.process.kill()
        self.process.wait()
        self._reader.join(_END_TIMEOUT)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class ChildProcesses:
    """All children that were started and have not been ended."""

    def __init__(self, tree: DemoTree) -> None:
        self._tree = tree
        self._children: list[ChildProcess] = []

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        group: str,
        on_line: Callable[[str], None],
        environ: Mapping[str, str] = os.environ,
    ) -> ChildProcess:
        """`python -m module arguments` in a group; `hear` gets its lines, from another thread."""
        with defer_signals():  # an interrupt in between would leave a process without an owner
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=dict(environ),
                process_group=0,
            )
            child = ChildProcess(process, on_line)
            self._children.append(child)
            self._tree.enter(group, process.pid)
        return child

    def end(self, child: ChildProcess) -> None:
        child.end()
        self._children.remove(child)

    def end_all(self) -> None:
        """The last one first: the agent before those it acts on."""
        for child in reversed(list(self._children)):
            self.end(child)


class AgentProcess:
    """One agent, from its start until it has released everything."""

    def __init__(
        self, children: ChildProcesses, tree: DemoTree, folder: Path, objects: Mapping[str, str]
    ) -> None:
        """`objects` are the files of its folder, text by name."""
        self._crew = children
        self._tree = tree
        self._said: list[tuple[float, str]] = []
        node = folder / "node"
        shutil.rmtree(node, ignore_errors=True)
        node.mkdir(parents=True)
        for name, text in objects.items():
            (node / name).write_text(text)
        arguments = ["agent", "--standalone", str(node), "--state", str(folder / "state")]
        arguments += ["--kubepods", tree.kubepods, "--node", "demo"]
        arguments += ["--listen", "", "--on-exit", "release"]
        self._child: ChildProcess = children.start(
            "slackwater", arguments, tree.agent, self._on_line, agent_environment(os.environ)
        )

    def wait_for_quota(self) -> None:
        """Until it has decided for the first time."""
        self._wait_until(lambda: self._tree.quota() is not None, "set no quota")

    def wait_for_start(self) -> None:
        """Until it has said something."""
        self._wait_until(lambda: bool(self._said), "did not start")

    def _wait_until(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not happened():
            if self._child.process.poll() is not None or time.monotonic() > deadline:
                words = self._said[-1][1] if self._said else "nothing"
                raise MeasurementError(f"the agent {what}; the last that it said: {words}")
            time.sleep(0.02)

    def lines(self, start: float) -> tuple[AgentEntry, ...]:
        """What it printed, in seconds after `start` of the monotonic clock."""
        read = (parse_entry(text, at - start) for at, text in list(self._said))
        return tuple(line for line in read if line is not None)

    def end(self) -> None:
        """It releases what it set; its output stays readable."""
        self._child.terminate()
        self._crew.end(self._child)

    def _on_line(self, text: str) -> None:
        self._said.append((time.monotonic(), text))


def parse_entry(text: str, at: float) -> AgentEntry | None:
    """The entry in a line of JSON about a value; None for any other output."""
    try:
        said = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    words = {key: str(said.get(key, "")) for key in ("what", "before", "after", "because")}
    if not words["what"] or "event" in said:
        return None
    return AgentEntry(round(at, 3), **words)


def agent_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not name.startswith(_VARIABLE)
    }
