"""How long a changed model of CPU normalization takes to reach every one of 5,000 nodes.

`.venv/bin/python benchmarks/normalization_manager.py [--nodes N] [--objects-only]`. A real control
plane with nodes that kwok plays, half of them of another CPU model, each with its
NodeResourceTopology. First until every node has its annotations, then the ConfigMap is changed:
from that moment to the last write by the API server's audit log, writes of each node by the same,
memory of the process. No pods run.
With --objects-only nobody plays the nodes: no heartbeats, for a machine that is too busy for kwok.
Exit code 0: measured, also where a goal was missed; 1: could not measure.
"""

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._cluster import measure_many_nodes
from benchmarks._running import CannotMeasureError
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    BASIC_INFO_ANNOTATION,
    RATIO_ANNOTATION,
)
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.resources import NODE_TOPOLOGIES, NODES
from slackwater.kube.client import Client
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.gap import Gap
from slackwater.status.api_objects import read_node
from tests.cluster.managers import ManagerProcess, crew, install_kinds, received_at
from tools.cluster.control_plane import ControlPlane
from tools.cluster.many_nodes import ManyNodes, played_node

MOST_SECONDS, MOST_WRITES, MOST_MEMORY = 60.0, 1, 600.0
FAST, SLOW = "Fast CPU @ 3.00GHz", "Slow CPU @ 2.00GHz"
_NAMESPACE = "slackwater-system"
_USER_AGENT = "slackwater-manager/"
_WRITTEN = re.compile(
    r'slackwater_manager_object_writes_total\{kind="Node",result="applied",verb="annotate"\} (\S+)'
)
_BATCH, _NODES_AT_ONCE, _LOOK = 250, 500, 1.0


class ChangeCost(msgspec.Struct, frozen=True):
    """Seconds until every node had its first annotations, and until all had the changed ones."""

    first: float
    changed: float
    writes: int
    most_writes: int
    wrong: int
    memory: float
    cpu: float


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--objects-only", action="store_true", help="without kwok")
    chosen = parser.parse_args(arguments)
    cost = measure_many_nodes(lambda folder, programs: _measure(folder, programs, chosen))
    if cost is None:
        return 1
    _print(cost, chosen)
    return 0


def _measure(folder: Path, programs: dict[str, Path], chosen: argparse.Namespace) -> ChangeCost:
    count: int = chosen.nodes
    plane = ControlPlane(folder, programs)
    nodes = ManyNodes(plane, programs["kwok"])
    try:
        plane.open()
        install_kinds(plane)
        for namespace in (_NAMESPACE, SloConfigName().namespace):
            plane.kubectl("create", "namespace", namespace)
        if not chosen.objects_only:
            nodes.open(0)
            while len(nodes.names) < count:
                nodes.add(min(_NODES_AT_ONCE, count - len(nodes.names)))
        for first in range(0, count, _BATCH):
            batch = range(first, min(first + _BATCH, count))
            if chosen.objects_only:
                plane.create(*(played_node(f"kwok-{n}") for n in batch))
            plane.create(*(_topology(f"kwok-{n}", FAST if n % 2 else SLOW) for n in batch))
        with crew(plane.kubeconfig(), _NAMESPACE, folder) as replicas:
            return _change(plane, replicas.add(), count)
    finally:
        nodes.close()
        plane.close()


def _change(plane: ControlPlane, manager: ManagerProcess, count: int) -> ChangeCost:
    began = time.time()
    plane.apply(_config_map(1.35, 1.1))
    _wait_for_writes(manager, count)
    first = time.time() - began
    before = _cpu(manager)
    since = time.time()
    plane.apply(_config_map(1.36, 1.12))
    _wait_for_writes(manager, 2 * count)
    lines = [
        line
        for line in plane.audit()
        if line.get("userAgent", "").startswith(_USER_AGENT)
        and line["objectRef"]["resource"] == "nodes"
        and line["verb"] == "patch"
        and received_at(line) >= since
    ]
    written = Counter(line["objectRef"]["name"] for line in lines)
    changed = max(map(received_at, lines)) - since
    wrong = _wrong(plane, {"1.36", "1.12"})
    return ChangeCost(
        first, changed, written.total(), max(written.values()), wrong, manager.memory(),
        _cpu(manager) - before,
    )  # fmt: skip


def _wait_for_writes(manager: ManagerProcess, count: int) -> None:
    while True:
        found = _WRITTEN.search(manager.ask("/metrics")[1])
        if found is not None and float(found[1]) >= count:
            return
        if manager.process.poll() is not None:
            raise CannotMeasureError("the manager has ended")
        time.sleep(_LOOK)


def _wrong(plane: ControlPlane, ratios: set[str]) -> int:
    """Nodes that do not show what they should."""
    access = find_access({}, str(plane.kubeconfig()))
    if isinstance(access, Gap):
        raise CannotMeasureError(access.reason)
    nodes = Client(access, "slackwater-benchmark").list(NODES, read_node).items
    return sum(
        each.annotations.get(RATIO_ANNOTATION) not in ratios
        or each.annotations.get(AMPLIFICATION_ANNOTATION)
        != f'{{"cpu":{each.annotations[RATIO_ANNOTATION]}}}'
        for each in nodes
    )


def _config_map(fast: float, slow: float) -> dict[str, Any]:
    source = SloConfigName()
    model = {FAST: {"baseRatio": fast}, SLOW: {"baseRatio": slow}}
    stated = json.dumps({"enable": True, "ratioModel": model})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": source.name, "namespace": source.namespace},
        "data": {"cpu-normalization-config": stated},
    }


def _topology(name: str, model: str) -> dict[str, Any]:
    annotations = {BASIC_INFO_ANNOTATION: json.dumps({"cpuModel": model})}
    return {
        "apiVersion": NODE_TOPOLOGIES.api_version,
        "kind": NODE_TOPOLOGIES.kind,
        "metadata": {"name": name, "annotations": annotations},
        "topologyPolicies": ["None"],
        "zones": [],
    }


def _cpu(manager: ManagerProcess) -> float:
    """Seconds of CPU of the process, so far."""
    fields = Path(f"/proc/{manager.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print(cost: ChangeCost, chosen: argparse.Namespace) -> None:
    played = "nobody plays them" if chosen.objects_only else "kwok plays them"
    load = os.getloadavg()[1]
    print(f"{chosen.nodes} nodes of two CPU models, {played}; load of this machine {load:.1f}")
    print(f"until all had their first annotations {cost.first:8.1f} s")
    print(f"a changed model on all of them        {cost.changed:8.1f} s   goal <= {MOST_SECONDS:g}")
    print(f"CPU of the manager meanwhile          {cost.cpu:8.1f} s")
    print(f"writes in all                         {cost.writes:8d}")
    print(f"most writes of one node               {cost.most_writes:8d}     goal <= {MOST_WRITES}")
    print(f"nodes with a wrong annotation         {cost.wrong:8d}     goal 0")
    print(f"memory, MiB                           {cost.memory:8.0f}     goal <= {MOST_MEMORY:g}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
