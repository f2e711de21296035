"""Pods of a real API server for the agent's footprint: a control plane, a Node, and the objects.

Owns what is created there. The API server gives each pod its uid, so the groups are made after it;
there is no kubelet, so nothing else changes an object.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from benchmarks._pods import BenchPod
from benchmarks._running import CannotMeasureError
from slackwater.contract.resources import CONFIG_MAPS, NODES, PODS
from slackwater.http.errors import RequestError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.gap import Gap
from tools.cluster import CONTROL_PLANE_PROGRAMS, MANY_NODES_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import ClusterError, find_programs

_Cost = TypeVar("_Cost")
NODE = "here"
_NAMESPACE = "default"
#: For the controller that makes the namespace's service account.
_PATIENCE = 60.0
_SETTINGS_MAP = "slackwater-agent"


def _data(share: dict[str, Any]) -> dict[str, str]:
    """The same duty as with a folder. As JSON, which is YAML too: so its parser is not loaded."""
    kind = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
    text = msgspec.json.encode({**kind, "spec": {"bestEffortShare": share}}).decode()
    return {"settings.yaml": text}


def measure_many_nodes(measure: Callable[[Path, dict[str, Path]], _Cost]) -> _Cost | None:
    """In a folder of its own, with the programs of a control plane and kwok; without a result it
    has told why."""
    try:
        programs = find_programs((*CONTROL_PLANE_PROGRAMS, *MANY_NODES_PROGRAMS), os.environ)
        with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
            return measure(Path(folder), programs)
    except (ClusterError, CannotMeasureError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return None


class BenchCluster:
    """Guards the objects of one control plane."""

    def __init__(self, plane: ControlPlane, cpus: int) -> None:
        self.plane = plane
        self.kubeconfig = str(plane.kubeconfig())
        access = find_access({}, self.kubeconfig)
        if isinstance(access, Gap):
            raise CannotMeasureError(access.reason)
        self._client = Client(access, "slackwater-benchmark")
        self._client.create(NODES, {"metadata": {"name": NODE}})
        self._patch_status(NODES, NODE, {"allocatable": {"cpu": str(cpus)}})
        settings = {"metadata": {"name": _SETTINGS_MAP}, "data": _data({"enabled": True})}
        self._client.create(CONFIG_MAPS, settings, _NAMESPACE)

    def arguments(self) -> list[str]:
        return ["--kubeconfig", self.kubeconfig, "--node", NODE, "--namespace", _NAMESPACE]

    def add(self, pod: BenchPod, kubepods: str) -> list[str]:
        """Its object; the groups that its containers have."""
        written: dict[str, Any] = yaml.safe_load(pod.text())
        status = written.pop("status")
        metadata = written["metadata"]
        for key in ("uid", "resourceVersion", "creationTimestamp", "ownerReferences"):
            metadata.pop(key)
        metadata["namespace"] = _NAMESPACE
        written["spec"] |= {"nodeName": NODE, "tolerations": [{"operator": "Exists"}]}
        made = msgspec.json.decode(self._create(written))
        self._patch_status(PODS, metadata["name"], status, _NAMESPACE)
        uid = made["metadata"]["uid"]
        return [path.replace(pod.uid, uid) for path in pod.paths(kubepods)]

    def remove(self, name: str) -> None:
        """A pod's object, at once."""
        self._client.delete(PODS, name, _NAMESPACE, grace_seconds=0)

    def set_section(self, share: dict[str, Any]) -> None:
        """Of the settings: bestEffortShare."""
        self._client.patch(
            CONFIG_MAPS,
            _SETTINGS_MAP,
            {"data": _data(share)},
            kind=PatchKind.MERGE,
            namespace=_NAMESPACE,
        )

    def _create(self, pod: dict[str, Any]) -> bytes:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._client.create(PODS, pod, _NAMESPACE)
            except RequestError as error:
                if "service account" not in str(error) or time.monotonic() > deadline:
                    raise CannotMeasureError(str(error)) from None
                time.sleep(0.2)

    def _patch_status(self, resource: Any, name: str, status: object, namespace: str = "") -> None:  # noqa: ANN401
        self._client.patch(
            resource,
            name,
            {"status": status},
            kind=PatchKind.MERGE,
            namespace=namespace,
            subresource="status",
        )


@contextlib.contextmanager
def new_cluster(cpus: int) -> Iterator[BenchCluster]:
    with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
        try:
            programs = find_programs(CONTROL_PLANE_PROGRAMS, os.environ)
            plane = ControlPlane(Path(folder), programs)
        except ClusterError as error:
            raise CannotMeasureError(str(error)) from None
        try:
            plane.open()
            yield BenchCluster(plane, cpus)
        finally:
            plane.close()
