"""A Node without a kubelet, its tree as scratch cgroups, and the agent on it as its own user.

Owns what tests of the agent in a cluster share. The rights that it gives are those of the chart.
"""

import json
import uuid
from pathlib import Path
from typing import Any

from tests.cluster.agent_process import ClusterAgent, eventually, quota
from tests.kernel.bed import Bed
from tools.cluster.control_plane import ControlPlane

USER = "slackwater-agent"
_POLICIES = "avoidanceactions,nodeqoss,nodeqosensurancepolicies,podqoss"
_SUFFIXES = (
    "",
    "-status",
    "-eviction",
    "-policies",
    "-metrics",
    "-predictions",
    "-topology",
    "-events",
    "-volcano",
)
#: So large that this machine's own load is a small part of it.
CPUS = 64
#: What 2 busy CPUs may take of a budget, and some more.
SLACK = 6_000


def allowed(percent: int, cpus: int = CPUS) -> int:
    return cpus * 10 * percent


class Stage:
    """A Node without a kubelet, its tree, and an agent on it."""

    def __init__(self, plane: ControlPlane, namespace: str, bed: Bed, folder: Path) -> None:
        self.plane, self.namespace, self.bed, self.folder = plane, namespace, bed, folder
        self.node = f"node-{uuid.uuid4().hex[:8]}"
        self.tier = f"{bed.kubepods}/besteffort"
        self.agents: list[ClusterAgent] = []
        for path in (bed.kubepods, f"{bed.kubepods}/burstable", self.tier):
            bed.make(path)
        self.plane.apply(_node(self.node))
        self.allocate(CPUS)
        self._allow()

    def _allow(self) -> None:
        """What the agent's service account gets from the chart, and no more."""
        self.plane.apply(
            _role("ClusterRole", "", "pods,nodes", "get,list,watch"),
            _role("ClusterRole", "-status", "nodes,nodes/status", "patch"),
            _role("ClusterRole", "-eviction", "pods/eviction", "create"),
            _role("ClusterRole", "-policies", _POLICIES, "list,watch", group="ensurance.crane.io"),
            _role("ClusterRole", "-metrics", "ensurancemetrics", "list,watch",
                  group="slackwater.io"),
            _role("ClusterRole", "-topology", "noderesourcetopologies",
                  "get,list,watch,create,update,delete", group="topology.node.k8s.io"),
            _role("ClusterRole", "-predictions", "timeseriespredictions", "list,watch",
                  group="prediction.crane.io"),
            _role("ClusterRole", "-events", "events", "create,patch"),
            _role("ClusterRole", "-volcano", "colocationconfigurations", "list,watch",
                  group="config.volcano.sh"),
            _role("Role", "", "configmaps", "list,watch", self.namespace,
                  names=["volcano-agent-configuration", "slackwater-agent"]),
            *(_binding("ClusterRole", suffix) for suffix in _SUFFIXES),
            _binding("Role", "", self.namespace),
        )  # fmt: skip

    def allocate(self, cpus: int) -> None:
        amounts = {"cpu": str(cpus), "memory": "8Gi"}
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        self.plane.kubectl("patch", "node", self.node, *patch)

    def label(self, text: str) -> None:
        self.plane.kubectl("label", "node", self.node, "--overwrite", text)

    def configure(self, text: str) -> None:
        data = {"colocation-config": text}
        self.plane.apply(config_map("volcano-agent-configuration", self.namespace, data))

    def throttle(self, threshold: int) -> None:
        section = {
            "enable": True,
            "cpuThrottlingThreshold": threshold,
            "cpuRecoverLimitPercent": 100,
        }
        self.configure(json.dumps({"globalConfig": {"cpuThrottlingConfig": section}}))

    def start(self) -> ClusterAgent:
        """As the agent's own user."""
        made = self.begin()
        eventually("the endpoint", made.is_listening)
        return made

    def begin(self, *arguments: str) -> ClusterAgent:
        where = ("--namespace", self.namespace)
        made = ClusterAgent(
            self.plane, self.bed, self.folder, self.node, *where, *arguments, user=USER
        )
        self.agents.append(made)
        return made

    def quota(self) -> int | None:
        return quota(self.bed, self.tier)

    def wait_for_share(self, percent: int, cpus: int = CPUS) -> None:
        high = allowed(percent, cpus)
        eventually(
            f"a quota of {high}m less what is used; it is {self.quota()}",
            lambda: (found := self.quota()) is not None and high - SLACK <= found <= high,
        )

    def events(self, reason: str) -> list[dict[str, Any]]:
        found = self.plane.get("events", "-A", "--field-selector", f"reason={reason}")
        return [each for each in found["items"] if each["source"].get("host") == self.node]

    def report(self) -> dict[str, Any]:
        annotations = self.plane.get("node", self.node)["metadata"].get("annotations", {})
        report: dict[str, Any] = json.loads(annotations.get("slackwater.io/report", "{}"))
        return report

    def condition(self) -> dict[str, Any]:
        conditions = self.plane.get("node", self.node)["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "SlackwaterActing"), {})

    def close(self) -> None:
        for agent in self.agents:
            agent.end()


def _node(name: str) -> dict[str, Any]:
    labels = {"volcano.sh/oversubscription": "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def config_map(name: str, namespace: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _role(
    kind: str, suffix: str, resources: str, verbs: str, namespace: str = "", group: str = "",
    names: list[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    rule = {
        "apiGroups": [group],
        "resources": resources.split(","),
        "verbs": verbs.split(","),
        "resourceNames": names or [],
    }
    metadata = {"name": f"{USER}{suffix}", "namespace": namespace}
    version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": [rule]}


def _binding(kind: str, suffix: str, namespace: str = "") -> dict[str, Any]:
    version = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{version}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": f"{USER}{suffix}", "namespace": namespace},
        "roleRef": {"apiGroup": version, "kind": kind, "name": f"{USER}{suffix}"},
        "subjects": [{"apiGroup": version, "kind": "User", "name": USER}],
    }
