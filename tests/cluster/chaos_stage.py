"""Slackwater on a real node while its programs fall: what is wanted of the node, and what differs.

Owns the release of the chart, one throttled pod and the policy objects. What is wanted may change
at any moment; `differences` compares kernel, Node, policy objects and pods with it, and with the
baseline once everything was released.
"""

import json
import os
import time
from typing import Any

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.node_interference import ANNOTATION as INTERFERENCE
from slackwater.contract.node_interference import CONDITION, TAINT
from slackwater.contract.node_offer import ANNOTATION as OFFERED
from slackwater.model.elastic import ELASTIC_MEMORY
from tests.cluster.installed import Installed
from tests.cluster.managers import ensurance
from tools.chaos.faults import Faults
from tools.chaos.schedule import Step, Wish
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, REST, Node
from tools.cluster.processes import PATIENCE_SECONDS, ClusterError, wait_for

HOME = "chaos"
RESERVE = "reserve.node.gocrane.io/memory"
#: The pod's own limit, and minCPURatio of it, in milliCPU.
LIMIT, LOWEST = 500, 50
#: 80 % of a machine's CPUs.
_SHARE = 800
_SETTINGS = (
    "agent.settings.bestEffortShare.enabled=true",
    "agent.settings.oversold.enabled=true",
    "agent.settings.oversold.offer=memory",
    "agent.settings.oversold.warmUp=0s",
    "agent.settings.oversold.raiseInterval=1s",
    "agent.settings.oversold.raiseStep=100",
    "agent.settings.oversold.margin=0",
)
_KNOBS = ("cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.shares", "cpu.idle", "cpu.max", "cpu.weight",
          "cpu.max.burst")  # fmt: skip
_COMPONENTS = ("agent", "manager")
_KINDS = "nodeqoss,avoidanceactions,podqoss"


class ChaosStage:
    """Guards the release, and what is wanted now."""

    def __init__(self, plane: ControlPlane, node: Node) -> None:
        self.plane = plane
        self.node = node
        self.installed = Installed(plane, node)
        self.faults = Faults(plane, node)
        self.wanted = dict.fromkeys(Wish, False)
        self.baseline: dict[str, str] = {}

    def open(self) -> None:
        """The pod is there before the agent: its knobs then are the baseline."""
        self.plane.kubectl("create", "namespace", HOME)
        self.plane.await_service_account(HOME)
        self.plane.apply(_pod("batch"))
        self.plane.kubectl(
            "wait", "-n", HOME, "--for=condition=Ready", "pod/batch", "--timeout=300s"
        )
        self.baseline = self.knobs()
        self.installed.open(*_SETTINGS)
        self._keep_memory("100%")
        self.plane.apply(*_policies())
        for wish in Wish:
            self.flip(wish)

    def close(self) -> None:
        self.faults.mend()
        self.plane.kubectl("delete", _KINDS, "--all", "--ignore-not-found")
        self._keep_memory("")
        self.installed.close()
        self.plane.kubectl("delete", "namespace", HOME, "--wait=false")

    def flip(self, wish: Wish) -> None:
        """What was wanted is not, and the other way round."""
        self.wanted[wish] = wanted = not self.wanted[wish]
        if wish is Wish.OFFER:
            self._keep_memory("" if wanted else "100%")
        elif wanted:
            self.plane.apply(_rule(wish))
        else:
            self.plane.kubectl("delete", "nodeqos", _name(wish))

    def play(self, step: Step) -> None:
        """One step, and its end: whoever fell was started again."""
        if not step.during:
            self.flip(step.flips)
        for blow in step.blows:
            self.faults.strike(blow)
        if step.during:
            self.flip(step.flips)
        _pass(step.seconds)
        self.faults.mend()
        _pass(step.rest)

    def await_wanted(self, patience: float = PATIENCE_SECONDS) -> None:
        """Until nothing differs; AssertionError with what does."""
        try:
            wait_for("everything as wanted", lambda: not self.differences(), patience)
        except ClusterError:
            raise AssertionError("; ".join(self.differences())) from None

    def want_everything(self) -> None:
        for wish, wanted in tuple(self.wanted.items()):
            if not wanted:
                self.flip(wish)

    def differences(self) -> list[str]:
        """A sentence for each thing that is not as wanted."""
        node = self._node_object()
        return [*self._of_programs(node), *self._of_kernel(), *self._of_node(node),
                *self._of_policies()]  # fmt: skip

    def left(self) -> list[str]:
        """A sentence for each thing that is not as it was before us."""
        node = self._node_object()
        now = self.knobs()
        changed = [
            f"{name} is {now.get(name)}, it was {text}"
            for name, text in self.baseline.items()
            if now.get(name) != text
        ]
        noted = [f"the Node has {key}" for key in (INTERFERENCE, OFFERED)
                 if key in node["metadata"]["annotations"]]  # fmt: skip
        shown = [f"the Node has the taint {TAINT}"] if TAINT in _taints(node) else []
        shown += [f"the Node has the condition {CONDITION}"] if _condition(node) else []
        amounts = {**node["status"]["capacity"], **node["status"]["allocatable"]}
        shown += [f"the Node offers {ELASTIC_MEMORY}"] if ELASTIC_MEMORY in amounts else []
        return changed + noted + shown

    def release(self) -> None:
        """By hand, and waits for the baseline; the policies are there still."""
        self.installed.agent("release")
        try:
            wait_for("the baseline", lambda: not self.left())
        except ClusterError:
            raise AssertionError("; ".join(self.left())) from None

    def knobs(self) -> dict[str, str]:
        """Of the best-effort tier and the pod, as the kernel has them."""
        top = self.node.cgroup("cpu", "kubepods")
        files = (
            folder / name
            for place in (top / "besteffort", top / self._group())
            for folder in (place, *(each for each in place.iterdir() if each.is_dir()))
            if place.name != "besteffort" or folder == place
            for name in _KNOBS
        )
        return {
            str(file.relative_to(top)): file.read_text().strip() for file in files if file.exists()
        }

    def _group(self) -> str:
        uid = self.plane.get("pod", "batch", "-n", HOME)["metadata"]["uid"]
        return f"burstable/pod{uid}"

    def _node_object(self) -> dict[str, Any]:
        return dict(self.plane.get("node", self.node.name))

    def _keep_memory(self, share: str) -> None:
        said = f"{RESERVE}={share}" if share else f"{RESERVE}-"
        self.plane.kubectl("annotate", "node", self.node.name, said, "--overwrite")

    def _of_programs(self, node: dict[str, Any]) -> list[str]:
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        found = [] if conditions.get("Ready") == "True" else ["the Node is not Ready"]
        for component in _COMPONENTS:
            label = f"app.kubernetes.io/component={component}"
            pods = self.plane.get("pods", "-n", NAMESPACE, "-l", label)["items"]
            ready = [each for each in pods if _is_ready(each)]
            found += [] if len(pods) == len(ready) == 1 else [f"the {component} is not ready"]
        return found

    def _of_kernel(self) -> list[str]:
        tier, most = self.installed.quota(), _SHARE * (os.cpu_count() or 1)
        found = []
        if tier is None or not 0 < tier <= most:
            found.append(f"the best-effort tier's quota is {tier} m, not 1 to {most}")
        pod = self.plane.get("pod", "batch", "-n", HOME)
        identity = pod["status"]["containerStatuses"][0]["containerID"].partition("//")[2]
        wanted = LOWEST if self.wanted[Wish.THROTTLE] else LIMIT
        seen = self.installed.quota(f"kubepods/{self._group()}/{identity}")
        return found if seen == wanted else [*found, f"the pod's quota is {seen} m, not {wanted}"]

    def _of_node(self, node: dict[str, Any]) -> list[str]:
        found = []
        tainted, marked = TAINT in _taints(node), _condition(node) == "True"
        if (tainted, marked) != (self.wanted[Wish.TAINT],) * 2:
            found.append(f"taint {tainted} and condition {marked}, not {self.wanted[Wish.TAINT]}")
        shown = {node["status"][key].get(ELASTIC_MEMORY) for key in ("capacity", "allocatable")}
        sold = len(shown) == 1 and int(shown.pop() or 0) > 0
        if sold != self.wanted[Wish.OFFER]:
            found.append(f"memory is offered: {sold}, not {self.wanted[Wish.OFFER]}")
        annotations = node["metadata"]["annotations"]
        if ELASTIC_MEMORY not in annotations.get(OFFERED, ""):
            found.append(f"{OFFERED} does not name {ELASTIC_MEMORY}")
        report = json.loads(annotations.get("slackwater.io/report", "{}"))
        rules = {name.partition("/")[2] for name in report.get("rules", {})}
        wanted = {_name(wish) for wish in (Wish.TAINT, Wish.THROTTLE) if self.wanted[wish]}
        if report.get("policies", {}).get("best_effort_share") != "on" or rules != wanted:
            found.append(f"the report has the rules {sorted(rules)}, not {sorted(wanted)}")
        return found

    def _of_policies(self) -> list[str]:
        """What the manager says of each."""
        listed = self.plane.get("nodeqoss")["items"]
        return [
            f"{each['metadata']['name']} is not said to be enforced and triggered"
            for each in listed
            if {"Enforced", "Triggered"} - _true(each)
        ]


