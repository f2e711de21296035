"""Slackwater on the bed's real node, installed by its chart from the image of its Dockerfile.

Owns the release of the session's node and what the tests ask it. Writes no cgroup.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.install import IMAGE, MANAGER_IMAGE, REPOSITORY
from tests.cluster.chart import AGENT
from tools.children import Children
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import Node
from tools.cluster.processes import ClusterError, wait_for
from tools.image.__main__ import MANAGER as STAGE
from tools.image.__main__ import image_cache
from tools.image.building import build
from tools.manifests import CHART
from tools.provision import ROOT

RELEASE = "slackwater"
VOLCANO = "volcano-agent-configuration"
#: The seed's configuration (000_cpu_throttle.md), as Volcano's ConfigMap carries it.
SEED = {
    "globalConfig": {
        "cpuThrottlingConfig": {
            "enable": True,
            "cpuThrottlingThreshold": 80,
            "cpuJitterLimitPercent": 1,
            "cpuRecoverLimitPercent": 10,
        }
    }
}
#: Root has no CAP_SYS_RESOURCE on machines like CI's, so it cannot give it away; and several
#: kubelets' trees may stand on this host.
_VALUES = (
    f"image.repository={REPOSITORY}",
    "manager.replicas=1",
    # Takes its time at the end of each file; test_chart_on_node tries it.
    "manager.webhook.releaseOnUninstall=false",
    "agent.releaseOnUninstall.enabled=false",
    "agent.systemd=false",
    "agent.capabilities=null",
    "agent.kubeletConfig=/var/lib/kubelet/config.yaml",
)
_IMAGE_IN_POD = ("-c", "agent", "--")


class Installed:
    """Guards one release: the chart in a node's cluster, and the agent's pod there."""

    def __init__(self, plane: ControlPlane, node: Node) -> None:
        self.plane = plane
        self.node = node

    def open(self, *more: str) -> None:
        """With these values of the chart beside the usual ones."""
        self.node.import_image(build(Children(ROOT), ROOT, image_cache(), IMAGE))
        self.node.import_image(build(Children(ROOT), ROOT, image_cache(), MANAGER_IMAGE, STAGE))
        values = [word for value in (*_VALUES, *more) for word in ("--set", value)]
        place = ("-n", NAMESPACE, "--create-namespace")
        self.plane.helm("install", RELEASE, str(CHART), *place, *values)
        label = "pod-security.kubernetes.io/enforce=privileged"
        self.plane.kubectl("label", "namespace", NAMESPACE, label, "--overwrite")
        self.await_agent()
        self.agent("resume")  # another release of the chart may have been released by hand

    def close(self) -> None:
        """Everything back first: the chart's removal keeps values, as a rolling update must."""
        self._keep_words()
        try:
            self.agent("release")
        finally:
            self.plane.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")

    def _keep_words(self) -> None:
        """Beside the other programs' logs, which stay where a test failed."""
        name = self.pod["metadata"]["name"]
        for which in ("--previous=true", "--previous=false"):
            with contextlib.suppress(ClusterError):  # there may be no earlier one
                said = self.plane.kubectl("logs", "-n", NAMESPACE, name, which)
                with (self.plane.folder / "logs" / "agent.log").open("a") as log:
                    log.write(said)

    def await_agent(self) -> None:
        self.plane.kubectl(
            "rollout", "status", "-n", NAMESPACE, f"daemonset/{AGENT}", "--timeout=300s"
        )

    @property
    def pod(self) -> dict[str, Any]:
        """The agent's own."""
        chosen = ("-l", "app.kubernetes.io/component=agent", "-n", NAMESPACE)
        [found] = self.plane.get("pods", *chosen)["items"]
        return dict(found)

    def agent(self, *arguments: str) -> str:
        """`slackwater ...` inside the agent's container."""
        name = self.pod["metadata"]["name"]
        command = ("exec", "-n", NAMESPACE, name, *_IMAGE_IN_POD, "slackwater", *arguments)
        return self.plane.kubectl(*command)

    def metrics(self) -> dict[str, float]:
        """By name and labels, as they are printed."""
        address = self.pod["status"]["podIP"]
        page = self.node.get(f"http://{address}:10480/metrics").decode()
        rows = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    def restarts(self) -> int:
        statuses = self.pod["status"].get("containerStatuses") or [{"restartCount": 0}]
        return int(statuses[0]["restartCount"])

    def configure(self, config: dict[str, Any]) -> None:
        """Volcano's ConfigMap, in the namespace of the release."""
        head = {"name": VOLCANO, "namespace": NAMESPACE}
        data = {"colocation-config": json.dumps(config)}
        self.plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": data})

    def quota(self, path: str = "kubepods/besteffort") -> int | None:
        """In milliCPU, from the kernel itself; None is unlimited."""
        folder: Path = self.node.cgroup("cpu", path)
        if (folder / "cpu.max").exists():
            text, period = (folder / "cpu.max").read_text().split()
        else:
            text = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text()
        return None if text in ("max", "-1") else int(text) * 1000 // int(period)

    def report(self) -> dict[str, Any]:
        """What the Node's annotation says; nothing before the first."""
        found = self.plane.get("node", self.node.name)["metadata"].get("annotations", {})
        return dict(json.loads(found.get("slackwater.io/report", "{}")))

    def events(self, reason: str) -> list[dict[str, Any]]:
        """About the Node."""
        chosen = f"involvedObject.kind=Node,reason={reason}"
        return list(self.plane.get("events", "-n", "default", "--field-selector", chosen)["items"])

    def await_quota(self, what: str, low: int, high: int, patience: float = 300.0) -> int:
        def is_there() -> int | None:
            found = self.quota()
            return found if found is not None and low <= found <= high else None

        try:
            return int(wait_for(f"{what}: a quota of {low}..{high} m", is_there, patience) or 0)
        except ClusterError as error:
            raise AssertionError(f"{error}; it is {self.quota()} m") from error
