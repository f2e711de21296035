"""How often a real kubelet writes its Node's status, without amplified amounts and with them.

`.venv/bin/python benchmarks/kubelet_writes.py [--minutes N] [--frequency DURATION]`. A real control
plane, a node with containerd and a kubelet on this machine's cgroups, and a manager that serves the
webhook. First so many minutes as the node is, then as many with its CPUs amplified; counted are
updates and patches of nodes/status in the API server's audit log, by who made them. The kubelet has
its own defaults, but for `nodeStatusUpdateFrequency` where a frequency is given. Needs root. Exit
code 0: measured; 1: could not measure.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from slackwater.cli.cluster_options import NAMESPACE
from tests.cluster.managers import crew, received_at
from tests.cluster.webhook_bed import configure, install_webhook, start_manager
from tools.cluster import CONTROL_PLANE_PROGRAMS, NODE_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import Node
from tools.cluster.processes import ClusterError, find_programs, free_ports, wait_for

#: In seconds. What a start or a change of the ratio causes has ended by then.
SETTLING = 45.0
_FREQUENCY = "nodeStatusUpdateFrequency"
_RATIO = 1.5


class PhaseWrites(msgspec.Struct, frozen=True):
    """Writes of the Node's status within so many seconds, by user."""

    seconds: float
    by_user: dict[str, int]

    def a_minute(self, user: str) -> float:
        return self.by_user.get(user, 0) * 60 / self.seconds


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.5, help="of each of the two phases")
    parser.add_argument("--frequency", default="", help=f"the kubelet's {_FREQUENCY}, such as 1m")
    chosen = parser.parse_args(arguments)
    try:
        programs = find_programs((*CONTROL_PLANE_PROGRAMS, *NODE_PROGRAMS), os.environ)
        with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
            plain, amplified, user = _measure(Path(folder), programs, chosen)
    except ClusterError as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 1
    frequency = chosen.frequency or "the kubelet's default"
    print(f"{_FREQUENCY}: {frequency}; {chosen.minutes:g} minutes each")
    for title, found in (("as it is", plain), (f"amplified by {_RATIO}", amplified)):
        others = {name: count for name, count in found.by_user.items() if name != user}
        print(
            f"  {title:18} {found.a_minute(user):6.2f} writes of the kubelet a minute "
            f"({found.by_user.get(user, 0)} in {found.seconds:.0f} s); others: {others or 'none'}"
        )
    return 0


def _measure(
    folder: Path, programs: dict[str, Path], chosen: argparse.Namespace
) -> tuple[PhaseWrites, PhaseWrites, str]:
    plane = ControlPlane(folder, programs)
    node = Node(plane, programs)
    try:
        plane.open()
        node.open()
        _set_frequency(node, chosen.frequency)
        [port] = free_ports(1)
        rights = install_webhook(plane, port)
        configure(plane, '{"enable": false}')
        with crew(rights, NAMESPACE, folder) as replicas:
            start_manager(replicas, port)
            plain = _count(plane, node, chosen.minutes)
            before = _cpu(plane, node)
            stated = {"enable": True, "resourceAmplificationRatio": {"cpu": _RATIO}}
            configure(plane, json.dumps(stated))
            wait_for("the amplified CPUs", lambda: _cpu(plane, node) != before)
            amplified = _count(plane, node, chosen.minutes)
    finally:
        node.close()
        plane.close()
    return plain, amplified, f"system:node:{node.name}"


def _set_frequency(node: Node, frequency: str) -> None:
    """Tests have a kubelet that looks more often."""
    file = node.folder / "kubelet" / "config.yaml"
    config = json.loads(file.read_text())
    del config[_FREQUENCY]
    file.write_text(json.dumps(config | ({_FREQUENCY: frequency} if frequency else {})))
    node.restart_kubelet()
    node.await_ready()


def _count(plane: ControlPlane, node: Node, minutes: float) -> PhaseWrites:
    time.sleep(SETTLING)
    began = time.time()
    time.sleep(minutes * 60)
    ended = time.time()
    writes = (
        line["user"].get("username", "")
        for line in plane.audit()
        if line["verb"] in ("patch", "update")
        and line["objectRef"]["resource"] == "nodes"
        and line["objectRef"].get("subresource") == "status"
        and line["objectRef"]["name"] == node.name
        and began <= received_at(line) < ended
    )
    return PhaseWrites(ended - began, dict(Counter(writes)))


def _cpu(plane: ControlPlane, node: Node) -> str:
    return str(plane.get("node", node.name)["status"]["allocatable"]["cpu"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
