"""What the manager costs with a prediction for each of 5,000 nodes, and how often it writes.

`.venv/bin/python benchmarks/manager.py [--nodes N] [--windows N] [--window S]`. A real control
plane with nodes that kwok plays, Crane's own template, and a server in Prometheus' place that
answers at once. First until every node is predicted, then for whole windows in steady state: CPU by
the kernel's account of the process, writes by the API server's audit log. Each node has its own
place in the window, and places are not evenly filled: a part of a window has more or fewer writes
than its share. A write counts for the place of its node that passed last. Windows of 600 s are six
times the rate of the template's. Exit code 0: measured, also where a goal was missed; 1: could not
measure.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._cluster import measure_many_nodes
from benchmarks._running import CannotMeasureError
from slackwater.contract.resources import TIME_SERIES_PREDICTIONS
from slackwater.kube.client import Client
from slackwater.kube.credentials.discovery import find_access
from slackwater.manager.prediction_object import PredictionObject, read_prediction_object
from slackwater.manager.predictor.tasks import PredictionTask, tasks_of
from slackwater.model.gap import Gap
from tests.cluster.managers import ManagerProcess, crew, install_kinds, received_at
from tools.cluster.control_plane import ControlPlane
from tools.cluster.many_nodes import ManyNodes

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "tests" / "cluster" / "manifests" / "prediction-template.yaml"
MOST_WRITES, MOST_CORES, MOST_MEMORY = 1.0, 0.5, 768.0
_NAMESPACE = "slackwater-system"
_USER_AGENT = "slackwater-manager/"
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK = 5.0
#: Seconds after the last place in which its writes come: the predictor looks every few seconds, and
#: the manager writes a bounded number in each round.
_LATE = 30.0


class ManagerCost(msgspec.Struct, frozen=True):
    """`first` until all was predicted, `steady` afterwards: seconds, and seconds of CPU. `writes`
    are those of whole windows, `most_writes` those of one node in one window."""

    first: float
    first_cpu: float
    steady: float
    steady_cpu: float
    writes: int
    most_writes: int
    memory: float


class ObjectWrite(msgspec.Struct, frozen=True):
    """A write of the object of this name, in seconds since 1970."""

    name: str
    at: float


def main(arguments: Sequence[str]) -> int:
    chosen = _parse(arguments)
    cost = measure_many_nodes(lambda folder, programs: _measure(folder, programs, chosen))
    if cost is None:
        return 1
    _print(cost, chosen)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--windows", type=int, default=1, help="of steady state")
    parser.add_argument("--window", type=int, default=600, help="predictionWindowSeconds")
    return parser.parse_args(arguments)


def _measure(folder: Path, programs: dict[str, Path], chosen: argparse.Namespace) -> ManagerCost:
    plane = ControlPlane(folder, programs)
    nodes = ManyNodes(plane, programs["kwok"])
    replay = subprocess.Popen(
        [sys.executable, str(ROOT / "benchmarks" / "_prometheus_replay.py")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert replay.stdout is not None
        endpoint = f"http://127.0.0.1:{replay.stdout.readline().strip()}"
        plane.open()
        install_kinds(plane)
        plane.kubectl("create", "namespace", _NAMESPACE)
        nodes.open(chosen.nodes)
        template = yaml.safe_load(TEMPLATE.read_text())
        text = template["data"]["spec"].replace("3600", str(chosen.window))
        template["data"]["spec"] = text
        plane.apply(template)
        with crew(plane.kubeconfig(), _NAMESPACE, folder) as replicas:
            manager = replicas.add("--prometheus-endpoint", endpoint)
            return _watch(plane, manager, chosen)
    finally:
        nodes.close()
        plane.close()
        replay.kill()


def _watch(plane: ControlPlane, manager: ManagerProcess, chosen: argparse.Namespace) -> ManagerCost:
    access = find_access({}, str(plane.kubeconfig()))
    if isinstance(access, Gap):
        raise CannotMeasureError(access.reason)
    client = Client(access, "slackwater-benchmark")
    began = time.monotonic()
    while _predicted(client) < chosen.nodes:
        time.sleep(_LOOK)
    first, first_cpu = time.monotonic() - began, _cpu(manager)
    since = time.time()
    until = since + chosen.windows * chosen.window
    time.sleep(until + _LATE - since)
    steady, cpu = time.time() - since, _cpu(manager)
    written = count_writes(_writes(plane), _tasks(_list(client)), since, until)
    most = max(written.values(), default=0)
    return ManagerCost(
        first, first_cpu, steady, cpu - first_cpu, written.total(), most, manager.memory()
    )


def _writes(plane: ControlPlane) -> Iterable[ObjectWrite]:
    """All of the manager's writes of predictions: to an object, or to its status."""
    for line in plane.audit():
        about = line.get("objectRef", {})  # a request for /version is about no object
        if (
            line.get("userAgent", "").startswith(_USER_AGENT)
            and about.get("resource") == "timeseriespredictions"
            and line["verb"] not in ("get", "list", "watch")
        ):
            yield ObjectWrite(about.get("name", ""), received_at(line))


def count_writes(
    writes: Iterable[ObjectWrite], tasks: Mapping[str, PredictionTask], since: float, until: float
) -> Counter[tuple[str, float]]:
    """By object and place, of the places in this time. What is written of an object that is not a
    node's prediction counts in any case."""
    found: Counter[tuple[str, float]] = Counter()
    for each in writes:
        task = tasks.get(each.name)
        place = each.at if task is None else task.last_place(each.at)
        if since < place <= until:
            found[each.name, place] += 1
    return found


def _list(client: Client) -> Sequence[PredictionObject]:
    return client.list(TIME_SERIES_PREDICTIONS, read_prediction_object).items


def _tasks(predictions: Sequence[PredictionObject]) -> dict[str, PredictionTask]:
    names = {each.uid: each.name for each in predictions}
    return {names[task.uid]: task for task in tasks_of(predictions, ())}


def _predicted(client: Client) -> int:
    return sum(bool(each.status.metrics) for each in _list(client))


def _cpu(manager: ManagerProcess) -> float:
    """Seconds of CPU of the process, so far."""
    fields = Path(f"/proc/{manager.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _print(cost: ManagerCost, chosen: argparse.Namespace) -> None:
    nodes, window = chosen.nodes, chosen.window
    each = cost.writes / nodes / chosen.windows
    cores = cost.steady_cpu / cost.steady
    print(f"{nodes} nodes, windows of {window} s")
    print(f"until all were predicted   {cost.first:8.0f} s, {cost.first_cpu:.0f} s of CPU")
    print(f"steady state for           {cost.steady:8.0f} s")
    print(f"writes per node and window {each:8.2f}    goal <= {MOST_WRITES:g}")
    print(f"most of one node in one    {cost.most_writes:8d}    goal <= {MOST_WRITES:g}")
    print(f"cores                      {cores:8.3f}    goal <= {MOST_CORES:g}")
    print(f"memory, MiB                {cost.memory:8.0f}    limit {MOST_MEMORY:g}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
