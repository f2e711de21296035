"""One cluster for a person: opened part by part with progress, closed with everything in it.

Owns the order and the words. The folder is its caller's.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from slackwater.cli.install import REPOSITORY
from tools.children import Children
from tools.cluster import CONTROL_PLANE_PROGRAMS, MANY_NODES_PROGRAMS, NODE_PROGRAMS
from tools.cluster.certificates import ADMIN
from tools.cluster.control_plane import ControlPlane, Files
from tools.cluster.many_nodes import ManyNodes
from tools.cluster.node import BUSYBOX_IMAGE, Node, NodeFiles, entering, importing
from tools.cluster.places import NODE, clusters_in, owner, runs_already, swept
from tools.cluster.processes import ClusterError, Processes, find_programs, wait_for
from tools.console import ProgressLine, say
from tools.provision import ROOT

NOT_ROOT = (
    "only root can make a node's namespaces and cgroups; without --node there is a control plane: "
    "python -m tools.cluster run"
)

#: A played node would take it as well.
_ON_NODE = f"""--overrides='{{"spec":{{"nodeName":"{NODE}"}}}}'"""
_TOOLS = ".venv/bin/python -m tools."
#: Best-effort work is held, by files: a node of ours has no systemd, and its root may not have
#: every capability to give away.
ON_THIS_NODE = (
    f"--set image.repository={REPOSITORY},agent.settings.bestEffortShare.enabled=true,"
    "agent.systemd=false,agent.capabilities=null,manager.replicas=1"
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the cluster shall have beside its control plane."""

    name: str
    nodes: int
    played_nodes: int

    @property
    def programs(self) -> tuple[str, ...]:
        wanted = list(CONTROL_PLANE_PROGRAMS)
        wanted += NODE_PROGRAMS if self.nodes else ()
        wanted += MANY_NODES_PROGRAMS if self.played_nodes else ()
        return tuple(wanted)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One that is open, with the processes of all its parts."""

    plane: ControlPlane
    parts: tuple[Processes, ...]

    def ended(self) -> list[str]:
        return [name for processes in self.parts for name in processes.ended()]

    def log(self, name: str) -> Path:
        """Where a program of it writes; all parts have one folder for that."""
        return self.parts[0].log(name)


@contextmanager
def opened(folder: Path, wish: Wish, children: Children) -> Iterator[Cluster]:
    """The whole cluster; whatever was opened is closed, in reverse."""
    if wish.nodes and os.geteuid() != 0:
        raise ClusterError(NOT_ROOT)
    programs = find_programs(wish.programs, os.environ, children)
    with ExitStack() as closing:
        plane = ControlPlane(folder, programs)
        closing.callback(plane.close)
        _aloud("the control plane", plane.open)
        parts = [plane.processes]
        if wish.nodes:
            node = Node(plane, programs)
            closing.callback(node.close)
            _aloud("a real node", node.open)
            parts.append(node.processes)
        if wish.played_nodes:
            many = ManyNodes(plane, programs["kwok"])
            closing.callback(many.close)
            _aloud(f"{wish.played_nodes} played nodes", lambda: many.open(wish.played_nodes))
            parts.append(many.processes)
        yield Cluster(plane, tuple(parts))


def _aloud(what: str, act: Callable[[], None]) -> None:
    with ProgressLine(f"cluster: starting {what}", sys.stderr):
        act()


def advice(plane: ControlPlane, wish: Wish) -> list[str]:
    """What a person may try next, as it can be typed in the project's folder."""
    lines = [
        f"export KUBECONFIG={plane.kubeconfig()}",
        f"alias kubectl={plane.programs['kubectl']} helm={plane.programs['helm']}",
        "",
        "# Look around",
        "kubectl get nodes,pods -A",
        f"less {plane.folder}/logs/*.log",
    ]
    if wish.nodes:
        lines += [
            "",
            "# A pod that takes what it can get, in a real cgroup",
            f"kubectl run hog --image={BUSYBOX_IMAGE} {_ON_NODE} -- sh -c 'while :; do :; done'",
            "",
            "# Slackwater on the node: the image, the chart, and what it says",
            f"{_TOOLS}cluster load --name {wish.name} $({_TOOLS}image build)",
            f"{_TOOLS}cluster load --name {wish.name} $({_TOOLS}image build --target manager)",
            "helm install slackwater charts/slackwater -n slackwater-system --create-namespace \\",
            f"    {ON_THIS_NODE}",
            "kubectl rollout status -n slackwater-system daemonset/slackwater-agent",
            ".venv/bin/slackwater status",
        ]
    return lines


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
