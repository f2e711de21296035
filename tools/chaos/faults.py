"""Strikes the programs of a cluster with a real node, and mends what it struck.

The agent and the manager are found by their command lines among the processes of the node's own
cgroups, so that it works while API server, kubelet and containerd are away, and never touches a
process of anybody else.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tools.chaos.schedule import Blow, Fault, Target
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import Node
from tools.cluster.processes import wait_for

#: As a pod's container starts them.
_PROGRAM = "slackwater"
_INSIDE = (Target.KUBELET, Target.CONTAINERD)
_SIGNALS = {
    Fault.KILL: signal.SIGKILL,
    Fault.PAUSE: signal.SIGSTOP,
    Fault.RESTART: signal.SIGTERM,
}


class Faults:
    """Guards what is struck now."""

    def __init__(self, plane: ControlPlane, node: Node) -> None:
        self._plane = plane
        self._node = node
        self._mends: list[Callable[[], None]] = []

    def strike(self, blow: Blow) -> None:
        if blow.target is Target.API_SERVER:
            self._strike_api_server(blow.fault)
        elif blow.target in _INSIDE:
            self._strike_inside(blow)
        else:
            self._strike_pod(blow)

    def mend(self) -> None:
        """In the order of the blows; returns when what was struck answers again, but for pods: the
        kubelet takes its time."""
        while self._mends:
            self._mends.pop(0)()

    def _strike_api_server(self, fault: Fault) -> None:
        name = Target.API_SERVER.value
        if fault is Fault.PAUSE:
            self._plane.pause(name)
            self._mends.append(self._resume_api_server)
            return
        if fault is Fault.KILL:
            self._plane.kill(name)
        else:
            self._plane.stop(name)
        self._mends.append(lambda: self._plane.start(name))

    def _resume_api_server(self) -> None:
        name = Target.API_SERVER.value
        self._plane.resume(name)
        wait_for(f"{name} to be ready", lambda: self._plane.ready(name))

    def _strike_inside(self, blow: Blow) -> None:
        name = blow.target.value
        if blow.fault is Fault.PAUSE:
            self._node.send(name, signal.SIGSTOP)
            self._mends.append(lambda: self._resume_inside(name))
            return
        self._node.end_program(name, _SIGNALS[blow.fault])
        kubelet = blow.target is Target.KUBELET
        self._mends.append(self._start_kubelet if kubelet else self._node.start_containerd)

    def _resume_inside(self, name: str) -> None:
        self._node.send(name, signal.SIGCONT)
        if name == Target.KUBELET.value:
            wait_for("the kubelet", self._node.is_healthy)

    def _start_kubelet(self) -> None:
        self._node.start_kubelet()
        wait_for("the kubelet", self._node.is_healthy)

    def _strike_pod(self, blow: Blow) -> None:
        """One that is away already, as after another blow, is left to the kubelet."""
        for pid in programs_in(self._node.cgroup("cpu", "kubepods"), blow.target.value):
            self._signal(pid, _SIGNALS[blow.fault])
            if blow.fault is Fault.PAUSE:
                self._mends.append(lambda pid=pid: self._signal(pid, signal.SIGCONT))  # type: ignore[misc]

    @staticmethod
    def _signal(pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def programs_in(top: Path, command: str, proc: Path = Path("/proc")) -> Iterator[int]:
    """Those that run `slackwater COMMAND` in the cgroups below this one."""
    for file in sorted(top.rglob("cgroup.procs")):
        with suppress(OSError):  # the group, or the process, is gone
            for pid in file.read_text().split():
                if runs(proc / pid, command):
                    yield int(pid)


def runs(process: Path, command: str) -> bool:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    named = [place for place, word in enumerate(words) if Path(word).name == _PROGRAM]
    return any(words[place + 1 : place + 2] == [command] for place in named)
