"""What the webhook adds to writes of Nodes' statuses, and whether any is lost when it is killed.

`.venv/bin/python benchmarks/webhook.py [--nodes N] [--writes N] [--rate N]`. A real API server, a
manager that serves the webhook over TLS, and N nodes with a status of 10 KB. Each write states
another true amount, as kubelets do; first of nodes without a ratio, which are not sent to the
webhook, then with one, and once more while the manager is killed and started again. What is added
is the API server's own account of the webhook's admissions. Exit code 0: measured, also where a
goal was missed; 1: could not measure, or an update was lost.
"""

import argparse
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.koordinator.amplification import multiply
from slackwater.contract.koordinator.normalization import AMPLIFICATION_ANNOTATION
from slackwater.contract.resources import NODES
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.gap import Gap
from slackwater.model.units import Ratio
from tests.cluster.managers import crew
from tests.cluster.webhook_bed import install_webhook, start_manager
from tools.cluster import CONTROL_PLANE_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import ClusterError, find_programs, free_ports

GOAL = 0.005
#: How often a kubelet looks, in seconds.
KUBELET_PERIOD = 10.0
RATIO = Ratio(113, 100)
_WRITERS = 4
_ADMISSIONS = "apiserver_admission_webhook_admission_duration_seconds"


class CannotMeasureError(Exception):
    """One sentence about what is missing, or lost."""


class PhaseResult(msgspec.Struct, frozen=True):
    """Seconds of each write, as the writer sees them."""

    latencies: list[float]
    failed: int

    def at(self, share: float) -> float:
        found = sorted(self.latencies)
        return found[min(int(len(found) * share), len(found) - 1)] * 1000


class Admissions(msgspec.Struct, frozen=True):
    """The API server's histogram: how many took up to each bound, and all seconds."""

    upto: dict[float, float]
    seconds: float

    def since(self, before: "Admissions") -> "Admissions":
        upto = {bound: count - before.upto.get(bound, 0) for bound, count in self.upto.items()}
        return Admissions(upto, self.seconds - before.seconds)

    def share_within(self, bound: float) -> float:
        total = self.upto.get(float("inf"), 0)
        return self.upto.get(bound, 0) / total if total else 0.0

    def mean(self) -> float:
        total = self.upto.get(float("inf"), 0)
        return self.seconds / total if total else 0.0


class WrittenNodes:
    """Guards the nodes and what was stated of each last."""

    def __init__(self, client: Client, count: int) -> None:
        self._client = client
        self.names = [f"node-{number}" for number in range(count)]
        self.stated: dict[str, str] = {}
        images = [
            {
                "names": [f"registry.example.com/team/image-{number}@sha256:{number:064x}"],
                "sizeBytes": 1,
            }
            for number in range(60)
        ]
        amounts = {"cpu": "64", "memory": "256Gi"}
        status = {"capacity": amounts, "allocatable": amounts, "images": images}
        for name in self.names:
            client.create(NODES, {"metadata": {"name": name}, "status": status})

    def set_ratio(self) -> None:
        text = f'{{"cpu":{RATIO.numerator / RATIO.denominator:.2f}}}'
        body = {"metadata": {"annotations": {AMPLIFICATION_ANNOTATION: text}}}
        for name in self.names:
            self._client.patch(NODES, name, body, kind=PatchKind.MERGE)

    def write(self, writes: int, rate: float) -> PhaseResult:
        """Each node by one writer, at this rate altogether."""
        counter = itertools.count(1)
        latencies: list[float] = []
        failures = 0
        lock = threading.Lock()
        began = time.monotonic()

        def work(names: Sequence[str]) -> None:
            nonlocal failures
            for name in itertools.cycle(names):
                number = next(counter)
                if number > writes:
                    break
                time.sleep(max(began + number / rate - time.monotonic(), 0))
                amount = f"{1000 + number % 60_000}m"
                body = {"status": {"allocatable": {"cpu": amount}}}
                start = time.monotonic()
                try:
                    self._client.patch(
                        NODES, name, body, kind=PatchKind.STRATEGIC, subresource="status"
                    )
                except Exception:  # noqa: BLE001 - whatever it is, the update is lost
                    with lock:
                        failures += 1
                    continue
                with lock:
                    latencies.append(time.monotonic() - start)
                    self.stated[name] = amount
            self._client.close()

        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(work, [self.names[place::_WRITERS] for place in range(_WRITERS)]))
        return PhaseResult(latencies, failures)

    def wrong(self) -> list[str]:
        found = []
        for name, amount in self.stated.items():
            node = msgspec.json.decode(self._client.get(NODES, name))
            if node["status"]["allocatable"]["cpu"] != multiply("cpu", amount, RATIO):
                found.append(name)
        return found


