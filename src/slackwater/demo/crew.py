"""The demo's own processes: started in a group of its tree, ended by their own id.

Owns them all, so that nothing outlives the demo, whatever ends it. Each is in a process group of
its own: Ctrl-C reaches the demo alone, which then ends them in order.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from slackwater.demo.interruption import deferred
from slackwater.demo.tree import Tree

_PATIENCE = 15.0


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
            self.process.wait(_PATIENCE)

    def end(self) -> None:
        """By its own id."""
        self.process.kill()
        self.process.wait()
        self._reader.join(_PATIENCE)
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
