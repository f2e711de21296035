"""`slackwater agent --standalone` and `slackwater release` as a user starts them.

Owns one state folder and the agent's journal, line by line. Reads no cgroup.
"""

import contextlib
import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slackwater.agent.agent_socket import socket_path
from tests.kernel.launching import launch, run

#: Low, so that best-effort loops leave the kubelet and the host time.
SETTINGS = """
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {bestEffortShare: {enabled: true, threshold: 15}}
---
apiVersion: v1
kind: Node
metadata: {name: node}
status: {allocatable: {cpu: "2"}}
"""
#: The agent's default: settings say nothing else.
TICK_SECONDS = 1.0


class Standalone:
    """One agent at a time, and what it told."""

    def __init__(self, folder: Path, *place: str) -> None:
        self._state = folder / "state"
        self._place = ("--state", str(self._state), *place)
        self._folder = folder
        self._objects = folder / "objects"
        self._objects.mkdir()
        (self._objects / "settings.yaml").write_text(SETTINGS)
        self._output = folder / "journal"
        self._errors = folder / "errors"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Into files: a pipe that nobody empties would stop the agent."""
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            here = ("--standalone", str(self._objects), *self._place)
            self._process = launch("agent", *here, stdout=output, stderr=errors)

    def put(self, name: str, *objects: Mapping[str, Any]) -> None:
        """Under another name first: the agent reads a file as soon as it is there."""
        unfinished = self._folder / f"{name}.unfinished"
        unfinished.write_text("\n---\n".join(map(json.dumps, objects)))
        unfinished.rename(self._objects / f"{name}.yaml")

    def journal(self) -> list[dict[str, Any]]:
        return _whole_lines(self._output)

    def routes(self) -> set[str]:
        """By which ways it has written, by its own ledger: a unit's property, or a file. There is
        no ledger before the first note."""
        file = self._state / "ledger.jsonl"
        ledger = _whole_lines(file) if file.exists() else []
        return {line["note"]["route"] for line in ledger if line.get("note")}

    def end(self) -> None:
        """As a rolling update does it: what was set is kept."""
        assert self._process is not None
        assert self._process.poll() is None, self._errors.read_text()
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(300) == 0, self._errors.read_text()
        assert self._errors.read_text() == ""

    def explain(self, target: str) -> str:
        """What the command prints; nothing where the agent does not answer yet."""
        place = ("--agent", socket_path(str(self._state)))
        return run("explain", target, *place, timeout=300).stdout

    def release(self) -> list[dict[str, Any]]:
        ran = run("release", "-o", "json", *self._place, timeout=300)
        assert (ran.returncode, ran.stderr) == (0, "")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def close(self) -> None:
        """For a test that failed half-way; a tier without a limit is what the next one expects."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                self.release()


def _whole_lines(file: Path) -> list[dict[str, Any]]:
    """Without the one that is just being written."""
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