def read_admissions(client: Client) -> Admissions:
    upto: dict[float, float] = {}
    seconds = 0.0
    for line in client.get_raw("/metrics").decode().splitlines():
        if line.startswith(_ADMISSIONS) and "nodes.slackwater.io" in line:
            value = float(line.rpartition(" ")[2])
            if line.startswith(f"{_ADMISSIONS}_bucket"):
                bound = line.partition('le="')[2].partition('"')[0]
                upto[float(bound)] = upto.get(float(bound), 0) + value
            elif line.startswith(f"{_ADMISSIONS}_sum"):
                seconds += value
    return Admissions(upto, seconds)


def measure(folder: Path, chosen: argparse.Namespace) -> int:
    programs = find_programs(CONTROL_PLANE_PROGRAMS, os.environ)
    plane = ControlPlane(folder, programs)
    try:
        for program in ("etcd", "kube-apiserver"):
            plane.start(program)
        [port] = free_ports(1)
        rights = install_webhook(plane, port)
        access = find_access({}, str(plane.kubeconfig()))
        if isinstance(access, Gap):
            raise CannotMeasureError(access.reason)
        client = Client(access, "slackwater-benchmark")
        with crew(rights, NAMESPACE, folder) as replicas:
            manager = start_manager(replicas, port)
            nodes = WrittenNodes(client, chosen.nodes)
            apart = nodes.write(chosen.writes, chosen.rate)
            nodes.set_ratio()
            nodes.write(chosen.nodes, chosen.rate)
            before = read_admissions(client)
            through = nodes.write(chosen.writes, chosen.rate)
            added = read_admissions(client).since(before)
            lost = nodes.wrong()
            killer = threading.Timer(chosen.writes / chosen.rate / 2, manager.kill)
            killer.start()
            killed = nodes.write(chosen.writes, chosen.rate)
            killer.join()
            back = time.monotonic()
            start_manager(replicas, port)
            served = time.monotonic()
            while nodes.wrong():
                time.sleep(0.5)
            right = time.monotonic()
    finally:
        plane.close()
    _print(chosen, apart, through, added, killed)
    print(
        f"after the kill: a manager led and served {served - back:.1f} s after its start; every "
        f"node was right {right - served:.1f} s later (goal: {KUBELET_PERIOD:.0f} s)"
    )
    failed = apart.failed + through.failed + killed.failed
    print(f"lost updates: {len(lost)}; failed writes: {failed} of {3 * chosen.writes}")
    return 1 if lost or failed else 0


def _print(
    chosen: argparse.Namespace,
    apart: PhaseResult,
    through: PhaseResult,
    added: Admissions,
    killed: PhaseResult,
) -> None:
    print(
        f"{chosen.writes} writes of {chosen.nodes} nodes, {chosen.rate:.0f} a second; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    )
    for title, found in (("without", apart), ("through it", through), ("killed midway", killed)):
        print(f"  {title:14} p50 {found.at(0.5):6.1f} ms   p99 {found.at(0.99):6.1f} ms")
    within = {bound: added.share_within(bound) for bound in sorted(added.upto)}
    shown = ", ".join(f"{bound * 1000:g} ms {share:.2%}" for bound, share in within.items())
    print(f"added, by the API server: mean {added.mean() * 1000:.2f} ms; within {shown}")
    met = added.share_within(GOAL) >= 0.99
    print(f"p99 within {GOAL * 1000:.0f} ms: {'yes' if met else 'no'}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--writes", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=20.0, help="writes a second, as of kubelets")
    chosen = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
            return measure(Path(folder), chosen)
    except (ClusterError, CannotMeasureError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
