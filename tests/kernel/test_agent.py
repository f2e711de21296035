"""The agent's loop on real cgroups: best-effort work gets what others leave, and all comes back."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.kernel.bed import Bed

#: Whole processes are slow in an emulated machine, and none of this depends on systemd.
pytestmark = pytest.mark.cgroupfs

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
        self.process = self._start("agent", "--standalone", f"{folder}/node", *arguments)

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "slackwater", *arguments, *self._place],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

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


@pytest.fixture
def start(bed: Bed, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Agents of this test, ended with it."""
    started: list[Running] = []

    def run(*arguments: str) -> Running:
        started.append(Running(bed, tmp_path, *arguments))
        return started[-1]

    yield run
    for running in started:
        with contextlib.suppress(ValueError):  # it was read to its end
            running.process.kill()
            running.process.communicate()


@pytest.fixture
def tiers(bed: Bed) -> tuple[str, str]:
    """A best-effort tier that wants everything, and a burstable one beside it."""
    best_effort = bed.make(f"{bed.kubepods}/besteffort")
    burstable = bed.make(f"{bed.kubepods}/burstable")
    bed.burn(best_effort, 2)
    return best_effort, burstable


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


def test_best_effort_work_gets_what_others_leave(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    best_effort, burstable = tiers
    running = start("--on-exit", "release")
    # Nothing but best effort: all that is allowed, less what the rest of the machine does.
    wait_for(bed, best_effort, 200, ALLOWED)
    loops = bed.burn(burstable, 2)
    wait_for(bed, best_effort, 10, 60)  # two CPUs are more than what is allowed
    bed.stop(loops)
    wait_for(bed, best_effort, 70, ALLOWED)  # and it recovers, step by step
    lines = running.end(signal.SIGTERM)
    assert running.process.returncode == 0
    assert quota(bed, best_effort) is None
    effects = [line for line in lines if line["what"].startswith("quota of ")]
    assert effects[0]["before"] == "unlimited"
    assert "best_effort_share: used by all but best effort" in effects[0]["because"]
    assert effects[-1]["because"] == "released at exit"


def test_kill_nine_then_another_agent_then_release(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    best_effort, _ = tiers
    running = start()
    wait_for(bed, best_effort, 10, ALLOWED)
    running.end(signal.SIGKILL)
    assert quota(bed, best_effort) is not None
    again = start()
    deadline = time.monotonic() + (8 if bed.version is CgroupVersion.V2 else 3)
    while time.monotonic() < deadline:
        assert quota(bed, best_effort) is not None  # never let loose, not for one round
        time.sleep(0.02)
    lines = again.end(signal.SIGTERM)
    assert lines[0]["because"].startswith("adopted: ")
    assert quota(bed, best_effort) is not None  # kept: a rolling update must not let it loose
    code, released = again.release()
    assert (code, [line["result"] for line in released]) == (0, ["applied"])
    assert quota(bed, best_effort) is None
    assert again.release() == (0, [])


def test_wrong_settings_end_a_start_and_not_a_run(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    best_effort, _ = tiers
    running = start()
    wait_for(bed, best_effort, 10, ALLOWED)
    wrong = SETTINGS.replace("threshold: 90", "threshold: 400")
    running.settings.write_text(wrong)
    time.sleep(3)
    assert quota(bed, best_effort) is not None
    lines = running.end(signal.SIGTERM)
    told = [line["because"] for line in lines if line["what"] == "folder"]
    assert any("threshold is 400" in text and "stays" in text for text in told), told
    again = start()
    output, errors = again.process.communicate(timeout=60)
    assert (again.process.returncode, output) == (2, "")
    assert "threshold is 400" in errors
    assert errors.count("\n") == 1
    assert again.release()[0] == 0


def test_once_looks_twice_and_decides(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    running = start("--once")
    effects = [line for line in running.lines() if line["what"].startswith("quota of ")]
    assert (running.process.returncode, len(effects)) == (0, 1)
    assert quota(bed, tiers[0]) is not None
    assert running.release()[0] == 0


def test_two_agents_never_share_a_ledger(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    first = start()
    wait_for(bed, tiers[0], 10, ALLOWED)
    second = start()
    _, errors = second.process.communicate(timeout=60)
    assert second.process.returncode == 1
    assert f"process {first.process.pid} holds the ledger" in errors
    first.end(signal.SIGTERM)
    assert first.release()[0] == 0
    assert os.path.exists(first.state / "ledger.lock")
