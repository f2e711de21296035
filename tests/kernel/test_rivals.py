"""Other writers: repaired within two ticks, and yielded to who fights. No write war."""

import json
import signal
import time
from collections.abc import Callable

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.kernel.bed import Bed
from tests.kernel.hand import until
from tests.kernel.machine import IS_MACHINE
from tests.kernel.running import ALLOWED, PATIENCE, PERIOD, Running, quota, wait_for

pytestmark = pytest.mark.cgroupfs

#: And what a slow machine adds.
TWO_TICKS = 2 * PERIOD + 2.0
#: The shortest that the agent knows.
FIGHT = 1.0


def set_free(bed: Bed, path: str) -> None:
    """As the kubelet or systemd does it: back to no limit."""
    if bed.version is CgroupVersion.V1:
        bed.write(path, "cpu.cfs_quota_us", "-1")
    else:
        bed.write(path, "cpu.max", "max")


def seconds_to_repair(bed: Bed, path: str, patience: float) -> float | None:
    """None: it was not repaired."""
    start = time.monotonic()
    while time.monotonic() - start < patience:
        if quota(bed, path) is not None:
            return time.monotonic() - start
        time.sleep(0.02)
    return None


def test_a_write_now_and_then_is_repaired_each_time(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    best_effort, _ = tiers
    # With this jitter it writes only to repair: a write of its own could hide one of ours.
    still = ("--best-effort-share-jitter", "1000")
    running = start("--fight-within", f"{FIGHT:.0f}s", "--yield-after", "2", *still)
    wait_for(bed, best_effort, 10, ALLOWED)
    for _ in range(3):
        time.sleep(FIGHT + 2 * PERIOD)  # further apart than a fight
        set_free(bed, best_effort)
        took = seconds_to_repair(bed, best_effort, PATIENCE)
        assert took is not None
        assert took < TWO_TICKS or not IS_MACHINE  # whose clock no neighbour disturbs
    lines = running.end(signal.SIGTERM)
    repairs = [line for line in lines if "written again" in line.get("because", "")]
    assert len(repairs) == 3
    assert running.release()[0] == 0


def test_who_fights_every_second_is_yielded_to_and_it_is_said(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    best_effort, _ = tiers
    running = start("--yield-after", "3", "--yield-for", "10s")
    wait_for(bed, best_effort, 10, ALLOWED)
    for _ in range(2):  # a fight: each repair is undone at once
        set_free(bed, best_effort)
        assert seconds_to_repair(bed, best_effort, PATIENCE) is not None
    set_free(bed, best_effort)
    until(lambda: running.metric("slackwater_knobs_yielded") == 1, PATIENCE)
    assert quota(bed, best_effort) is None  # the third time is the truce
    assert running.metric('slackwater_knob_yields_total{knob="quota",level="tier"}') == 1
    [row] = [each for each in json.loads(running.get("/v1/explain")) if each["knob"] == "quota"]
    assert row["yieldedUntil"]
    # After the truce it tries again; by then the other side has rested, and it stays.
    wait_for(bed, best_effort, 10, ALLOWED)
    lines = running.end(signal.SIGTERM)
    yields = [line for line in lines if line.get("because", "").startswith("yielded for 10 s")]
    assert len(yields) == 1
    assert running.release()[0] == 0
    assert quota(bed, best_effort) is None
