"""`slackwater explain` and `top` beside a real agent on real cgroups: they say what is there."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.kernel import launching
from tests.kernel.bed import Bed
from tests.kernel.hand import until
from tests.kernel.pods import CONTAINER, UID, make_pod, pod_path
from tests.kernel.running import ALLOWED, PATIENCE, Running, quota, wait_for

pytestmark = pytest.mark.cgroupfs


def ask(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return launching.run(*arguments, "--state", str(state), timeout=300)


def answer(state: Path, *arguments: str) -> Any:
    done = ask(state, *arguments, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture
def running(bed: Bed, tmp_path: Path) -> Any:
    """An agent beside a best-effort pod."""
    make_pod(bed, 1, "/besteffort")
    make_pod(bed, 2, "/burstable")
    made = Running(bed, tmp_path)
    try:
        wait_for(bed, f"{bed.kubepods}/besteffort", 10, ALLOWED)
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def agreeing(bed: Bed, state: Path, look: Callable[[], Any]) -> Any:
    """An answer with the same quota before and after it: the agent may write in between."""
    tier = f"{bed.kubepods}/besteffort"
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        before = quota(bed, tier)
        found = look()
        if before == quota(bed, tier) == shown(found):
            return found
    raise AssertionError(f"{tier} has {quota(bed, tier)}, and it is said: {look()}")


def shown(rows: list[dict[str, Any]]) -> int | None:
    said = rows[0]["now"] or ""
    return int(said[:-1]) if said.endswith("m") else None


def test_what_is_said_is_what_the_kernel_has(bed: Bed, running: Running) -> None:
    rows = agreeing(bed, running.state, lambda: answer(running.state, "explain", "besteffort"))
    [row] = rows
    assert (row["target"], row["level"], row["knob"]) == ("besteffort", "tier", "quota")
    v1 = bed.version is CgroupVersion.V1
    assert row["file"] == ("cpu.cfs_quota_us" if v1 else "cpu.max")
    assert (row["baseline"], row["path"]) == ("unlimited", f"{bed.kubepods}/besteffort")
    numbers = row["numbers"]["best_effort_share"]
    assert (numbers["allowed"], numbers["allocatable"]) == (ALLOWED, 2000)
    assert row["contributions"][0]["because"]["limit"] == f"{ALLOWED}m allowed"
    text = ask(running.state, "explain").stdout
    assert text.startswith("besteffort tier   quota ")
    assert "best_effort_share caps it at" in text


def test_a_pod_without_an_object_is_found_by_its_uid(bed: Bed, running: Running) -> None:
    uid = UID.format(1)
    # Its first tick may know the tiers alone.
    until(lambda: ask(running.state, "explain", uid).returncode == 0, PATIENCE)
    first, tier = answer(running.state, "explain", uid)
    assert (first["target"], first["knob"]) == (uid, None)
    assert first["path"] == f"{bed.kubepods}/besteffort/pod{uid}"
    assert (tier["target"], tier["knob"]) == ("besteffort", "quota")
    done = ask(running.state, "explain", "nobody")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert uid in done.stderr


def test_top_reads_pods_while_somebody_looks(bed: Bed, running: Running) -> None:
    bed.burn(f"{pod_path(bed, 1, '/besteffort')}/{CONTAINER.format(100)}", 2)
    looks: list[dict[str, Any]] = []

    def all_are_known() -> bool:
        looks.append(answer(running.state, "top", "--once"))
        usages = [row["usage"] for row in looks[-1]["pods"]]
        return None not in usages and any(usages)

    until(all_are_known, PATIENCE)
    found = looks[-1]
    pods = {row["name"]: row for row in found["pods"]}
    assert pods[UID.format(1)]["usage"] > 0
    assert (pods[UID.format(1)]["tier"], pods[UID.format(2)]["usage"]) == ("besteffort", 0)
    assert (found["state"], found["node"]["allocatable"]) == ("acting", 2000)
    best_effort = found["tiers"][-1]
    # The tier was read a moment before its pod, over the same interval.
    assert best_effort["usage"] >= 0.9 * pods[UID.format(1)]["usage"] > 0
    assert "besteffort" in ask(running.state, "top").stdout


def test_switched_off_it_says_what_would_switch_it_on(bed: Bed, running: Running) -> None:
    text = running.settings.read_text().replace("enabled: true", "enabled: false")
    running.settings.write_text(text)
    deadline = time.monotonic() + 300
    while quota(bed, f"{bed.kubepods}/besteffort") is not None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    said = ""
    while "is off" not in said:
        assert time.monotonic() < deadline, said
        said = ask(running.state, "explain").stdout
    assert "best_effort_share is off: bestEffortShare.enabled is false" in said


def test_an_agent_that_ended_is_one_sentence(bed: Bed, running: Running) -> None:
    running.end(signal.SIGTERM)
    done = ask(running.state, "explain", "--agent", "/nowhere/agent.sock")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "start one with `slackwater agent" in done.stderr
    assert running.release()[0] == 0
