"""Certificates of one cluster: who may say that they are whom.

Owns the authority, which exists only in this process, and the files that it wrote. A name is a
certificate's common name, a group is its organization: so Kubernetes reads them.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tools.cluster.processes import LOOPBACK


@dataclass(frozen=True, slots=True)
class User:
    name: str
    group: str


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


ADMIN = "admin"
USERS = {
    user.name: user
    for user in (
        User(ADMIN, "system:masters"),
        User("system:kube-controller-manager", "system:kube-controller-manager"),
        User("system:kube-scheduler", "system:kube-scheduler"),
        User("kube-apiserver-kubelet-client", "system:masters"),
        User("kwok", "system:masters"),
    )
}


def node_user(node: str) -> User:
    """As whom the node authorizer knows a kubelet."""
    return User(f"system:node:{node}", "system:nodes")


def file_name(user: User) -> str:
    return user.name.replace(":", "-").replace("/", "-")


class Authority:
    """Guards the folder of certificates and the key that signs them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._signer = trustme.CA(organization_name="slackwater", organization_unit_name="tests")
        self.certificate = folder / "ca.crt"
        self._signer.cert_pem.write_to_path(str(self.certificate))

    def serving(self, name: str, hosts: tuple[str, ...]) -> Identity:
        """For a server that is reached by any of the hosts, names or addresses."""
        issued = self._signer.issue_cert(*hosts, common_name=name, organization_name="slackwater")
        return self._write(name, issued)

    def client(self, user: User) -> Identity:
        """The host is nobody's: Go refuses a certificate whose list of hosts is empty."""
        issued = self._signer.issue_cert(
            "client.invalid", common_name=user.name, organization_name=user.group
        )
        return self._write(file_name(user), issued)

    def _write(self, name: str, issued: trustme.LeafCert) -> Identity:
        made = Identity(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        made.key.touch(mode=0o600)
        issued.private_key_pem.write_to_path(str(made.key))
        issued.cert_chain_pems[0].write_to_path(str(made.certificate))
        return made


def api_server_hosts(service_address: str) -> tuple[str, ...]:
    """What clients on this machine and in pods call the API server."""
    services = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return ("localhost", LOOPBACK, service_address, *services)


def write_service_account_key(file: Path) -> None:
    """What the API server signs the tokens of service accounts with."""
    key = ec.generate_private_key(ec.SECP256R1())
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def by_certificate(server: str, authority: Path, identity: Identity) -> str:
    """With everything inside, so that the file can be copied away."""
    user = {
        "client-certificate-data": _encoded(identity.certificate),
        "client-key-data": _encoded(identity.key),
    }
    return _kubeconfig(server, authority, user)


def by_token(server: str, authority: Path, token: str) -> str:
    return _kubeconfig(server, authority, {"token": token})


def _kubeconfig(server: str, authority: Path, user: dict[str, Any]) -> str:
    """JSON is YAML."""
    name = "slackwater"
    cluster = {"server": server, "certificate-authority-data": _encoded(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(config, indent=1)


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
