"""Clusters that go on behind a person's shell: beginning one, ending it, and listing them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.cluster.arguments import Files
from tools.cluster.certificates import ADMIN
from tools.cluster.failure import ClusterError
from tools.cluster.node import entering, importing
from tools.cluster.node_files import NodeFiles
from tools.cluster.places import NODE, clusters_in, owner, runs_already, swept
from tools.cluster.waiting import wait_for
from tools.console import say
from tools.provision import ROOT

_POLL_SECONDS = 0.2
#: A node's containers get their own time to end.
_END_SECONDS = 90.0


def start_behind(folder: Path, options: Sequence[str], ready: str) -> Path:
    """Shows what it says until it is ready; the path of its kubeconfig."""
    if owner(folder) is not None:
        raise ClusterError(runs_already(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(f"{folder.name}.log")
    command = [sys.executable, "-m", "tools.cluster", "run", *options]
    with log.open("wb") as words:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=words, stderr=words,
            start_new_session=True,
        )  # fmt: skip
    with log.open(errors="replace") as news:
        while True:
            ended = process.poll() is not None
            for line in news:
                say(line.rstrip(), sys.stderr)
                if line.startswith(ready):
                    return Files(folder).kubeconfigs / ADMIN
            if ended:
                raise ClusterError(f"cluster {folder.name} did not start")
            time.sleep(_POLL_SECONDS)


def load(folder: Path, archive: Path) -> None:
    """An image for the pods of the cluster's node."""
    living_owner(folder)
    pid = NodeFiles(folder / NODE).pid
    if not pid.exists():
        raise ClusterError(f"cluster {folder.name} has no node; one begins with --node")
    if not archive.is_file():
        raise ClusterError(f"there is no file {archive}")
    command = [*entering(int(pid.read_text())), *importing(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{archive} cannot be imported: {done.stderr.strip()}")


def living_owner(folder: Path) -> int:
    pid = owner(folder)
    if pid is None:
        raise ClusterError(f"no cluster {folder.name} runs")
    return pid


def end(folder: Path) -> None:
    """Waits until nothing of it is left; of one that was killed, it is removed here."""
    if swept(folder):
        say(f"cluster: {folder.name} was killed before; what it had left is removed", sys.stderr)
        return
    os.kill(living_owner(folder), signal.SIGTERM)
    wait_for(f"cluster {folder.name} to end", lambda: owner(folder) is None, _END_SECONDS)


def running_clusters(clusters: Path) -> list[str]:
    found = []
    for folder in clusters_in(clusters):
        pid = owner(folder)
        if pid is not None:
            found.append(f"{folder.name}\tpid {pid}\t{Files(folder).kubeconfigs / ADMIN}")
    return found or ["no cluster runs"]
