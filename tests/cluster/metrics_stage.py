"""Agent, manager and rebalancer as they run, and a real Prometheus that scrapes them all.

The agent works on scratch cgroups of this host, with every feature on that has metrics; the manager
predicts from a Prometheus with a node's history; the rebalancer looks at pods of nodes on paper.
Only cAdvisor and kube-state-metrics are a page of text: they would need a kubelet and an image.
"""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import msgspec
import yaml

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.koordinator.node_strategy import CONFIG_MAP
from slackwater.contract.koordinator.node_strategy import NAMESPACE as CONFIG_NAMESPACE
from slackwater.rebalancer.last_rotation import ANNOTATION, encode_last_rotation
from slackwater.rebalancer.observed import Cores, LastRotation, PercentOf
from tests.cluster.agent_process import QUOTA, eventually
from tests.cluster.agent_stage import USER, config_map
from tests.cluster.agent_stage import Stage as AgentStage
from tests.cluster.managers import crew, ensurance, install_kinds
from tests.cluster.prometheus_bed import Backfill, prometheus_with
from tests.cluster.rebalance_stage import WORKLOAD, Scene, set_up
from tests.cluster.residents import resident
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import LOOPBACK, Processes, free_ports, wait_for

SCENE = "shop"
#: Its estimators say at once how far they would have been off; adaptive has to have lived a day.
_TEMPLATE = Path(__file__).parent / "manifests" / "prediction-template.yaml"
_BUSY = (1.2, 1.1, 0.8, 0.6, 0.4, 0.3)
_DAY, _MINUTE, _CPUS = 86_400, 60, 2
_SETTINGS = {
    "agent": {"reading": "everything", "period": "500ms"},
    "bestEffortShare": {"enabled": True, "threshold": 80},
    "corePinning": {"enabled": True},
    "oversold": {"enabled": True, "warmUp": "0s"},
}
_LIMIT = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}


class ScrapedPrograms(msgspec.Struct, frozen=True):
    """`endpoint` is that of the Prometheus that scrapes them; `node` the agent's."""

    endpoint: str
    node: str

    def ask(self, query: str) -> list[Any]:
        """The vector of a query, now."""
        return list(self._get("query", query=query)["result"])

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **words: str) -> Any:
        url = f"{self.endpoint}/api/v1/{path}?{urlencode(words)}"
        with build_opener(ProxyHandler({})).open(url, timeout=300) as answer:
            return json.load(answer)["data"]


@contextmanager
def scraped_programs(
    plane: ControlPlane, kwok: Path, folder: Path, rules: str, *, honor_labels: bool
) -> Iterator[ScrapedPrograms]:
    """Until the block ends. `rules` is the text of a rule file; `honor_labels` as the chart's
    ServiceMonitor has it."""
    install_kinds(plane)
    for name in (NAMESPACE, CONFIG_NAMESPACE):
        plane.kubectl("create", "namespace", name)
    plane.kubectl("apply", "-f", str(_TEMPLATE))
    with ExitStack() as owned:
        stage = owned.enter_context(set_up(plane, kwok, folder, [Scene(SCENE, _BUSY)]))
        _note_rotation(plane)
        agents = owned.enter_context(_agent(plane, folder))
        history = owned.enter_context(
            prometheus_with(_made(folder / "past"), _idle_cpus(agents.node))
        )
        managers = owned.enter_context(crew(plane.kubeconfig(), NAMESPACE, folder))
        port = free_ports(1)[0]
        manager = managers.add(
            *("--prometheus-endpoint", history.endpoint),
            *("--webhook-listen", f"{LOOPBACK}:{port}"),
        )
        config = plane.kubeconfig("admin")
        loop = owned.enter_context(resident(stage, config, SCENE, "loop", folder, "--dry-run"))
        wait_for("where the rebalancer listens", lambda: bool(loop.said("endpoint")))
        wait_for("where the manager listens", manager.is_ready)
        targets = {
            "slackwater-agent": _url(agents.agents[0].told("endpoint")),
            "slackwater-manager": _url(_said(manager.lines())),
            "slackwater-rebalancer": _url(loop.said("endpoint")),
            "kubelet": owned.enter_context(_page(agents.node, agents.namespace)),
        }
        text = _configuration(targets, agents.node, honor_labels)
        yield ScrapedPrograms(owned.enter_context(_scraping(folder, text, rules)), agents.node)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _said(lines: list[dict[str, Any]]) -> list[str]:
    return [line["because"] for line in lines if line["what"] == "endpoint"]


def _url(said: list[str]) -> str:
    """Of `listening on http://127.0.0.1:1`: host and port."""
    [told] = [each for each in said if "http://" in each]
    return told.split("http://")[1].split("/")[0].split()[0]


# --- the rebalancer's past


def _note_rotation(plane: ControlPlane) -> None:
    """As the rebalancer keeps it: an hour ago, and judged."""
    last = LastRotation(
        at=time.time() - 3600, top=Cores(1.1), mean=Cores(0.7), improvement=PercentOf(30.0),
        pods=4, hot=2, judged=True, realised=PercentOf(25.0),
    )  # fmt: skip
    text = encode_last_rotation(last, lambda at: datetime.fromtimestamp(at, UTC).isoformat())
    note = f"{ANNOTATION}={text}"
    plane.kubectl("annotate", "deployment", WORKLOAD, "-n", SCENE, note)


# --- the agent


