"""What a look at the tree costs, in system calls: counted by strace, not timed."""

import shutil
import subprocess
import sys

import pytest

from tests.kernel.bed import Bed
from tests.kernel.pods import make_pod, pod_path

COUNTED = """
import os, sys
from slackwater.model.cgroup import CgroupMounts, CgroupVersion, Controller, Mount
from slackwater.observation.cgroup_tree import CgroupTree

version, directory, kubepods, new = CgroupVersion(sys.argv[1]), *sys.argv[2:]
tree = CgroupTree(CgroupMounts({Controller.CPU: Mount(version, directory)}), kubepods)
tree.scan()
def step(name, work):
    os.access(f"/mark-{name}", 0)
    work()
step("scan", tree.scan)
step("still", tree.refresh)
step("making", lambda: [os.mkdir(f"{directory}/{new}"), os.mkdir(f"{directory}/{new}/" + "f" * 64)])
step("new", tree.refresh)
step("end", lambda: None)
"""


def count_calls(bed: Bed, new: int) -> dict[str, dict[str, int]]:
    """System calls of a whole scan, of a refresh without a change and of one with a new pod."""
    trace = subprocess.run(
        [
            *("strace", "-f", "-s", "200", "-o", "/dev/stdout", sys.executable, "-c", COUNTED),
            *(bed.version.value, bed.directory("").rstrip("/"), bed.kubepods, pod_path(bed, new)),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
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
def test_a_new_pod_costs_no_rescan(bed: Bed) -> None:
    """Counted, not timed: the listings of a refresh do not grow with the tree."""
    counted: dict[int, dict[str, dict[str, int]]] = {}
    for first, size in ((0, 10), (10, 100)):
        for number in range(first, size):
            make_pod(bed, number, containers=1)
        counted[size] = count_calls(bed, new=1000 + size)
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
