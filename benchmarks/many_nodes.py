"""What 5,000 nodes cost the API server, from a few real agents among them.

`.venv/bin/python benchmarks/many_nodes.py [--nodes N] [--agents N] [--pods N] [--seconds S]
[--quick]`. A real control plane, nodes with pods that kwok plays, a manager that has heard a report
of every node, and real agents of some of these nodes, each on a machine of files with its own user.
Measured are the agents' and the manager's requests by the API server's audit log, the agents'
connections by the kernel, memory by the kernel. What all agents together would ask is what these
asked, times nodes by agents: agents do not know of each other. --quick is 200 nodes for a minute;
a watch lasts five minutes, so it sees no watch being opened again. The server's own counter of
lists from etcd says nothing here, as kwok lists each node's pods from there; without kwok
tests/cluster/test_versions.py looks at it. Exit code 0: measured, also where a goal was missed; 1:
could not measure.
"""

import argparse
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._api_requests import ApiRequest, count_by_verb, open_connections, read_requests
from benchmarks._cluster import measure_many_nodes
from benchmarks._running import CannotMeasureError
from slackwater.contract.resources import NODES
from slackwater.kube.client import Client
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.gap import Gap
from slackwater.status.api_objects import read_node
from tests.cluster.agent_stage import config_map
from tests.cluster.managers import ManagerProcess, action, crew, install_kinds, policy
from tests.cluster.reporters import Reporter, run
from tests.unit.agent.large_pods import agent_on_files
from tools.cluster.control_plane import API_SERVER, ControlPlane
from tools.cluster.many_nodes import ManyNodes
from tools.cluster.processes import wait_for

#: ADR 36: one for each kind that is watched, and up to two more; the goal of two is missed.
MOST_CONNECTIONS, MOST_LISTS_FROM_ETCD = 14, 0
#: MiB: the limit of the chart's manager.
MOST_MEMORY = 768.0
_NAMESPACE, _AGENT, _MANAGER = "slackwater-system", "measured-agent-", "measured-manager"
#: The group that may do everything: rights are not what is measured here.
_MASTERS = "system:masters"
_NODES_AT_ONCE, _PODS_AT_ONCE = 500, 250
#: After the last agent's report: the first lists, the last of its first writes.
_SETTLE = 15.0
_SETTINGS = """\
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {bestEffortShare: {enabled: true}}
"""


class ApiCost(msgspec.Struct, frozen=True):
    """`start` and `steady` are the agents' requests by verb, of all of them together."""

    start: Counter[str]
    steady: Counter[str]
    seconds: float
    from_etcd: int
    connections: tuple[int, ...]
    agent_memory: float
    manager: Counter[str]
    manager_from_etcd: int
    manager_memory: float
    server_memory: tuple[float, float]


def main(arguments: Sequence[str]) -> int:
    chosen = _parse(arguments)
    cost = measure_many_nodes(lambda folder, programs: _measure(folder, programs, chosen))
    if cost is None:
        return 1
    for line in rows(cost, chosen.nodes, chosen.agents):
        print(line)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--agents", type=int, default=10, help="real ones, on so many of the nodes")
    parser.add_argument("--pods", type=int, default=2, help="on each node")
    parser.add_argument("--seconds", type=float, default=900, help="of steady state")
    parser.add_argument("--quick", action="store_true", help="200 nodes, 3 agents, 60 seconds")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.nodes, chosen.agents, chosen.seconds = 200, 3, 60.0
    if not 1 <= chosen.agents <= chosen.nodes:
        parser.error(f"--agents is {chosen.agents}, but must be 1 to --nodes, {chosen.nodes}")
    return chosen


def _measure(folder: Path, programs: dict[str, Path], chosen: argparse.Namespace) -> ApiCost:
    plane = ControlPlane(folder, programs)
    nodes = ManyNodes(plane, programs["kwok"])
    try:
        plane.open()
        install_kinds(plane)
        plane.kubectl("create", "namespace", _NAMESPACE)
        plane.apply(config_map("slackwater-agent", _NAMESPACE, {"settings.yaml": _SETTINGS}))
        plane.apply(action("throttle"), policy("waterline", "throttle", selector={"type": "kwok"}))
        _play(plane, nodes, chosen)
        with crew(plane.kubeconfig(_MANAGER, _MASTERS), _NAMESPACE, folder) as replicas:
            manager = replicas.add()
            _report(plane, nodes.names[chosen.agents :], manager)
            return _watch(plane, nodes.names, manager, chosen)
    finally:
        nodes.close()
        plane.close()


def _play(plane: ControlPlane, nodes: ManyNodes, chosen: argparse.Namespace) -> None:
    _tell(f"making {chosen.nodes} nodes with {chosen.pods} pods each")
    nodes.open(0)
    while len(nodes.names) < chosen.nodes:
        nodes.add(min(_NODES_AT_ONCE, chosen.nodes - len(nodes.names)))
    pods = [_pod(f"{name}-{n}", name) for name in nodes.names for n in range(chosen.pods)]
    for first in range(0, len(pods), _PODS_AT_ONCE):
        plane.create(*pods[first : first + _PODS_AT_ONCE])


def _pod(name: str, node: str) -> dict[str, Any]:
    container = {"name": "main", "image": "nobody/pulls:this"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [container], "nodeName": node},
    }


