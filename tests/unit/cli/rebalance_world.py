"""The seed's example behind one socket: an API server that replaces pods, and a Prometheus."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import yaml

from tests.unit.cli.in_process import run_command
from tests.unit.contract.served import autoscaler, deployment, owned_pod, replica_set
from tests.unit.kube.byte_server import ByteServer, Request, Wire
from tests.unit.kube.fake_api import status

F6 = {"web-a": 1.2, "web-b": 1.1, "web-c": 0.8, "web-d": 0.6, "web-e": 0.4, "web-f": 0.3}
#: A disruption budget's words.
REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."
#: What the original reads, and what could reach a test from outside.
_FOREIGN = (
    *("SLACKWATER_", "KUBE", "KAFKA_", "PROMETHEUS_", "DEPLOYMENT_NAME", "HPA_"),
    *("NO_COLOR", "COLUMNS"),
)


class World:
    """`broken`: what Prometheus answers instead of numbers; `warning`: what it says besides.
    `refused`: an HTTP status in place of evictions. `ready`: whether new pods are."""

    def __init__(self) -> None:
        self.usages = dict(F6)
        self.deployment = deployment("web")
        self.replica_set = replica_set("web-1", self.deployment)
        self.autoscalers = [autoscaler("web")]
        self.pods = {name: owned_pod(name, self.replica_set) for name in F6}
        self.broken: tuple[int, bytes] | None = None
        self.warning = ""
        self.refused = 0
        self.ready = "True"
        self.server = ByteServer(self._answer)
        self.address = f"http://127.0.0.1:{self.server.port}"

    def changes(self) -> list[str]:
        """Every request that was no question; queries are POSTs too."""
        return [
            f"{each.method} {each.path}"
            for each in self.server.requests
            if each.method != "GET" and each.path != "/api/v1/query"
        ]

    def evicted(self) -> list[str]:
        return [each.split("/")[-2] for each in self.changes() if each.endswith("/eviction")]

    def _answer(self, request: Request, wire: Wire) -> None:
        if request.path == "/api/v1/query":
            self._query(request, wire)
        elif request.method == "GET":
            self._list(request, wire)
        elif request.path.endswith("/eviction") and self.refused:
            causes = ("DisruptionBudget",) if self.refused == 429 else ()
            wire.json(status(self.refused, "Refused", REFUSAL, *causes), self.refused)
        elif request.path.endswith("/eviction"):
            self._evict(request.path.split("/")[-2])
            wire.json({"kind": "Status", "status": "Success"}, 201)
        elif request.method == "PATCH":
            said = msgspec.json.decode(request.body)["metadata"].get("annotations", {})
            self.deployment["metadata"].setdefault("annotations", {}).update(said)
            wire.json(self.deployment)
        else:
            wire.json({}, 201)

    def _query(self, request: Request, wire: Wire) -> None:
        if self.broken is not None:
            code, body = self.broken
            wire.answer(body, code)
            return
        asked = parse_qs(request.body.decode())
        text = asked["query"][0]
        numbers = self.usages if "usage_seconds" in text else dict.fromkeys(self.usages, 1.0)
        if "timestamp(" in text:
            numbers = dict.fromkeys(self.usages, float(asked["time"][0]))
        result = [
            {"metric": {"pod": pod, "container": "web"}, "value": [1e9, str(number)]}
            for pod, number in numbers.items()
        ]
        told = {"status": "success", "data": {"resultType": "vector", "result": result}}
        wire.json({**told, "warnings": [self.warning]} if self.warning else told)

    def _list(self, request: Request, wire: Wire) -> None:
        namespace, plural = request.path.split("/")[-2:]
        there: dict[str, list[Any]] = {
            "horizontalpodautoscalers": self.autoscalers,
            "deployments": [self.deployment],
            "replicasets": [self.replica_set],
            "statefulsets": [],
            "pods": list(self.pods.values()),
            "poddisruptionbudgets": [],
        }
        if plural not in there:
            wire.json(status(404, "NotFound", "no such list"), 404)
            return
        items = there[plural] if namespace == "shop" else []
        wire.json({"kind": "List", "metadata": {"resourceVersion": "9"}, "items": items})

    def _evict(self, name: str) -> None:
        del self.pods[name]
        new, ready = f"{name}-new", [{"type": "Ready", "status": self.ready}]
        self.pods[new] = owned_pod(new, self.replica_set, status={"conditions": ready})


@contextmanager
def served_world() -> Iterator[World]:
    world = World()
    try:
        yield world
    finally:
        world.server.close()


def kubeconfig(folder: Path, server: str) -> str:
    file = folder / "config"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(yaml.safe_dump(content))
    return str(file)


def clean(**environment: str) -> dict[str, str]:
    kept = {key: text for key, text in os.environ.items() if not key.startswith(_FOREIGN)}
    return kept | environment


def rebalance(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_command("rebalance", *arguments, environ=clean(**environment))
