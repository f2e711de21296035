"""The manager's webhook beside a real API server: configuration, rights, kubelets' writes."""

import json
from pathlib import Path
from typing import Any

import yaml

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.install import manifests
from slackwater.contract.koordinator.node_strategy import CONFIG_MAP
from slackwater.contract.koordinator.node_strategy import NAMESPACE as CONFIG_NAMESPACE
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    AMPLIFICATION_KEY,
)
from slackwater.contract.resources import NODES
from slackwater.kube.client import Client, PatchKind
from tests.cluster.chart import MANAGER, client, documents
from tests.cluster.managers import Crew, ManagerProcess
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

RATIO = AMPLIFICATION_ANNOTATION
_KINDS = (
    "Namespace", "ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding", "Role",
    "RoleBinding", "Deployment", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
)  # fmt: skip


def install_webhook(plane: ControlPlane, port: int) -> Path:
    """What `slackwater install` brings, but for a URL in place of the Service, which nobody routes
    here. Returns a kubeconfig with the rights that the manager has."""
    found = _objects()
    for each in found:
        if each["kind"] == "MutatingWebhookConfiguration":
            [hook] = each["webhooks"]
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
        if each["kind"] == "Deployment":
            # A node that has the image would run managers which lead in place of the test's.
            each["spec"]["replicas"] = 0
    found.sort(key=lambda each: _KINDS.index(each["kind"]))
    plane.kubectl("apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(found))
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONFIG_NAMESPACE}})
    configure(plane, "{]")
    token = plane.kubectl("create", "token", MANAGER, "-n", NAMESPACE)
    return plane.token_kubeconfig("webhook-manager", token.strip())


def _objects() -> list[dict[str, Any]]:
    """Not the agent's, nor what would refuse a configuration that cannot be read."""
    return [
        each
        for each in documents(manifests())
        if each["kind"] in _KINDS
        and not any(word in each["metadata"]["name"] for word in ("slo-config", "agent"))
    ]


def remove_webhook(plane: ControlPlane) -> None:
    """For a control plane that others use too; the namespaces stay."""
    found = [each for each in _objects() if each["kind"] != "Namespace"]
    plane.kubectl(
        "delete", "--ignore-not-found", "-f", "-", given=yaml.safe_dump_all(reversed(found))
    )
    plane.kubectl("delete", "configmap", CONFIG_MAP, "-n", CONFIG_NAMESPACE)


def configure(plane: ControlPlane, amplification: str) -> None:
    """The cluster's ratios. Those that cannot be read hold: tests then set annotations by hand."""
    data = {AMPLIFICATION_KEY: amplification}
    meta = {"name": CONFIG_MAP, "namespace": CONFIG_NAMESPACE}
    plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


def start_manager(replicas: Crew, port: int) -> ManagerProcess:
    made = replicas.add("--webhook-listen", f"127.0.0.1:{port}")
    wait_for("a leader", replicas.leader)
    return made


def metric(manager: ManagerProcess, name: str, labels: str = "") -> float:
    wanted = f"{name}{labels} "
    lines = manager.ask("/metrics")[1].splitlines()
    return float(next(line for line in lines if line.startswith(wanted)).split()[-1])


class WrittenNode:
    """A Node, and the kubelet's and others' writes of its status."""

    def __init__(
        self, plane: ControlPlane, name: str, cpu: str = "8", memory: str = "16Gi"
    ) -> None:
        self.name = name
        self._plane = plane
        self.kubelet = client(plane.kubeconfig(f"system:node:{name}", "system:nodes"))
        self.admin = client(plane.kubeconfig())
        amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        plane.create({**node, "status": {"capacity": amounts, "allocatable": amounts}})

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.admin.get(NODES, self.name))
        return found

    def allocatable(self, name: str = "cpu") -> str:
        return str(self.read()["status"]["allocatable"][name])

    def annotations(self) -> dict[str, str]:
        return dict(self.read()["metadata"].get("annotations", {}))

    def write(self, by: Client | None = None, **status: Any) -> None:
        """By the kubelet, unless somebody else is named."""
        (by or self.kubelet).patch(
            NODES,
            self.name,
            {"status": status},
            kind=PatchKind.STRATEGIC,
            subresource="status",
        )

    def state(self, cpu: str) -> None:
        self.write(allocatable={"cpu": cpu}, capacity={"cpu": "64"})

    def touch(self) -> None:
        """A write that changes nothing by itself, as the manager's leader does within 10 s."""
        self.write(self.admin)

    def set_ratio(self, ratio: str | None) -> None:
        """As the manager does: in the metadata, which no webhook sees."""
        text = None if ratio is None else f'{{"cpu":{ratio}}}'
        body = {"metadata": {"annotations": {RATIO: text}}}
        self.admin.patch(NODES, self.name, body, kind=PatchKind.MERGE)