@contextmanager
def _agent(plane: ControlPlane, folder: Path) -> Iterator[AgentStage]:
    """With a rule that is always broken, a limited pod, and a value that somebody else changed."""
    bed = Bed(KERNELS[kernel_name()][0], f"metrics-{uuid.uuid4().hex[:8]}")
    stage = AgentStage(plane, NAMESPACE, bed, _made(folder / "agent"))
    try:
        stage.label(f"kubernetes.io/hostname={stage.node}")
        document = {
            "apiVersion": "slackwater.io/v1",
            "kind": "AgentSettings",
            "spec": _SETTINGS,
        }
        settings = {"settings.yaml": yaml.safe_dump(document)}
        plane.apply(config_map(USER, NAMESPACE, settings), *_rules(stage.node), _ratio())
        _limited_pod(stage)
        stage.start()
        wait_for("a quota", lambda: stage.quota() is not None)
        bed.write(stage.tier, *_quota_file(bed, "50000"))
        yield stage
    finally:
        stage.close()
        bed.close()


def _quota_file(bed: Bed, quota: str) -> tuple[str, str]:
    """In microseconds a period of 100 ms, as the kubelet writes it."""
    return (QUOTA, quota) if bed.version.value == "v1" else ("cpu.max", f"{quota} 100000")


def _rules(node: str) -> list[dict[str, Any]]:
    rule = {
        "name": "memory",
        "actionName": "stop",
        "metricRule": {"name": "memory_total_usage", "value": 1},
    }
    spec = {
        "nodeQualityProbe": {"nodeLocalGet": {"localCacheTTLSeconds": 60}},
        "rules": [rule],
        "selector": {"matchLabels": {"kubernetes.io/hostname": node}},
    }
    action = ensurance("AvoidanceAction", "stop", {"coolDownSeconds": 1})
    return [action, ensurance("NodeQOS", "waterline", spec)]


def _ratio() -> dict[str, Any]:
    """Two for every node."""
    strategy = json.dumps({"enable": True, "defaultRatio": 2.0})
    return config_map(CONFIG_MAP, CONFIG_NAMESPACE, {"cpu-normalization-config": strategy})


def _limited_pod(stage: AgentStage) -> None:
    where = ("-n", stage.namespace)
    container = {"name": "main", "image": "x", "resources": _LIMIT}
    eventually("the account", lambda: stage.plane.get("serviceaccounts", *where)["items"])
    stage.plane.apply({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "limited", "namespace": stage.namespace},
        "spec": {"nodeName": stage.node, "containers": [container]},
    })  # fmt: skip
    uid = stage.plane.get("pod", "limited", *where)["metadata"]["uid"]
    name = uuid.uuid4().hex * 2
    state = {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": 0,
             "containerID": f"containerd://{name}", "state": {"running": {}}}  # fmt: skip
    status = {"status": {"phase": "Running", "containerStatuses": [state]}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    stage.plane.kubectl("patch", "pod", "limited", *where, *patch)
    tree = f"{stage.bed.kubepods}/burstable/pod{uid}"
    for path in (tree, f"{tree}/{name}"):
        stage.bed.make(path)
        stage.bed.write(path, *_quota_file(stage.bed, "200000"))
    stage.bed.rest(f"{tree}/{name}")


# --- what is asked, and scraped


def _idle_cpus(node: str) -> Iterator[Backfill]:
    """What the node exporter counts of a node that is 40 % busy, for three days and some hours."""
    now = time.time()
    first = int((now - 3.2 * _DAY) // _MINUTE) * _MINUTE
    for cpu in range(_CPUS):
        points = [(float(at), 0.6 * (at - first)) for at in range(first, int(now) + 1200, _MINUTE)]
        labels = {"instance": f"{node}:9100", "mode": "idle", "cpu": str(cpu)}
        yield Backfill("node_cpu_seconds_total", labels, tuple(points), "counter")


@contextmanager
def _page(node: str, namespace: str) -> Iterator[str]:
    """cAdvisor's and kube-state-metrics' word about the limited pod, which uses half a CPU."""
    labels = f'namespace="{namespace}",pod="limited",container="main"'
    began = time.time() - 3600

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            used = 0.5 * (time.time() - began)
            lines = (
                f"container_cpu_usage_seconds_total{{{labels}}} {used}",
                f'kube_pod_container_resource_requests{{{labels},resource="cpu",node="{node}"}} 1',
                "",
            )
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write("\n".join(lines).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
            """Nothing: it is asked each second."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Page)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(targets: dict[str, str], node: str, honor_labels: bool) -> str:
    """What the Prometheus operator makes of the chart's ServiceMonitor, for these addresses."""
    jobs = [
        {
            "job_name": job,
            "honor_labels": honor_labels,
            "static_configs": [{
                "targets": [address],
                "labels": {"node": node, "namespace": NAMESPACE, "pod": f"{job}-0"},
            }],
        }
        for job, address in targets.items()
    ]  # fmt: skip
    jobs[-1]["honor_labels"] = True
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    return yaml.safe_dump({"global": every, "rule_files": ["rules.yml"], "scrape_configs": jobs})


@contextmanager
def _scraping(folder: Path, configuration: str, rules: str) -> Iterator[str]:
    place = _made(folder / "scraping")
    (place / "prometheus.yml").write_text(configuration)
    (place / "rules.yml").write_text(rules)
    port = free_ports(1)[0]
    processes = Processes(place / "logs")

    def is_ready() -> bool:
        return "ready to receive web requests" in processes.log("prometheus").read_text()

    try:
        processes.start("prometheus", [
            "prometheus", f"--config.file={place}/prometheus.yml",
            f"--storage.tsdb.path={place}/data", f"--web.listen-address={LOOPBACK}:{port}",
        ])  # fmt: skip
        processes.wait_until("Prometheus", "prometheus", is_ready)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        processes.kill_all()