def _report(plane: ControlPlane, names: Sequence[str], manager: ManagerProcess) -> None:
    """As the agents of these nodes would write them, so that the manager holds them."""
    _tell(f"writing the reports of {len(names)} nodes")
    client = _client(plane, "reports")
    run([Reporter(name, n) for n, name in enumerate(names)], 2, lambda _minute: client, 4)
    wanted = f"slackwater_manager_nodes_reporting {len(names)}.0"
    wait_for("the manager to have all reports", lambda: wanted in manager.ask("/metrics")[1], 1800)


def _watch(
    plane: ControlPlane, names: Sequence[str], manager: ManagerProcess, chosen: argparse.Namespace
) -> ApiCost:
    client = _client(plane, "looks")
    served_before = _memory(plane.processes.pid(API_SERVER))
    began = time.time()
    with _agents(plane, names[: chosen.agents]) as pids:
        _tell(f"starting {chosen.agents} agents")
        for name in names[: chosen.agents]:
            wait_for(f"the report of {name}", partial(_has_agent, client, name), 1800)
        time.sleep(_SETTLE)
        steady = time.time()
        _tell(f"watching for {chosen.seconds:.0f} s")
        time.sleep(chosen.seconds)
        until = time.time()
        served = (served_before, _memory(plane.processes.pid(API_SERVER)))
        connections = tuple(open_connections(pid, plane.ports.api_server) for pid in pids)
        memory = max(_memory(pid) for pid in pids)
    agents = _requests(plane, _AGENT)
    managers = _requests(plane, _MANAGER)
    in_steady = _between(steady, until)
    return ApiCost(
        start=count_by_verb(each for each in agents if began <= each.at < steady),
        steady=count_by_verb(filter(in_steady, agents)),
        seconds=until - steady,
        from_etcd=sum(each.from_etcd for each in agents),
        connections=connections,
        agent_memory=memory,
        manager=count_by_verb(filter(in_steady, managers)),
        manager_from_etcd=sum(each.from_etcd for each in managers),
        manager_memory=manager.memory(),
        server_memory=served,
    )


def _between(since: float, until: float) -> Callable[[ApiRequest], bool]:
    return lambda each: since <= each.at < until


@contextlib.contextmanager
def _agents(plane: ControlPlane, names: Sequence[str]) -> Iterator[list[int]]:
    """Their process ids. Each is a user of its own, by which the audit log tells them apart."""
    with contextlib.ExitStack() as stack:
        pids = []
        for name in names:
            folder = plane.folder / f"agent-{name}"
            folder.mkdir()
            kubeconfig = plane.kubeconfig(f"{_AGENT}{name}", _MASTERS)
            started = agent_on_files(folder, kubeconfig, name, "--namespace", _NAMESPACE)
            pids.append(stack.enter_context(started).pid)
        yield pids


def _has_agent(client: Client, name: str) -> bool:
    return read_node(msgspec.Raw(client.get(NODES, name))).report is not None


def _requests(plane: ControlPlane, user_prefix: str) -> list[ApiRequest]:
    with plane.audit_log.open() as lines:
        return list(read_requests(lines, user_prefix))


def _client(plane: ControlPlane, what: str) -> Client:
    access = find_access({}, str(plane.kubeconfig()))
    if isinstance(access, Gap):
        raise CannotMeasureError(access.reason)
    return Client(access, f"slackwater-benchmark/{what}", timeout=300)


def _memory(pid: int) -> float:
    """Resident, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _tell(what: str) -> None:
    print(what, file=sys.stderr)


def rows(cost: ApiCost, nodes: int, agents: int) -> Iterator[str]:
    """The figures, each with its goal where it has one."""
    scale = nodes / agents
    rate = cost.steady.total() / cost.seconds
    most = max(cost.connections)
    before, after = cost.server_memory
    yield f"{nodes} nodes, {agents} of them with a real agent, {cost.seconds:.0f} s of steady state"
    yield _row("lists of agents that reach etcd", cost.from_etcd, f"goal {MOST_LISTS_FROM_ETCD}")
    yield _row("connections of an agent, most", most, f"ADR 36: <= {MOST_CONNECTIONS}; goal 2")
    yield _row("requests of an agent at its start", round(cost.start.total() / agents, 1))
    yield _row(
        "requests of an agent in a minute", round(60 * rate / agents, 2), _verbs(cost.steady)
    )
    yield _row(f"requests a second of {nodes} agents", round(rate * scale, 1), "extrapolated")
    yield _row(
        f"connections of {nodes} agents", round(sum(cost.connections) * scale), "extrapolated"
    )
    yield _row("memory of an agent, MiB, most", round(cost.agent_memory, 1))
    yield _row(
        "requests of the manager in a minute",
        round(60 * cost.manager.total() / cost.seconds, 1),
        _verbs(cost.manager),
    )
    yield _row("lists of the manager that reach etcd", cost.manager_from_etcd, "goal 0")
    memory = f"limit {MOST_MEMORY:g}"
    yield _row("memory of the manager, MiB", round(cost.manager_memory), memory)
    grown = f"{round(after - before):+d} by these {agents} agents and the time"
    yield _row("memory of the API server, MiB", round(after), grown)


def _row(name: str, value: object, more: str = "") -> str:
    return f"{name:<48} {value!s:>10}   {more}".rstrip()


def _verbs(counted: Counter[str]) -> str:
    return ", ".join(f"{verb} {count}" for verb, count in sorted(counted.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
