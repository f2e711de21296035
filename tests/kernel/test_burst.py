"""A real bursty process: at the same quota and the same mean it is throttled less with burst."""

import os
import time
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion, Controller
from tests.kernel.bed import Bed
from tests.kernel.hand import throttled
from tests.kernel.in_process import BURST, Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER, UID, pod_path

pytestmark = pytest.mark.cgroupfs

#: 40 ms in each period of 100 ms; the work below needs 75 ms in every third one.
QUOTA = 40_000
BUSY, EVERY = 0.075, 0.300
SECONDS = 4.5
ROUNDS = int(SECONDS / EVERY)


def bursty(bed: Bed, path: str) -> int:
    """Works 75 ms of CPU time at each start of 300 ms, and sleeps until the next."""
    pid = os.fork()
    if pid:
        bed._pids.append(pid)
        return pid
    try:
        for controller in Controller:
            bed.write(path, "cgroup.procs", "0", controller)
        due = time.monotonic()
        while True:
            done = time.thread_time() + BUSY
            while time.thread_time() < done:
                pass
            due += EVERY
            time.sleep(max(due - time.monotonic(), 0))
    finally:
        os._exit(1)


def spells(bed: Bed, *paths: str) -> int:
    """Throttled periods, of whichever quota was met first."""
    return sum(throttled(bed, path) for path in paths)


def bursts(bed: Bed, path: str) -> int:
    words = bed.read(path, "cpu.stat").split()
    return int(words[words.index("nr_bursts") + 1])


def test_a_bursty_process_is_throttled_less(bed: Bed, tmp_path: Path) -> None:
    pod = pod_path(bed, 1, "/besteffort")
    inner = bed.make(f"{pod}/{CONTAINER.format(100)}")
    for path in (pod, inner):
        if bed.version is CgroupVersion.V1:
            bed.write(path, "cpu.cfs_quota_us", str(QUOTA))
        else:
            bed.write(path, "cpu.max", f"{QUOTA} 100000")
    agent = InProcess(bed.mounts, bed.kubepods, tmp_path)
    agent.settings(quotaBurst={})
    box = Box(CONTAINER.format(100), {}, {"cpu": "400m"})
    held_back = {}
    try:
        bursty(bed, inner)
        for said in ("false", "true"):
            agent.put("pod", pod_object(UID.format(1), [box], {BURST: said}))
            agent.settle()
            before, used, start = spells(bed, pod, inner), bed.usage(inner), time.monotonic()
            time.sleep(SECONDS)
            held_back[said] = spells(bed, pod, inner) - before
            mean = (bed.usage(inner) - used) / (time.monotonic() - start) / 1e6
            assert mean * 100_000 < QUOTA  # the same mean, below the quota
    finally:
        agent.close()
    # Without burst each busy spell of 75 ms meets the quota of 40 ms; with it, one that was
    # quiet for a period has saved enough. A busy machine spreads some, and spoils a few.
    assert held_back["false"] >= ROUNDS // 2, held_back
    assert held_back["true"] <= held_back["false"] // 2, held_back
    assert bursts(bed, inner) > 0
