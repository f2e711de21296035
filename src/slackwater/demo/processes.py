"""The demo's child processes: started in a cgroup of its tree and ended by their own pid.

No child outlives the demo, whatever ends it. Each has a process group of its own: Ctrl-C reaches
only the demo, which then ends its children in order. One of them is the real agent, `slackwater
agent --standalone`, without any variables in its environment that would configure it.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from slackwater.demo.interrupts import deferred
from slackwater.demo.measurements import CannotMeasure, Line
from slackwater.demo.plan import node_folder
from slackwater.demo.tree import Tree

_END_TIMEOUT = 15.0
#: Until its first quota; a slow machine needs long to start Python.
_FIRST_QUOTA_TIMEOUT = 60.0
_VARIABLE = "SLACKWATER_"
_KEPT = ("SLACKWATER_CGROUP_VERSION",)


class Child:
    """Guards one process and the thread that reads its lines."""

    def __init__(self, process: subprocess.Popen[str], hear: Callable[[str], None]) -> None:
        self.process = process
        self._hear = hear
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._hear(line.rstrip("\n"))

    def is_silent(self) -> bool:
        """Whether its last line was read."""
        return not self._reader.is_alive()

    def wait_silent(self, seconds: float) -> bool:
        self._reader.join(seconds)
        return self.is_silent()

    def ask_to_end(self) -> None:
        """Lets it put things back first."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_TIMEOUT)

    def end(self) -> None:
        """By its own id."""
        self.process.kill()
        self.process.wait()
        self._reader.join(_END_TIMEOUT)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class Crew:
    """Guards what was started and has not been ended."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._children: list[Child] = []

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        group: str,
        hear: Callable[[str], None],
        environ: Mapping[str, str] = os.environ,
    ) -> Child:
        """`python -m module arguments` in a group; `hear` gets its lines, from another thread."""
        with deferred():  # or an interrupt between two lines would leave a process to nobody
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=dict(environ),
                process_group=0,
            )
            child = Child(process, hear)
            self._children.append(child)
            self._tree.enter(group, process.pid)
        return child

    def end(self, child: Child) -> None:
        child.end()
        self._children.remove(child)

    def end_all(self) -> None:
        """The last one first: the agent before those that it acts on."""
        for child in reversed(list(self._children)):
            self.end(child)


class AgentProcess:
    """Guards one agent, from its start to its release of all it set."""

    def __init__(self, crew: Crew, tree: Tree, folder: Path) -> None:
        self._crew = crew
        self._tree = tree
        self._said: list[tuple[float, str]] = []
        node = folder / "node"
        node.mkdir(parents=True, exist_ok=True)
        for name, text in node_folder(tree.cpus).items():
            (node / name).write_text(text)
        arguments = ["agent", "--standalone", str(node), "--state", str(folder / "state")]
        arguments += ["--kubepods", tree.kubepods, "--node", "demo"]
        arguments += ["--listen", "", "--on-exit", "release"]
        self._child: Child = crew.start(
            "slackwater", arguments, tree.agent, self._hear, environment(os.environ)
        )

    def wait_for_quota(self) -> None:
        """Until it has decided for the first time."""
        deadline = time.monotonic() + _FIRST_QUOTA_TIMEOUT
        while self._tree.quota() is None:
            if self._child.process.poll() is not None or time.monotonic() > deadline:
                words = self._said[-1][1] if self._said else "nothing"
                raise CannotMeasure(f"the agent set no quota; the last that it said: {words}")
            time.sleep(0.02)

    def lines(self, start: float) -> tuple[Line, ...]:
        """What it said, by seconds after a moment of the monotonic clock."""
        read = (line_of(text, at - start) for at, text in list(self._said))
        return tuple(line for line in read if line is not None)

    def end(self) -> None:
        """It releases what it set; everything it said stays readable."""
        self._child.ask_to_end()
        self._crew.end(self._child)

    def _hear(self, text: str) -> None:
        self._said.append((time.monotonic(), text))


def line_of(text: str, at: float) -> Line | None:
    """One of its lines of JSON about a value; None for everything else it says."""
    try:
        said = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    words = {key: str(said.get(key, "")) for key in ("what", "before", "after", "because")}
    if not words["what"] or "event" in said:
        return None
    return Line(round(at, 3), **words)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not name.startswith(_VARIABLE)
    }
