"""A control plane on loopback: etcd, the API server, the controller manager, the scheduler.

Owns those programs and one folder with all that they read and write. Several can run side by side.
Each program can be killed, paused and started again, and finds its state as it was.
"""

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tools.cluster import arguments, kubeconfigs
from tools.cluster.arguments import (
    API_SERVER,
    API_SERVICE_ADDRESS,
    AUDIT_POLICY,
    CONTROL_PLANE,
    CONTROLLER_MANAGER,
    SCHEDULER,
    Files,
    Ports,
)
from tools.cluster.calling import answers, trusting, unchecked
from tools.cluster.certificates import (
    ADMIN,
    USERS,
    Authority,
    User,
    api_server_hosts,
    file_name,
    write_service_account_key,
)
from tools.cluster.failure import ClusterError
from tools.cluster.ports import LOOPBACK, free_ports
from tools.cluster.processes import Processes
from tools.cluster.reading import Reading
from tools.cluster.waiting import wait_for

#: Of one call of kubectl or helm, which may wait for something itself.
COMMAND_SECONDS = 120.0


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
        text = kubeconfigs.by_certificate(self.server, self.authority.certificate, identity)
        return self._write_kubeconfig(file_name(wanted), text)

    def token_kubeconfig(self, name: str, token: str) -> Path:
        """For whoever has the token, such as a service account; `name` is the file's."""
        text = kubeconfigs.by_token(self.server, self.authority.certificate, token)
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
                return arguments.etcd(self._files, self.ports)
            case "kube-apiserver":
                to_kubelets = self._clients["kube-apiserver-kubelet-client"]
                return arguments.api_server(
                    self._files, self.ports, authority, self._serving, to_kubelets
                )
            case "kube-controller-manager":
                kubeconfig = self.kubeconfig(f"system:{CONTROLLER_MANAGER}")
                port = self.ports.controller_manager
                return arguments.controller_manager(self._files, port, kubeconfig, authority)
            case "kube-scheduler":
                kubeconfig = self.kubeconfig(f"system:{SCHEDULER}")
                return arguments.scheduler(self.ports.scheduler, kubeconfig)
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
