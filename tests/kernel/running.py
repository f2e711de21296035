"""`slackwater agent` as a user starts it, on a bed of real cgroups."""

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slackwater.model.cgroup import CgroupVersion
from tests.kernel.bed import Bed

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


class Running:
    """`slackwater agent` as a user starts it."""

    def __init__(self, bed: Bed, folder: Path, *arguments: str) -> None:
        (folder / "node").mkdir(exist_ok=True)
        self.settings = folder / "node" / "settings.yaml"
        if not self.settings.exists():
            self.settings.write_text(SETTINGS)
        self.state = folder / "state"
        self._place = ("--state", str(self.state), "--kubepods", bed.kubepods)
        here = ("--standalone", f"{folder}/node", "--listen", "127.0.0.1:0")
        self.process = self._start("agent", *here, *arguments)

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "slackwater", *arguments, *self._place],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def get(self, path: str) -> str:
        """From its endpoint."""
        address = (self.state / "endpoint").read_text().strip()
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def end(self, number: int) -> list[dict[str, Any]]:
        self.process.send_signal(number)
        return self.lines()

    def lines(self) -> list[dict[str, Any]]:
        output, errors = self.process.communicate(timeout=60)
        assert "Traceback" not in errors
        return [json.loads(line) for line in output.splitlines()]

    def release(self) -> tuple[int, list[dict[str, Any]]]:
        self.process = self._start("release")
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
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = quota(bed, path)
        if found is not None and low <= found <= high:
            return
        time.sleep(0.2)
    raise AssertionError(f"the quota of {path} is {quota(bed, path)}, not in {low}..{high}")


@contextlib.contextmanager
def read_only(file: str) -> Iterator[None]:
    """Whoever writes this file is told EROFS, root too."""
    subprocess.run(["mount", "--bind", file, file], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", file], check=True)
        yield
    finally:
        subprocess.run(["umount", file], check=True)
