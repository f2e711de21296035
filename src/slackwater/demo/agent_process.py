"""The real agent as a child of the demo: `slackwater agent --standalone` on the demo's tree.

Owns its folder of objects, its state folder and what it said. Its environment has none of the
variables that would set it otherwise.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from slackwater.demo.crew import Child, Crew
from slackwater.demo.gauges import CannotMeasure
from slackwater.demo.measured import Line
from slackwater.demo.plan import node_folder
from slackwater.demo.tree import Tree

#: Until its first quota; a slow machine needs long to start Python.
_PATIENCE = 60.0
_VARIABLE = "SLACKWATER_"
_KEPT = ("SLACKWATER_CGROUP_VERSION",)


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
        deadline = time.monotonic() + _PATIENCE
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
