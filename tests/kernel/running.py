"""`slackwater agent` as a user starts it, on a bed of real cgroups."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slackwater.agent.agent_socket import socket_path
from slackwater.agent.endpoint_client import ask_agent
from slackwater.model.cgroup import CgroupVersion
from tests.kernel import launching
from tests.kernel.bed import Bed
from tests.kernel.hand import until

Launch = Callable[..., subprocess.Popen[str]]

SETTINGS = """
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {bestEffortShare: {enabled: true, threshold: 90}}
---
apiVersion: v1
kind: Node
metadata: {name: here}
status: {allocatable: {cpu: "2"}}
"""
#: 90 % of two CPUs.
ALLOWED = 1800
#: A fifth of the default, and twice the shortest: what is waited for is often the next look.
PERIOD = 0.2
#: In seconds; an emulated machine on a busy host is slow.
PATIENCE = 300.0
TICKS = 'slackwater_ticks_total{kind="regular"}'


def is_listening(state: Path) -> bool:
    """Whether an agent serves on the socket there; one that was killed leaves the file."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(socket_path(str(state))) == 0


class Running:
    """`slackwater agent` as a user starts it."""

    def __init__(
        self, bed: Bed, folder: Path, *arguments: str, launch: Launch = launching.launch
    ) -> None:
        self._launch = launch
        (folder / "node").mkdir(exist_ok=True)
        self.settings = folder / "node" / "settings.yaml"
        if not self.settings.exists():
            self.settings.write_text(SETTINGS)
        self.state = folder / "state"
        self._place = ("--state", str(self.state), "--kubepods", bed.kubepods)
        here = ("--standalone", f"{folder}/node", "--listen", "127.0.0.1:0")
        often = ("--period", f"{PERIOD * 1000:.0f}ms")
        self.process = self._start("agent", *here, *often, *arguments)

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return self._launch(*arguments, *self._place)

    def get(self, path: str) -> str:
        """From its socket."""
        answer = ask_agent(socket_path(str(self.state)), "GET", path, PATIENCE)
        assert answer.status == 200, answer
        return answer.body.decode()

    def metric(self, name: str) -> float:
        """By its whole name, labels and all; 0 for one that is not there yet."""
        lines = (line.rpartition(" ") for line in self.get("/metrics").splitlines())
        return next((float(value) for each, _, value in lines if each == name), 0.0)

    def await_listening(self) -> None:
        until(lambda: is_listening(self.state), PATIENCE, lambda: "an endpoint")

    def await_ticks(self, number: int) -> None:
        """So many more, whole ones."""
        enough = self.metric(TICKS) + number + 1  # the one that goes on has looked already
        until(lambda: self.metric(TICKS) >= enough, PATIENCE, lambda: f"{number} more ticks")

    def end(self, number: int) -> list[dict[str, Any]]:
        self.process.send_signal(number)
        return self.lines()

    def lines(self) -> list[dict[str, Any]]:
        output, errors = self.process.communicate(timeout=300)
        assert "Traceback" not in errors, errors
        return [json.loads(line) for line in output.splitlines()]

    def release(self) -> tuple[int, list[dict[str, Any]]]:
        self.process = self._start("release", "-o", "json")
        lines = self.lines()
        return self.process.returncode, lines


def quota(bed: Bed, path: str) -> int | None:
    """In milliCPU; None is unlimited."""
    if bed.version is CgroupVersion.V1:
        text = bed.read(path, "cpu.cfs_quota_us")
    else:
        text = bed.read(path, "cpu.max").split()[0]
    return None if text in ("-1", "max") else int(text) // 100


def wait_for(bed: Bed, path: str, low: int, high: int) -> None:
    seen: list[int | None] = [quota(bed, path)]

    def is_there() -> bool:
        seen.append(quota(bed, path))
        return seen[-1] is not None and low <= seen[-1] <= high

    until(is_there, PATIENCE, lambda: f"a quota in {low}..{high}; it is {seen[-1]}", 0.1)


@contextlib.contextmanager
def read_only(file: str) -> Iterator[None]:
    """Whoever writes this file is told EROFS, root too."""
    subprocess.run(["mount", "--bind", file, file], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", file], check=True)
        yield
    finally:
        subprocess.run(["umount", file], check=True)
