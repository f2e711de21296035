"""What a look at the tree costs, in system calls: counted by strace, not timed."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupMounts
from slackwater.observation.cgroups.tree import CgroupTree
from tests.kernel.bed import Bed
from tests.kernel.hand import until
from tests.kernel.pods import CONTAINER, make_pod, pod_path


def look_four_times(bed: Bed, new: int) -> None:
    """A whole scan, a refresh without a change and one with a new pod, each after its mark."""
    directory = bed.directory(pod_path(bed, new))
    cpu = CgroupMounts({CgroupController.CPU: bed.mounts.by_controller[CgroupController.CPU]})
    tree = CgroupTree(cpu, bed.kubepods)
    tree.scan()

    def step(name: str, work: Callable[[], object]) -> None:
        os.access(f"/mark-{name}", 0)
        work()

    step("scan", tree.scan)
    step("still", tree.refresh)
    step("making", lambda: os.makedirs(f"{directory}/{CONTAINER.format(new)}"))
    step("new", tree.refresh)
    step("end", lambda: None)


def traced(work: Callable[[], None], trace: Path) -> str:
    """In a process of its own, which waits until strace has it."""
    waits, goes = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.read(waits, 1)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    command = ["strace", "-f", "-s", "400", "-o", str(trace), "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as strace:
        until(lambda: tracer_of(pid) == strace.pid, 60, lambda: "strace")
        os.write(goes, b"!")
        _, status = os.waitpid(pid, 0)
    os.close(waits)
    os.close(goes)
    assert status == 0
    return trace.read_text()


def tracer_of(pid: int) -> int:
    words = Path(f"/proc/{pid}/status").read_text().split()
    return int(words[words.index("TracerPid:") + 1])


def count_calls(trace: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    phase: dict[str, int] = {}
    for line in trace.splitlines():
        call = line.split(maxsplit=1)[-1].split("(")[0]
        if '"/mark-' in line:
            phase = counts.setdefault(line.split("/mark-")[1].split('"')[0], {})
        elif call.isidentifier():
            phase[call] = phase.get(call, 0) + 1
    return counts


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_new_pod_costs_no_rescan(bed: Bed, tmp_path: Path) -> None:
    """Counted, not timed: the listings of a refresh do not grow with the tree."""
    counted: dict[int, dict[str, dict[str, int]]] = {}
    for first, size in ((0, 10), (10, 100)):
        for number in range(first, size):
            make_pod(bed, number, containers=1)
        trace = traced(lambda size=size: look_four_times(bed, 1000 + size), tmp_path / "trace")  # type: ignore[misc]
        counted[size] = count_calls(trace)
    for size, phases in counted.items():
        assert "getdents64" not in phases["still"]
        assert "openat" not in phases["still"]
        assert phases["scan"]["openat"] >= size
        # The tier and the new pod, each opened once and read to its end.
        assert phases["new"]["openat"] == 2
        assert phases["new"]["getdents64"] <= 6
    assert counted[10]["new"]["getdents64"] == counted[100]["new"]["getdents64"]
    stats = {size: sum(phases["still"].values()) for size, phases in counted.items()}
    # One stat for the node, each tier and each pod; of many pods a third in turn.
    assert 91 // 4 < stats[100] - stats[10] < 91 // 2
