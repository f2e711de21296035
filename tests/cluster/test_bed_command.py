"""python -m tools.cluster as a person types it, and what is left when it is killed: nothing."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.cluster.places import cgroup_root, hierarchies, owner
from tools.cluster.processes import find_programs, wait_for
from tools.kubernetes.programs import variable_of
from tools.provision import ROOT

#: A cluster on a busy machine.
PATIENCE_SECONDS = 300
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(programs: dict[str, Path], tmp_path: Path) -> Iterator[Command]:
    """With a cache of its own, in which a cluster `a` may run until the end of the test."""
    every = {**programs, **find_programs(["kubelet"], os.environ)}
    named = {variable_of(name): str(path) for name, path in every.items()}
    environ = {**os.environ, **named, "SLACKWATER_CACHE": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tools.cluster", *arguments],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    yield run
    if owner(tmp_path / "clusters/a") is not None:
        run("down", "--name", "a")


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the cluster's folder, of whatever runs on this machine."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"{folder}/" in line:
            found.append(line)
    return found


def test_up_status_down(command: Command, programs: dict[str, Path], tmp_path: Path) -> None:
    up = command("up", "--name", "a")
    assert up.returncode == 0, up.stderr
    kubeconfig = Path(up.stdout.strip())
    assert kubeconfig.stat().st_mode & 0o077 == 0
    asked = [str(programs["kubectl"]), f"--kubeconfig={kubeconfig}", "get", "namespaces"]
    assert "kube-system" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert command("status").stdout.split()[0] == "a"
    again = command("up", "--name", "a")
    assert again.returncode == 1
    assert again.stderr.startswith("cluster: cluster a runs already; ")
    assert command("down", "--name", "a").returncode == 0
    assert command("status").stdout == "no cluster runs\n"
    assert not (tmp_path / "clusters/a").exists()
    assert processes_of(tmp_path / "clusters/a") == []


@pytest.mark.node
def test_a_killed_cluster_leaves_nothing_for_the_next(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "clusters/a"
    up = command("up", "--name", "a", "--node")
    assert up.returncode == 0, up.stderr
    roots = [Path(mount.point, cgroup_root(folder)) for mount in hierarchies()]
    assert all(root.is_dir() for root in roots)
    assert len(processes_of(folder)) >= 6
    pid = owner(folder)
    assert pid is not None
    os.kill(pid, 9)
    wait_for("all its processes to end", lambda: processes_of(folder) == [])
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert command("up", "--name", "a").returncode == 0
    assert [root for root in roots if root.exists()] == []
