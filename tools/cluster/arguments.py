"""Owns how the programs of a control plane are called. Starts none.

Everything listens on loopback alone, and nothing survives a crash of this machine: etcd need not
wait for the disk.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.certificates import Identity
from tools.cluster.ports import LOOPBACK

#: Pods find the API server at the first address of the range.
SERVICE_ADDRESSES = "10.0.0.0/24"
API_SERVICE_ADDRESS = "10.0.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
ETCD, API_SERVER = "etcd", "kube-apiserver"
CONTROLLER_MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
#: In the order in which they need each other.
CONTROL_PLANE = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
#: Each request once, when its answer is complete or a watch begins; no bodies.
AUDIT_POLICY = json.dumps(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
)


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True)
class Files:
    """Where the programs of one control plane find what they read, and put what they write."""

    folder: Path

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def service_account_key(self) -> Path:
        return self.certificates / "service-accounts.key"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def kubeconfigs(self) -> Path:
        return self.folder / "kubeconfigs"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


def etcd(files: Files, ports: Ports) -> list[str]:
    client, peer = f"http://{LOOPBACK}:{ports.etcd}", f"http://{LOOPBACK}:{ports.etcd_peer}"
    return [
        f"--data-dir={files.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server(
    files: Files, ports: Ports, authority: Path, serving: Identity, to_kubelets: Identity
) -> list[str]:
    return [
        f"--etcd-servers=http://{LOOPBACK}:{ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports.api_server}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={authority}",
        f"--kubelet-client-certificate={to_kubelets.certificate}",
        f"--kubelet-client-key={to_kubelets.key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        # There is one, and its address is no pod's way to it.
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={files.audit_policy}",
        f"--audit-log-path={files.audit_log}",
        # A test that read a fact a moment ago wants it in the log now.
        "--audit-log-mode=blocking",
        # A restart need not wait for clients that will come again.
        "--shutdown-delay-duration=0s",
    ]


def controller_manager(files: Files, port: int, kubeconfig: Path, authority: Path) -> list[str]:
    return [
        *_controller(port, kubeconfig),
        f"--service-account-private-key-file={files.service_account_key}",
        f"--root-ca-file={authority}",
        "--use-service-account-credentials",
    ]


def scheduler(port: int, kubeconfig: Path) -> list[str]:
    return _controller(port, kubeconfig)


def _controller(port: int, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
    ]
