"""One cluster for a person: opened part by part with progress, closed with everything in it.

Owns the order and the words. The folder is its caller's.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.children import Children
from tools.cluster import CONTROL_PLANE_PROGRAMS, MANY_NODES_PROGRAMS, NODE_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.failure import ClusterError
from tools.cluster.many_nodes import ManyNodes
from tools.cluster.node import Node
from tools.cluster.node_files import BUSYBOX_IMAGE
from tools.cluster.places import NODE
from tools.cluster.processes import Processes
from tools.cluster.programs import find_programs
from tools.console import ProgressLine

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
    "--set agent.settings.bestEffortShare.enabled=true,agent.systemd=false,"
    "agent.capabilities=null,manager.replicas=1"
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
            node = Node(plane, programs["kubelet"])
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
            "helm install slackwater charts/slackwater -n slackwater-system --create-namespace \\",
            f"    {ON_THIS_NODE}",
            "kubectl rollout status -n slackwater-system daemonset/slackwater-agent",
            ".venv/bin/slackwater status",
        ]
    return lines
