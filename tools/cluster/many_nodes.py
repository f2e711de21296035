"""Many nodes that only seem to be: kwok keeps their leases and runs their pods on paper.

Owns the kwok process of one control plane and the nodes that it made.
"""

from pathlib import Path
from typing import Any

from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import LOOPBACK, Processes, free_ports, wait_for

#: kwok plays exactly the nodes with this annotation.
PLAYED = {"kwok.x-k8s.io/node": "fake"}
_KWOK = "kwok"
#: Objects in one call of kubectl.
_BATCH = 250
#: A thousand nodes on a busy machine.
_READY_SECONDS = 180.0
#: A line for each node: its name, and whether it is Ready.
_NAMES_READY = (
    'jsonpath={range .items[*]}{.metadata.name}{" "}'
    '{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
)


def played_node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": PLAYED,
            "labels": {"type": "kwok", "kubernetes.io/hostname": name},
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def kwok_arguments(kubeconfig: Path, port: int) -> list[str]:
    selector = ",".join(f"{name}={value}" for name, value in PLAYED.items())
    return [
        f"--kubeconfig={kubeconfig}",
        f"--manage-nodes-with-annotation-selector={selector}",
        "--node-lease-duration-seconds=40",
        f"--server-address={LOOPBACK}:{port}",
        "--node-ip=10.1.0.1",
        "--v=WARN",
    ]


class ManyNodes:
    """Guards kwok and its nodes `kwok-0` and so on."""

    def __init__(self, control_plane: ControlPlane, kwok: Path) -> None:
        self._control_plane = control_plane
        self._kwok = kwok
        self.processes = Processes(control_plane.folder / "logs")
        self.names: list[str] = []

    def open(self, count: int) -> None:
        """Returns when all of them are Ready."""
        kubeconfig = self._control_plane.kubeconfig(_KWOK)
        [port] = free_ports(1)
        self.processes.start(_KWOK, [str(self._kwok), *kwok_arguments(kubeconfig, port)])
        self.add(count)

    def add(self, count: int) -> None:
        begin = len(self.names)
        self.names += [f"kwok-{number}" for number in range(begin, begin + count)]
        for first in range(begin, begin + count, _BATCH):
            batch = self.names[first : first + _BATCH]
            self._control_plane.create(*map(played_node, batch))
        wait_for(f"{count} played nodes", self._are_ready, _READY_SECONDS)

    def close(self) -> None:
        self.processes.kill_all()

    def _are_ready(self) -> bool:
        said = self._control_plane.kubectl("get", "nodes", "-l", "type=kwok", "-o", _NAMES_READY)
        ready = {line.split()[0] for line in said.splitlines() if line.endswith(" True")}
        return ready >= set(self.names)