def _pass(seconds: float) -> None:
    """Time that has to pass while nothing is there to be waited for."""
    time.sleep(seconds)


def _true(document: dict[str, Any]) -> set[str]:
    found = document.get("status", {}).get("conditions", [])
    return {each["type"] for each in found if each["status"] == "True"}


def _is_ready(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and "Ready" in _true(pod)


def _taints(node: dict[str, Any]) -> set[str]:
    return {each["key"] for each in node["spec"].get("taints", [])}


def _condition(node: dict[str, Any]) -> str:
    found = node["status"]["conditions"]
    return next((each["status"] for each in found if each["type"] == CONDITION), "")


def _name(wish: Wish) -> str:
    return f"chaos-{wish.value}"


def _policies() -> list[dict[str, Any]]:
    """Actions, and whom they may touch."""
    step = {"cpuThrottle": {"stepCPURatio": 50, "minCPURatio": 10}}
    return [
        ensurance("AvoidanceAction", _name(Wish.TAINT), {"coolDownSeconds": 1}),
        ensurance("AvoidanceAction", _name(Wish.THROTTLE),
                  {"coolDownSeconds": 1, "throttle": step}),
        ensurance("PodQOS", "chaos", {"labelSelector": {"matchLabels": {"app": "batch"}},
                                      "allowedActions": [_name(Wish.THROTTLE)]}),
    ]  # fmt: skip


def _rule(wish: Wish) -> dict[str, Any]:
    """Always triggered."""
    rule = {
        "name": wish.value,
        "avoidanceThreshold": 1,
        "restoreThreshold": 1,
        "actionName": _name(wish),
        "strategy": "None",
        "metricRule": {"name": "cpu_total_usage", "value": 1},
    }
    probe = {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
    return ensurance("NodeQOS", _name(wish), {"nodeQualityProbe": probe, "rules": [rule]})


def _pod(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", REST],
        "resources": {"requests": {"cpu": "20m"}, "limits": {"cpu": f"{LIMIT}m"}},
    }
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    metadata = {"name": name, "namespace": HOME, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
