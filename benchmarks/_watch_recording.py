"""A recording of a real API server's answers: one page of pods, and what a watch said of them.

Owns the making of it, with a real etcd and kube-apiserver: pods as a Deployment's look, with a
status and the managedFields of two writers, each changed again and again. Kept in the cache folder.
What is kept are the bytes, chunk by chunk as the server framed them. A replay gives each copy of a
pod a number of its own, of the same length; nothing else is changed.
"""

import http.client
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from slackwater.contract.resources import PODS, Resource
from slackwater.http.endpoint import Identity
from slackwater.http.errors import RequestError
from slackwater.http.tls import TlsContexts
from slackwater.kube.access import Access
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.gap import Gap
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import ClusterError, find_programs
from tools.provision import cache_folder

PAGE = 500
#: Changes of each pod that are recorded.
CHANGES = 5
NAMESPACE = "shop"
STEM = "web-7d9c5b8f64-"
WIDTH = 6
PROGRAMS = ("etcd", "kube-apiserver", "kubectl")


class Recording(msgspec.Struct, frozen=True):
    """`page` and `events` are the chunks of the two answers; `version` is the server's."""

    version: str
    page: list[bytes]
    events: list[bytes]


class CannotRecordError(Exception):
    """One sentence."""


def name(number: int) -> str:
    return f"{STEM}{number:0{WIDTH}}"


def recording() -> Recording:
    """The kept one, or a new one."""
    programs = _programs()
    kept = cache_folder(os.environ) / "benchmarks" / f"watch-{_stamp(programs)}.msgpack"
    if kept.exists():
        return msgspec.msgpack.decode(kept.read_bytes(), type=Recording)
    print("recording a real API server; this is done once", file=sys.stderr, flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
            made = _recorded(Path(folder), programs)
    except (ClusterError, RequestError, OSError) as error:
        raise CannotRecordError(str(error)) from error
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(msgspec.msgpack.encode(made))
    return made


def _programs() -> dict[str, Path]:
    try:
        return find_programs(PROGRAMS, os.environ)
    except ClusterError as error:
        raise CannotRecordError(str(error)) from error


def _stamp(programs: dict[str, Path]) -> str:
    """Another program, or another way to record, is another recording."""
    found = programs["kube-apiserver"].stat()
    return f"1-{found.st_size}-{found.st_mtime_ns}"


def _recorded(folder: Path, programs: dict[str, Path]) -> Recording:
    control_plane = ControlPlane(folder, programs)
    try:
        for program in ("etcd", "kube-apiserver"):
            control_plane.start(program)
        access = find_access({}, str(control_plane.kubeconfig()))
        if isinstance(access, Gap):
            raise CannotRecordError(access.reason)
        return _of_server(access)
    finally:
        control_plane.close()


def _of_server(access: Access) -> Recording:
    client = Client(access, "kubelet/v1.34.4")
    namespaces = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
    client.create(namespaces, {"metadata": {"name": NAMESPACE}})
    accounts = Resource("", "v1", "serviceaccounts", "ServiceAccount")
    client.create(accounts, {"metadata": {"name": "default"}}, NAMESPACE)
    creator = Client(access, "kube-controller-manager/v1.34.4")
    for number in range(PAGE):
        creator.create(PODS, _pod(number), NAMESPACE)
        _report(client, number, 0)
    page = list(_chunks(access, f"/api/v1/namespaces/{NAMESPACE}/pods?limit={PAGE}"))
    start = msgspec.json.decode(b"".join(page))["metadata"]["resourceVersion"]
    for change in range(1, CHANGES + 1):
        for number in range(PAGE):
            _report(client, number, change)
    query = f"watch=true&resourceVersion={start}&timeoutSeconds=60"
    events = []
    for chunk in _chunks(access, f"/api/v1/namespaces/{NAMESPACE}/pods?{query}"):
        events.append(chunk)
        if len(events) == PAGE * CHANGES:
            break
    version = msgspec.json.decode(client.get_raw("/version"))["gitVersion"]
    for each in (client, creator):
        each.close()
    return Recording(version, page, events)


def _chunks(access: Access, target: str) -> Iterator[bytes]:
    """An answer as the server framed it; one without chunks is a single one."""
    server, identity = access.server, access.credentials.identity()
    context: ssl.SSLContext = TlsContexts(access.trust).context(
        Identity("", identity.certificate, identity.key)
    )
    connection = http.client.HTTPSConnection(server.host, server.port, context=context, timeout=30)
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise CannotRecordError(f"GET {target} is answered with {response.status}")
        if not response.chunked:
            yield response.read()
            return
        while size := int(response.fp.readline().split(b";")[0], 16):
            yield response.fp.read(size)
            response.fp.readline()
    finally:
        connection.close()


def _report(client: Client, number: int, change: int) -> None:
    client.patch(
        PODS,
        name(number),
        {"status": _status(number, change)},
        kind=PatchKind.STRATEGIC,
        namespace=NAMESPACE,
        subresource="status",
    )


def _pod(number: int) -> dict[str, object]:
    labels = {
        "app.kubernetes.io/name": "web",
        "app.kubernetes.io/instance": "web-production",
        "app.kubernetes.io/version": "4.17.2",
        "pod-template-hash": STEM.split("-")[1],
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
    }
    annotations = {
        "checksum/config": f"{number:064x}",
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9090",
        "volcano.sh/qos-level": "LC",
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": STEM.rstrip("-"),
        "uid": "0b8a2f0e-5a35-4ce4-9b4c-1f6d5a4e7c11",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": name(number),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": f"node-{number % 50:03}",
            "priority": None,
            "terminationGracePeriodSeconds": 30,
            "containers": [_container("main", 8080), _container("sidecar", 15090)],
            "volumes": [
                {"name": "config", "configMap": {"name": "web-config"}},
                {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
            ],
        },
    }


def _container(called: str, port: int) -> dict[str, object]:
    probe = {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 10}
    return {
        "name": called,
        "image": f"registry.example.com/team/{called}:4.17.2",
        "args": ["--listen", f":{port}", "--log-format", "json"],
        "ports": [{"name": "http", "containerPort": port}],
        "env": [
            {"name": f"{called.upper()}_OPTION_{n}", "value": f"value-{n}" * 2} for n in range(8)
        ],
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "readinessProbe": probe,
        "livenessProbe": probe,
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/web", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    }


def _status(number: int, change: int) -> dict[str, object]:
    """As the kubelet writes it, with one restart more each time."""
    started = "2026-11-17T08:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "hostIP": f"10.1.0.{number % 50}",
        "podIP": f"10.2.{number // 250}.{number % 250}",
        "podIPs": [{"ip": f"10.2.{number // 250}.{number % 250}"}],
        "startTime": started,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": started} for kind in kinds
        ],
        "containerStatuses": [
            {
                "name": called,
                "image": f"registry.example.com/team/{called}:4.17.2",
                "imageID": f"registry.example.com/team/{called}@sha256:{7:064x}",
                "containerID": f"containerd://{number * 10 + change:064x}",
                "ready": True,
                "started": True,
                "restartCount": change,
                "state": {"running": {"startedAt": started}},
                "lastState": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "startedAt": started,
                        "finishedAt": started,
                        "containerID": f"containerd://{number * 10 + change:064x}",
                    }
                },
            }
            for called in ("main", "sidecar")
        ],
    }
