"""A control plane on loopback: etcd, the API server, the controller manager, the scheduler.

Owns those programs and one folder with all that they read and write. Several can run side by side.
Each program can be killed, paused and started again, and finds its state as it was.
"""

import http.client
import json
import signal
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools.cluster.certificates import (
    ADMIN,
    USERS,
    Authority,
    Identity,
    User,
    api_server_hosts,
    by_certificate,
    by_token,
    file_name,
    write_service_account_key,
)
from tools.cluster.processes import LOOPBACK, ClusterError, Processes, free_ports, wait_for
from tools.cluster.reading import Reading

_TIMEOUT_SECONDS = 5.0


def trusting(authority: Path, identity: Identity) -> ssl.SSLContext:
    """Knows the cluster's authority, and shows who we are."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(str(identity.certificate), str(identity.key))
    return context


def unchecked() -> ssl.SSLContext:
    """For programs that sign their own certificate and are asked for no secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def answers(port: int, path: str, context: ssl.SSLContext | None) -> bool:
    """Without a context it is asked in the clear."""
    connection = (
        http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS)
        if context is None
        else http.client.HTTPSConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS, context=context)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


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
        # By default a new file begins at 100 MB, which 5,000 nodes fill within minutes: what counts
        # requests would see the newest ones alone. In megabytes.
        "--audit-log-maxsize=100000",
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


#: Of one call of kubectl or helm, which may wait for something itself.
COMMAND_SECONDS = 600.0


class ControlPlane:
    """Guards the four programs; `programs` are their paths by name, and kubectl's and helm's."""

    def __init__(self, folder: Path, programs: Mapping[str, Path]) -> None:
        self.folder = folder
        self.programs = programs
        self.processes = Processes(Files(folder).logs)
        self.ports = Ports(*free_ports(5))
        self.server = f"https://{LOOPBACK}:{self.ports.api_server}"
        self._files = Files(folder)
        self.authority = Authority(self._files.certificates)
        hosts = api_server_hosts(API_SERVICE_ADDRESS)
        self._serving = self.authority.serving(API_SERVER, hosts)
        self._clients = {name: self.authority.client(user) for name, user in USERS.items()}
        write_service_account_key(self._files.service_account_key)
        self._files.audit_policy.write_text(AUDIT_POLICY)
        self._trust = trusting(self.authority.certificate, self._clients[ADMIN])
        self._reading = Reading(self.ports.api_server, self._trust)
        self.kubeconfig()

    @property
    def audit_log(self) -> Path:
        """One JSON object a line for each answered request."""
        return self._files.audit_log

    def open(self) -> None:
        """All programs, each as soon as what it needs is ready."""
        for program in CONTROL_PLANE:
            self.start(program)
        self.await_service_account("default")

    def start(self, program: str) -> None:
        """Returns when it is ready."""
        command = [str(self.programs[program]), *self._arguments(program)]
        self.processes.start(program, command)
        self.processes.wait_until(f"{program} to be ready", program, partial(self.ready, program))

    def ready(self, program: str) -> bool:
        match program:
            case "etcd":
                return answers(self.ports.etcd, "/health", None)
            case "kube-apiserver":
                return answers(self.ports.api_server, "/readyz", self._trust)
            case "kube-controller-manager":
                return answers(self.ports.controller_manager, "/healthz", unchecked())
            case _:
                return answers(self.ports.scheduler, "/healthz", unchecked())

    def await_service_account(self, namespace: str) -> None:
        """The default one, without which no pod can be created; a controller makes it."""
        wait_for(
            f"the default service account of {namespace}",
            lambda: self.get("serviceaccounts", "-n", namespace)["items"],
        )

    def kill(self, program: str) -> None:
        """kill -9; `start` brings it back on its old port, with its old state."""
        self.processes.kill(program)

    def stop(self, program: str) -> None:
        self.processes.stop(program)

    def pause(self, program: str) -> None:
        """It keeps its connections, and says nothing until `resume`."""
        self.processes.send(program, signal.SIGSTOP)

    def resume(self, program: str) -> None:
        self.processes.send(program, signal.SIGCONT)

    def kubeconfig(self, user: str = ADMIN, group: str = "") -> Path:
        """For one of USERS, or for anybody else with that name and group."""
        known = USERS.get(user) if not group else None
        wanted = known or User(user, group or "system:authenticated")
        identity = self._clients.get(user) if known else self.authority.client(wanted)
        if identity is None:
            raise ClusterError(f"there is no certificate for {user}")
        text = by_certificate(self.server, self.authority.certificate, identity)
        return self._write_kubeconfig(file_name(wanted), text)

    def token_kubeconfig(self, name: str, token: str) -> Path:
        """For whoever has the token, such as a service account; `name` is the file's."""
        text = by_token(self.server, self.authority.certificate, token)
        return self._write_kubeconfig(name, text)

    def kubectl(self, *command: str, given: str = "", kubeconfig: Path | None = None) -> str:
        """What kubectl says; ClusterError with its words where it fails. `given` is its stdin."""
        return self._run("kubectl", command, given, kubeconfig)

    def helm(self, *command: str, kubeconfig: Path | None = None) -> str:
        return self._run("helm", command, "", kubeconfig)

    def get(self, *command: str) -> dict[str, Any]:
        """`kubectl get ... -o json`, decoded: an object, or a list with `items`."""
        found = self._reading.get(command)
        if found is None:
            found = json.loads(self.kubectl("get", *command, "-o", "json"))
        return found

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", given=_listed(objects))

    def create(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("create", "-f", "-", given=_listed(objects))

    def audit(self) -> list[dict[str, Any]]:
        """What was asked so far, oldest first; a line that is being written is left out."""
        lines = self.audit_log.read_text().split("\n")[:-1] if self.audit_log.exists() else []
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        self.processes.kill_all()

    def _run(
        self, program: str, command: tuple[str, ...], given: str, kubeconfig: Path | None
    ) -> str:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        environ = {
            "KUBECONFIG": str(kubeconfig or self.kubeconfig()),
            "HOME": str(home),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        done = subprocess.run(
            [str(self.programs[program]), *command],
            env=environ,
            input=given,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"{program} {' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout

    def _arguments(self, program: str) -> list[str]:
        authority = self.authority.certificate
        match program:
            case "etcd":
                return etcd(self._files, self.ports)
            case "kube-apiserver":
                to_kubelets = self._clients["kube-apiserver-kubelet-client"]
                return api_server(self._files, self.ports, authority, self._serving, to_kubelets)
            case "kube-controller-manager":
                kubeconfig = self.kubeconfig(f"system:{CONTROLLER_MANAGER}")
                port = self.ports.controller_manager
                return controller_manager(self._files, port, kubeconfig, authority)
            case "kube-scheduler":
                kubeconfig = self.kubeconfig(f"system:{SCHEDULER}")
                return scheduler(self.ports.scheduler, kubeconfig)
        raise ClusterError(f"{program} is no program of a control plane; {CONTROL_PLANE} are")

    def _write_kubeconfig(self, name: str, text: str) -> Path:
        """One rename, as somebody may read it; a secret, so for its owner alone."""
        self._files.kubeconfigs.mkdir(exist_ok=True)
        file = self._files.kubeconfigs / name
        unfinished = file.with_name(f".{name}.{time.monotonic_ns()}")
        unfinished.touch(mode=0o600)
        unfinished.write_text(text)
        return unfinished.rename(file)


def _listed(objects: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
