"""`slackwater agent` in cluster mode, on scratch cgroups of this host, and how it is asked.

Owns the agent's process. The kubelet's tree is a bed of real cgroups, so no kubelet is needed.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from slackwater.agent.agent_socket import socket_path
from slackwater.agent.endpoint_client import ask_agent
from tests.kernel.bed import Bed
from tests.kernel.running import is_listening
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

QUOTA = "cpu.cfs_quota_us"


class KubeletTree(Protocol):
    """What has a kubelet's tree: a bed of cgroups, or a real node."""

    @property
    def kubepods(self) -> str: ...


class ClusterAgent:
    """Guards one agent's process; its output goes to a file, which is read while it runs."""

    def __init__(
        self,
        plane: ControlPlane,
        bed: KubeletTree,
        folder: Path,
        node: str,
        *arguments: str,
        user: str,
    ) -> None:
        self._output = folder / "output"
        self.state = folder / "state"
        place = ("--state", str(self.state), "--kubepods", bed.kubepods)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "KUBE"))}
        with self._output.open("a") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "slackwater", "agent", "--node", node, *place,
                 "--kubeconfig", str(plane.kubeconfig(user)),
                 "--listen", "127.0.0.1:0", *arguments],
                stdout=output,
                stderr=output,
                env=clean,
            )  # fmt: skip

    def lines(self) -> list[dict[str, Any]]:
        """What it told so far."""
        text = self._output.read_text()
        assert "Traceback" not in text, text
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def quotas(self) -> list[str]:
        """Every quota that it has set."""
        effects = [line for line in self.lines() if line["what"].startswith("quota of")]
        return [line["after"] for line in effects if "after" in line]

    def told(self, what: str) -> list[str]:
        return [line["because"] for line in self.lines() if line["what"] == what]

    def text(self, path: str) -> str:
        """From its socket, whatever the status is."""
        return ask_agent(socket_path(str(self.state)), "GET", path, 300).body.decode()

    def get(self, path: str) -> Any:
        """The same; what is no page of metrics is JSON."""
        found = self.text(path)
        return found if path == "/metrics" else json.loads(found)

    def is_listening(self) -> bool:
        return is_listening(self.state)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def wait(self) -> int:
        return self._process.wait(60)

    def end(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(30)


def quota(bed: Bed, path: str) -> int | None:
    """In milliCPU; None is unlimited."""
    if bed.version.value == "v1":
        text = bed.read(path, QUOTA)
    else:
        text = bed.read(path, "cpu.max").split()[0]
    return None if text in ("-1", "max") else int(text) // 100


def eventually(what: str, look: Callable[[], Any], patience: float = 300.0) -> Any:
    return wait_for(what, look, patience)
