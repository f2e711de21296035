"""A real bursty process: at the same quota and the same mean it is throttled less with burst."""

import os
import time
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupVersion
from tests.kernel.bed import Bed
from tests.kernel.hand import despite_neighbours, throttled
from tests.kernel.in_process import BURST, Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER, UID, pod_path

pytestmark = pytest.mark.cgroupfs

#: 40 ms in each period of 100 ms; the work below needs 75 ms in every third one.
QUOTA = 40_000
BUSY, EVERY = 0.075, 0.300
SECONDS = 3.0
ROUNDS = int(SECONDS / EVERY)


def bursty(bed: Bed, path: str, delay: float) -> int:
    """Works 75 ms of CPU time at each start of 300 ms, and sleeps until the next."""
    pid = os.fork()
    if pid:
        bed._pids.append(pid)
        return pid
    try:
        for controller in CgroupController:
            bed.write(path, "cgroup.procs", "0", controller)
        time.sleep(delay)
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


def make_limited(bed: Bed, number: int) -> tuple[str, str]:
    """A pod and its one container, each with the quota."""
    pod = pod_path(bed, number, "/besteffort")
    inner = bed.make(f"{pod}/{CONTAINER.format(number)}")
    for path in (pod, inner):
        if bed.version is CgroupVersion.V1:
            bed.write(path, "cpu.cfs_quota_us", str(QUOTA))
        else:
            bed.write(path, "cpu.max", f"{QUOTA} 100000")
    return pod, inner


def test_a_bursty_process_is_throttled_less(bed: Bed, tmp_path: Path) -> None:
    """Two of them side by side; one may burst."""
    pods = {"false": make_limited(bed, 1), "true": make_limited(bed, 2)}
    agent = InProcess(bed.mounts, bed.kubepods, tmp_path)
    agent.settings(quotaBurst={})
    documents = [
        pod_object(
            UID.format(number),
            [Box(CONTAINER.format(number), {}, {"cpu": "400m"})],
            {BURST: said},
            name=f"job-{said}",
        )
        for number, said in enumerate(pods, 1)
    ]
    try:
        agent.put("pods", *documents)
        agent.settle()
    finally:
        agent.close()
    bed.go_first()
    for (_, inner), delay in zip(pods.values(), (0, EVERY / 2), strict=True):
        bursty(bed, inner, delay)  # so that one CPU is enough for both

    def judge() -> None:
        before = {said: spells(bed, *pod) for said, pod in pods.items()}
        means = bed.cores_of([inner for _, inner in pods.values()], SECONDS)
        held_back = {said: spells(bed, *pod) - before[said] for said, pod in pods.items()}
        assert all(mean * 100_000 < QUOTA for mean in means)  # the same mean, below the quota
        # Without burst each busy spell of 75 ms meets the quota of 40 ms; with it, one that was
        # quiet for a period has saved enough. A busy machine spreads some, and spoils a few.
        assert held_back["false"] >= ROUNDS // 2, held_back
        assert held_back["true"] <= held_back["false"] // 2, held_back

    despite_neighbours(judge)
    assert bursts(bed, pods["true"][1]) > 0
    assert bursts(bed, pods["false"][1]) == 0
