"""An agent in whose container only the kubelet's own tree can be written (the chart's
agent.paths.writable): it needs no more."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.kernel.bed import ROOT, Bed
from tests.kernel.running import ALLOWED, Launch, Running, quota, wait_for

pytestmark = [pytest.mark.cgroupfs, pytest.mark.native]

#: $1 is where the agent finds all cgroups; then the folders that it may write, --, and its command.
#: As a runtime does it: everything read-only, on cgroup v1 a mount for each controller, and the
#: writable folders mounted on top.
_SCRIPT = f"""
root=$1; shift
mount --rbind {ROOT} "$root"
for each in "$root"/*/ "$root"; do
  if mountpoint -q "$each"; then mount -o remount,bind,ro "$each"; fi
done
while [ "$1" != -- ]; do mount --bind "{ROOT}/$1" "$root/$1"; shift; done
shift
exec "$@"
"""


def writable(bed: Bed) -> list[str]:
    """As values.yaml says it, with the bed's name for the tree."""
    if bed.version is CgroupVersion.V2:
        return [bed.kubepods]
    return [f"{controller}/{bed.kubepods}" for controller in ("cpu", "cpuset", "memory")]


def narrowly(bed: Bed, root: Path) -> Launch:
    def launch(*arguments: str) -> subprocess.Popen[str]:
        private = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", _SCRIPT, "sh")
        command = (sys.executable, "-m", "slackwater", *arguments, "--cgroup-root", str(root))
        return subprocess.Popen(
            [*private, str(root), *writable(bed), "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
        )  # fmt: skip

    return launch


def test_the_kubelets_tree_is_all_that_it_writes(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running], tmp_path: Path
) -> None:
    best_effort, _ = tiers
    root = tmp_path / "cgroups"
    root.mkdir()
    running = start("--on-exit", "release", launch=narrowly(bed, root))
    wait_for(bed, best_effort, 10, ALLOWED)
    above = f"cpu/{bed.top}" if bed.version is CgroupVersion.V1 else bed.top
    inside = ("nsenter", "--mount", "--target", str(running.process.pid))
    for folder, allowed in ((above, False), (writable(bed)[0], True)):
        made = subprocess.run(
            [*inside, "mkdir", f"{root}/{folder}/tried"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (made.returncode == 0) == allowed, made.stderr
        assert ("Read-only file system" in made.stderr) != allowed
        if allowed:
            subprocess.run([*inside, "rmdir", f"{root}/{folder}/tried"], check=True)
    lines = running.end(signal.SIGTERM)
    assert running.process.returncode == 0
    assert [line for line in lines if line.get("result") in ("refused", "unsupported")] == []
    assert quota(bed, best_effort) is None
