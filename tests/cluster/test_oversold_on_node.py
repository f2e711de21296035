"""Idle CPU and memory are sold on a real node: API server, scheduler, kubelet, kernel.

The tests of this file are one story, told in their order: each begins where the last one ended.
Memory is what is sold in most of them: how much of it is idle does not depend on what else this
machine does.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.model.decision import OfferReport
from slackwater.record.recording import decode_recording
from tests.cluster.chart import AGENT
from tests.cluster.installed import Installed
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, Node
from tools.cluster.processes import wait_for

HOME = "oversold"
CPU, MEMORY = "gocrane.io/cpu", "gocrane.io/memory"
MIB = 1 << 20
RESERVE = "reserve.node.gocrane.io/{}"
CRANE = "ensurance.crane.io/v1alpha1"
#: What a pod takes at once, and what the offer falls by at least.
LOAD, FALL = 256 * MIB, 128 * MIB
_SETTINGS = (
    "agent.settings.oversold.enabled=true",
    "agent.settings.oversold.warmUp=0s",
    "agent.settings.oversold.raiseInterval=1s",
    "agent.settings.oversold.raiseStep=100",
    "agent.settings.oversold.margin=0",
    # What the machine did before is soon forgotten: the next minutes may leave a CPU idle.
    "agent.settings.oversold.percentile=50",
    "agent.settings.oversold.halfLife=1m",
    "agent.settings.oversold.reserveCpu=0",
    "agent.settings.elasticResources.enabled=true",
)


def pod(name: str, script: str, amounts: dict[str, str], **resources: Any) -> dict[str, Any]:
    asked = {"requests": amounts, "limits": amounts} if amounts else resources
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": asked,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME, "labels": {"app": name}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
        },
    }


class Shop:
    """Guards the release, and what the tests look at."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.plane = installed.plane
        self.node = installed.node.name

    def node_object(self) -> dict[str, Any]:
        return dict(self.plane.get("node", self.node))

    def shown(self, resource: str) -> int | None:
        """In capacity and in allocatable; None where one of them lacks it."""
        status = self.node_object()["status"]
        found = {status[key].get(resource) for key in ("capacity", "allocatable")}
        [only] = found if len(found) == 1 else [None]
        return None if only is None else int(only)

    def keep(self, resource: str, share: str) -> None:
        """The reserve that the Node's owner asks for; "-" asks for none."""
        name = RESERVE.format(resource)
        said = f"{name}-" if share == "-" else f"{name}={share}"
        self.plane.kubectl("annotate", "node", self.node, said, "--overwrite")

    def phase(self, name: str) -> str:
        return str(self.plane.get("pod", name, "-n", HOME)["status"]["phase"])

    def start(self, name: str, script: str, amounts: dict[str, str], **resources: Any) -> None:
        self.plane.apply(pod(name, script, amounts, **resources))

    def delete(self, name: str) -> None:
        self.plane.kubectl("delete", "pod", name, "-n", HOME, "--ignore-not-found")

    def await_phase(self, name: str, phase: str) -> None:
        wait_for(f"{name} to be {phase}", lambda: self.phase(name) == phase)

    def await_refusal(self, name: str) -> None:
        """The scheduler looked, and found no node."""

        def is_refused() -> bool:
            found = self.plane.get("pod", name, "-n", HOME)["status"].get("conditions") or []
            return any(each.get("reason") == "Unschedulable" for each in found)

        wait_for(f"{name} to be refused", is_refused)

    def offer(self, resource: str) -> dict[str, Any]:
        said = json.loads(self.installed.agent("explain", "node", "-o", "json"))
        rows = said["items"] if isinstance(said, dict) else said
        offers = (each for row in rows for each in row.get("offers", ()))
        return next((each for each in offers if each["resource"] == resource), {})

    def looks(self) -> list[tuple[int, OfferReport]]:
        """What every tick that the agent still knows saw and offered, of both resources."""
        told = self.installed.agent("record").encode()
        return [
            (tick.line.snapshot.tick, offer)
            for tick in decode_recording(told).ticks
            for line in tick.line.story.told
            for offer in line.offers
        ]

    def group_of(self, name: str) -> str:
        """Its container's, in the best-effort tier."""
        found = self.plane.get("pod", name, "-n", HOME)
        uid = found["metadata"]["uid"]
        identity = found["status"]["containerStatuses"][0]["containerID"].partition("//")[2]
        return f"kubepods/besteffort/pod{uid}/{identity}"

    def quota_of(self, name: str) -> int | None:
        return self.installed.quota(self.group_of(name))

    def shares_of(self, name: str) -> int:
        folder = self.installed.node.cgroup("cpu", self.group_of(name))
        return int((folder / "cpu.shares").read_text())

    def set_rule(self, above: int) -> None:
        """Above so many milliCPU of the whole node its workers are throttled."""
        throttle = {"cpuThrottle": {"minCPURatio": 10, "stepCPURatio": 50}}
        rule = {
            "name": "busy",
            "avoidanceThreshold": 1,
            "restoreThreshold": 1,
            "actionName": "push-back",
            "metricRule": {"name": "cpu_total_usage", "value": above},
        }
        probe = {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
        allowed = {
            "allowedActions": ["push-back"],
            "labelSelector": {"matchLabels": {"app": "worker"}},
        }
        for kind, name, spec in (
            ("AvoidanceAction", "push-back", {"coolDownSeconds": 1, "throttle": throttle}),
            ("PodQOS", "workers", allowed),
            ("NodeQOS", "busy", {"nodeQualityProbe": probe, "rules": [rule]}),
        ):
            head = {"apiVersion": CRANE, "kind": kind, "metadata": {"name": name}}
            self.plane.apply({**head, "spec": spec})


@pytest.fixture(scope="module")
def shop(control_plane: ControlPlane, node: Node) -> Iterator[Shop]:
    control_plane.kubectl("create", "namespace", HOME)
    control_plane.await_service_account(HOME)
    installed = Installed(control_plane, node)
    installed.open(*_SETTINGS)
    try:
        yield Shop(installed)
    finally:
        for resource in ("cpu", "memory"):
            Shop(installed).keep(resource, "-")
        kinds = "nodeqoss,avoidanceactions,podqoss"
        control_plane.kubectl("delete", kinds, "--all", "--ignore-not-found")
        installed.close()
        control_plane.kubectl("delete", "namespace", HOME, "--wait=false")


def test_idle_memory_is_offered(shop: Shop) -> None:
    wait_for("an offer", lambda: shop.shown(MEMORY))
    offer = shop.offer(MEMORY)
    most = offer["allocatable"] * 80 // 100
    assert 0 < offer["offered"] <= most - offer["unreclaimable"]

    def note() -> str:
        return str(shop.node_object()["metadata"]["annotations"]["slackwater.io/oversold"])

    # Usage of CPU is a rate, so it is known a tick later than usage of memory.
    wait_for("both resources", lambda: note() == f"{CPU},{MEMORY}")


def test_a_step_of_load_is_taken_off_the_offer_by_the_look_that_sees_it(shop: Shop) -> None:
    before = shop.shown(MEMORY)
    assert before
    load = pod("eater", "dd if=/dev/zero of=/taken/it bs=1M count=256; sleep 1000000", {})
    load["spec"]["volumes"] = [{"name": "taken", "emptyDir": {"medium": "Memory"}}]
    load["spec"]["containers"][0]["volumeMounts"] = [{"name": "taken", "mountPath": "/taken"}]
    shop.plane.apply(load)
    checked: set[int] = set()

    def is_less() -> bool:
        checked.update(check_looks(shop.looks()))
        return (shop.shown(MEMORY) or 0) <= before - FALL

    wait_for("the Node to show less", is_less)
    assert len(checked) > 1
    shop.delete("eater")


def check_looks(looks: list[tuple[int, OfferReport]]) -> set[int]:
    """At each look: what is sold and what is used, as far as it was not sold, are within what is
    allocatable less the reserve; but for what pods have, which is never taken from under them. So
    the look that sees more used is the one that offers less. The ticks that were looked at."""
    assert {each.resource for _, each in looks} == {CPU, MEMORY}
    for _, each in looks:
        used, allocatable = each.unreclaimable(), each.allocatable
        assert each.offered >= each.allocated >= 0
        if each.offered > each.allocated and used is not None and allocatable is not None:
            room = allocatable * (1000 - each.reserve)
            assert (each.offered * each.scale + used) * 1000 <= room, each
    return {tick for tick, _ in looks}


def test_a_pod_is_placed_only_while_it_is_offered(shop: Shop) -> None:
    shop.keep("memory", "100%")
    wait_for("nothing to be offered", lambda: shop.shown(MEMORY) == 0)
    shop.start("buyer", "while :; do sleep 1; done", {MEMORY: str(64 * MIB)})
    shop.await_refusal("buyer")
    shop.keep("memory", "50%")
    shop.await_phase("buyer", "Running")
    assert shop.plane.get("pod", "buyer", "-n", HOME)["status"]["qosClass"] == "BestEffort"


def test_what_a_pod_has_is_offered_whatever_is_left(shop: Shop) -> None:
    shop.keep("memory", "100%")
    wait_for("what the pod has", lambda: shop.shown(MEMORY) == 64 * MIB)
    assert shop.offer(MEMORY)["allocated"] == 64 * MIB


def test_a_kubelet_that_restarts_loses_no_pod(shop: Shop) -> None:
    """It zeroes extended resources where there are no device plug-ins, and checks its pods."""
    uid = shop.plane.get("pod", "buyer", "-n", HOME)["metadata"]["uid"]
    shop.installed.node.restart_kubelet()
    wait_for("the offer", lambda: shop.shown(MEMORY) == 64 * MIB)
    wait_for("the node", lambda: _is_ready(shop.node_object()))
    after = shop.plane.get("pod", "buyer", "-n", HOME)
    assert (after["metadata"]["uid"], after["status"]["phase"]) == (uid, "Running")
    assert shop.shown(MEMORY) == 64 * MIB


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
    return conditions.get("Ready") == "True"


def test_an_agent_that_restarts_keeps_the_offer(shop: Shop) -> None:
    shop.plane.kubectl("rollout", "restart", "-n", NAMESPACE, f"daemonset/{AGENT}")
    shop.installed.await_agent()
    wait_for("the new agent's offer", lambda: shop.offer(MEMORY).get("allocated") == 64 * MIB)
    assert shop.shown(MEMORY) == 64 * MIB
    assert shop.phase("buyer") == "Running"
    shop.keep("memory", "-")
    wait_for("more again", lambda: (shop.shown(MEMORY) or 0) > 64 * MIB)


def test_bought_cpu_has_a_quota_and_falls_with_load(shop: Shop) -> None:
    """Needs a machine that leaves a CPU idle for a moment."""
    shop.keep("cpu", "100%")
    wait_for("no CPU to be offered", lambda: shop.shown(CPU) == 0)
    shop.start("worker", "while :; do :; done", {CPU: "1"})
    shop.await_refusal("worker")
    shop.keep("cpu", "-")
    wait_for("the worker to run", lambda: shop.phase("worker") == "Running", 1700)
    assert shop.plane.get("pod", "worker", "-n", HOME)["status"]["qosClass"] == "BestEffort"
    wait_for("its quota", lambda: shop.quota_of("worker") == 1000)
    wait_for("its weight", lambda: shop.shares_of("worker") == 1024)
    shop.start("load", "for i in 1 2 3 4; do while :; do :; done & done; wait", {},
               requests={"cpu": "100m"})  # fmt: skip
    shop.await_phase("load", "Running")
    wait_for("the offer to fall to what is sold", lambda: shop.shown(CPU) == 1)
    assert shop.phase("worker") == "Running"
    check_looks(shop.looks())


def test_a_busy_node_pushes_it_back_and_gives_it_back(shop: Shop) -> None:
    """To a tenth of what it bought, at the lowest weight; QoS ensurance acts on it as on others."""
    shop.set_rule(above=1)
    wait_for("the least", lambda: shop.quota_of("worker") == 100)
    shop.set_rule(above=1_000_000)
    wait_for("its quota again", lambda: shop.quota_of("worker") == 1000)
    wait_for("its weight again", lambda: shop.shares_of("worker") == 1024)
    assert shop.phase("worker") == "Running"
    check_looks(shop.looks())


def test_switched_off_it_goes_and_the_pods_stay(shop: Shop) -> None:
    shop.delete("load")
    shop.installed.agent("release")
    wait_for("the resources to go", lambda: shop.shown(MEMORY) is None)
    assert shop.shown(CPU) is None
    annotations = shop.node_object()["metadata"]["annotations"]
    assert "slackwater.io/oversold" not in annotations
    assert shop.phase("buyer") == "Running"
    assert shop.installed.restarts() == 0
