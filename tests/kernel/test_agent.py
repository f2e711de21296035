"""The agent's loop on real cgroups: best-effort work gets what others leave, and all comes back."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.kernel.bed import Bed
from tests.kernel.hand import until
from tests.kernel.launching import launch_fresh
from tests.kernel.running import (
    ALLOWED,
    PATIENCE,
    PERIOD,
    SETTINGS,
    TICKS,
    Running,
    is_listening,
    quota,
    read_only,
    wait_for,
)

#: Whole processes are slow in an emulated machine, and none of this depends on systemd.
pytestmark = pytest.mark.cgroupfs


def test_best_effort_work_gets_what_others_leave(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    best_effort, burstable = tiers
    bed.burn(best_effort, 2)
    # Not too often: on an emulated CPU looking is work, which the loops would have to share with.
    running = start("--on-exit", "release", "--period", "500ms")
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

    def still_held(far_enough: Callable[[], bool]) -> bool:
        assert quota(bed, best_effort) is not None  # never let loose, not for one round
        return far_enough()

    until(lambda: still_held(lambda: is_listening(again.state)), PATIENCE)
    until(lambda: still_held(lambda: again.metric(TICKS) >= 4), PATIENCE)
    lines = again.end(signal.SIGTERM)
    assert lines[0]["what"] == "kubelet's tree"
    assert lines[1]["because"].startswith("adopted: ")
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
    until(lambda: running.metric("slackwater_configuration_problems") == 1, PATIENCE)
    running.await_ticks(2)
    assert quota(bed, best_effort) is not None
    lines = running.end(signal.SIGTERM)
    told = [line["because"] for line in lines if line["what"] == "folder"]
    assert any("threshold is 400" in text and "stays" in text for text in told), told
    again = start()
    output, errors = again.process.communicate(timeout=300)
    assert again.process.returncode == 2
    assert output == "", "it is told before the machine is looked at"
    assert "threshold is 400" in errors
    assert errors.count("\n") == 1
    assert again.release()[0] == 0


def test_once_looks_twice_and_decides(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    """In an interpreter of its own, whatever machine this is."""
    running = start("--once", launch=launch_fresh)
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
    _, errors = second.process.communicate(timeout=300)
    assert second.process.returncode == 1
    assert f"process {first.process.pid} holds the ledger" in errors
    first.end(signal.SIGTERM)
    assert first.release()[0] == 0
    assert os.path.exists(first.state / "ledger.lock")


def test_alone_best_effort_work_gets_its_budget_steadily(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    """Volcano's agent gave 0.25 of 1.6 cores here: it counts best-effort work as used."""
    best_effort, _ = tiers
    bed.burn(best_effort, 2)
    running = start("--best-effort-share-recover", "1000")
    wait_for(bed, best_effort, 200, ALLOWED)
    running.await_ticks(4)
    granted, used, began = [], bed.usage(best_effort), time.monotonic()
    while time.monotonic() - began < 5:
        granted.append(quota(bed, best_effort) or 0)
        time.sleep(PERIOD / 2)
    got = (bed.usage(best_effort) - used) / (time.monotonic() - began) / 1000
    # The rest of the machine is not ours to quiet: what it uses is taken off the budget.
    assert got >= 0.95 * min(granted)
    assert min(granted) > 0
    running.end(signal.SIGTERM)
    assert running.release()[0] == 0


def test_once_says_by_its_exit_code_that_a_value_could_not_be_set(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    name = "cpu.cfs_quota_us" if bed.version is CgroupVersion.V1 else "cpu.max"
    with read_only(f"{bed.directory(tiers[0])}/{name}"):
        running = start("--once")
        running.lines()
    assert running.process.returncode == 1
    assert running.release() == (0, [])


def test_a_closed_terminal_ends_it_as_asked(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    running = start("--on-exit", "release")
    wait_for(bed, tiers[0], 10, ALLOWED)
    running.end(signal.SIGHUP)
    assert running.process.returncode == 0
    assert quota(bed, tiers[0]) is None


def test_a_dry_run_writes_nothing_and_needs_no_state(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    running = start("--once", "--dry-run")
    effects = [line for line in running.lines() if line["what"].startswith("quota of ")]
    assert [line["result"] for line in effects] == ["planned"]
    assert quota(bed, tiers[0]) is None
    assert not running.state.exists()


def test_where_the_tier_cannot_be_written_its_pods_carry_the_quota(
    bed: Bed, start: Callable[..., Running]
) -> None:
    """A read-only mount over the tier's own file, as some hardened nodes have it."""
    best_effort = f"{bed.kubepods}/besteffort"
    bed.make(f"{bed.kubepods}/burstable")
    pods = [bed.make(f"{best_effort}/pod{uid * 8}-0000-0000-0000-000000000000") for uid in "ab"]
    name = "cpu.cfs_quota_us" if bed.version is CgroupVersion.V1 else "cpu.max"
    with read_only(f"{bed.directory(best_effort)}/{name}"):
        running = start()
        for pod in pods:
            wait_for(bed, pod, 10, ALLOWED)
        assert quota(bed, best_effort) is None
        lines = running.end(signal.SIGTERM)
    off = [line for line in lines if line.get("result", "").startswith("unsupported")]
    assert len(off) == 1
    assert running.release()[0] == 0
    assert [quota(bed, pod) for pod in pods] == [None, None]
