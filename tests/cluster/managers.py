"""Managers as processes of their own, beside a real API server."""

import contextlib
import datetime as dt
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slackwater.cli.install import REPOSITORY
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

CHART = Path(__file__).parents[2] / "charts" / "slackwater"
USER_AGENT = "slackwater-manager/"
#: Of the objects that these tests make.
OURS = {"made-by": "managers"}
PROBE = {"nodeLocalGet": {"localCacheTTLSeconds": 60}}


def install_kinds(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "-f", str(CHART / "crds"))
    control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")


def ensurance(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "ensurance.crane.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": OURS},
        "spec": spec,
    }


def policy(name: str, action: str, selector: dict[str, str] | None = None) -> dict[str, Any]:
    rule = {
        "name": "cpu-usage",
        "avoidanceThreshold": 2,
        "restoreThreshold": 2,
        "actionName": action,
        "metricRule": {"name": "cpu_total_usage", "value": 6000},
    }
    spec: dict[str, Any] = {"nodeQualityProbe": PROBE, "rules": [rule]}
    if selector is not None:
        spec["selector"] = {"matchLabels": selector}
    return ensurance("NodeQOS", name, spec)


def action(name: str) -> dict[str, Any]:
    throttle = {"cpuThrottle": {"minCPURatio": 10, "stepCPURatio": 10}}
    return ensurance("AvoidanceAction", name, {"throttle": throttle})


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def charts_role(plane: ControlPlane) -> Path:
    """A kubeconfig of the service account to which the chart grants what a manager may do."""
    parts = ("manager-rbac", "manager-serviceaccount")
    shown = [word for part in parts for word in ("--show-only", f"templates/{part}.yaml")]
    shown += ["--set", f"image.repository={REPOSITORY}"]
    made = plane.helm("template", "slackwater", str(CHART), "-n", "slackwater-system", *shown)
    plane.kubectl("apply", "-f", "-", given=made)
    token = plane.kubectl("create", "token", "slackwater-manager", "-n", "slackwater-system")
    return plane.token_kubeconfig("manager", token.strip())


def remove_policies(control_plane: ControlPlane) -> None:
    control_plane.kubectl("delete", "nodeqos,avoid,nep,pq", "-l", "made-by=managers")


class ManagerProcess:
    """One replica, its lines, and its endpoint."""

    def __init__(
        self, kubeconfig: Path, namespace: str, identity: str, log: Path, *arguments: str
    ) -> None:
        self.identity = identity
        self._log = log
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "POD_"))}
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "slackwater", "manager", "--kubeconfig", str(kubeconfig),
                    "--namespace", namespace, "--identity", identity, "--listen", "127.0.0.1:0",
                    *arguments,
                ],
                stdout=out, stderr=subprocess.STDOUT, env=environ,
            )  # fmt: skip

    def lines(self) -> list[dict[str, Any]]:
        whole = self._log.read_text().split("\n")[:-1]
        return [json.loads(line) for line in whole]

    def ask(self, path: str) -> tuple[int, str]:
        said = wait_for(
            f"{self.identity} to listen",
            lambda: [line["because"] for line in self.lines() if line["what"] == "endpoint"],
        )
        port = int(said[0].rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def leads(self) -> bool:
        return '"leads":true' in self.ask("/readyz")[1]

    def is_ready(self) -> bool:
        return self.ask("/readyz")[0] == 200

    def memory(self) -> float:
        """Resident, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """As the kubelet does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=300)


class Crew:
    """Replicas that share a lease; all are gone at the end."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self._place = (kubeconfig, namespace)
        self._folder = folder
        self.all: list[ManagerProcess] = []

    def add(self, *arguments: str) -> ManagerProcess:
        """`arguments` are further ones of `slackwater manager`."""
        identity = f"replica-{len(self.all)}"
        log = self._folder / f"{identity}.log"
        made = ManagerProcess(*self._place, identity, log, *arguments)
        self.all.append(made)
        wait_for(f"{identity} to be ready", made.is_ready)
        return made

    def leader(self) -> ManagerProcess | None:
        alive = [each for each in self.all if each.process.poll() is None]
        return next((each for each in alive if each.leads()), None)


@contextlib.contextmanager
def crew(kubeconfig: Path, namespace: str, folder: Path) -> Iterator[Crew]:
    made = Crew(kubeconfig, namespace, folder)
    try:
        yield made
    finally:
        for each in made.all:
            if each.process.poll() is None:
                each.kill()


def condition(
    control_plane: ControlPlane, name: str, kind: str = "Valid", resource: str = "nodeqos"
) -> dict[str, Any]:
    found = control_plane.get(resource, name).get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


def writes(control_plane: ControlPlane, since: float) -> list[str]:
    """What managers asked to be changed since then (a time of day), but for their leases."""
    return [
        f"{line['verb']} {line['objectRef']['resource']} {line['objectRef'].get('name')}"
        for line in control_plane.audit()
        if line.get("userAgent", "").startswith(USER_AGENT)
        and line["verb"] not in ("get", "list", "watch")
        and line["objectRef"]["resource"] != "leases"
        and received_at(line) >= since
    ]


def received_at(line: dict[str, Any]) -> float:
    """Seconds since 1970, of a line of the audit log."""
    return dt.datetime.fromisoformat(line["requestReceivedTimestamp"]).timestamp()
