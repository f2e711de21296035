"""The whole: the chart's agent on a real node keeps a real best-effort pod from a busy one.

By the seed's rules (000_cpu_throttle.md), read from Volcano's own ConfigMap and node label. The
tests of this file are one story, told in their order: each begins where the last one ended.
"""

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from tests.cluster.installed import SEED, VOLCANO, Installed
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, Node
from tools.cluster.processes import wait_for

HOME = "proof"
#: 80 % of two CPUs.
ALLOWED = 1600
#: A busy pod burns what it may on a quiet machine; other work on this one may leave it less.
CLEARLY_BUSY = 400
#: Seconds after which a restarted kubelet has written its tiers (0.2 s were measured).
REWRITTEN_WITHIN = 3
#: 5 % of two CPUs: less is not written to the Node.
NO_NEWS = 100
QUOTA_METRIC = 'slackwater_tier_cpu_quota_cores{tier="besteffort"}'
#: Idle until a file is there.
SERVICE = "while :; do if [ -e /busy ]; then :; else sleep 0.1; fi; done"
HOG = f"({SERVICE}) & {SERVICE}"
#: Enough to be clearly busy: the story is long, and other stages of a test run want CPUs, too.
SERVICE_CPU = {"requests": {"cpu": "500m"}, "limits": {"cpu": "700m"}}
LABEL = "volcano.sh/oversubscription"


def pod(name: str, script: str, resources: dict[str, Any]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": resources,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


@pytest.fixture(scope="module")
def slackwater(control_plane: ControlPlane, node: Node) -> Iterator[Installed]:
    control_plane.kubectl("create", "namespace", HOME)
    control_plane.await_service_account(HOME)
    installed = Installed(control_plane, node)
    installed.open()
    try:
        control_plane.apply(pod("hog", HOG, {}))
        control_plane.apply(pod("service", SERVICE, SERVICE_CPU))
        control_plane.kubectl(
            "wait", "-n", HOME, "--for=condition=Ready", "pod/hog", "pod/service", "--timeout=300s"
        )
        yield installed
    finally:
        installed.close()
        control_plane.kubectl("delete", "namespace", HOME, "--wait=false")


def be_busy(slackwater: Installed, name: str = "service") -> None:
    slackwater.plane.kubectl("exec", "-n", HOME, name, "--", "busybox", "touch", "/busy")


def be_calm(slackwater: Installed, name: str = "service") -> None:
    slackwater.plane.kubectl("exec", "-n", HOME, name, "--", "busybox", "rm", "-f", "/busy")


def used_by(slackwater: Installed, tier: str, seconds: float = 3.0) -> int:
    """In milliCPU, from the kernel's exact counter."""
    counter = slackwater.node.cgroup("cpuacct", f"kubepods/{tier}") / "cpuacct.usage"
    began, before = time.monotonic_ns(), int(counter.read_text())
    time.sleep(seconds)
    return 1000 * (int(counter.read_text()) - before) // (time.monotonic_ns() - began)


def explained(slackwater: Installed) -> dict[str, Any]:
    """What explain says of the best-effort tier's quota."""
    answers = json.loads(slackwater.agent("explain", "besteffort", "-o", "json"))
    rows = answers["items"] if isinstance(answers, dict) else answers
    [row] = [each for each in rows if each["knob"] == "quota" and each["level"] == "tier"]
    return dict(row)


def reported(slackwater: Installed) -> bool:
    """Whether the Node's report has the kernel's quota, within what is worth a write."""
    told, kernel = slackwater.report().get("bestEffort", {}).get("quota", ""), slackwater.quota()
    return told.endswith("m") and abs(int(told[:-1]) - (kernel or 0)) <= NO_NEWS


def test_without_a_configuration_it_only_watches(slackwater: Installed) -> None:
    assert slackwater.quota() is None

    def says_off() -> bool:
        """The Node may still carry the report of another test's agent."""
        policies = slackwater.report().get("policies", {})
        return str(policies.get("best_effort_share", "")).startswith("off: ")

    wait_for("a report that the policy is off", says_off)
    assert slackwater.quota() is None


def test_volcanos_configuration_and_label_switch_it_on(slackwater: Installed) -> None:
    """Without a restart; the tier may have what the seed's formula says."""
    slackwater.configure(SEED)
    slackwater.plane.kubectl("label", "node", slackwater.node.name, f"{LABEL}=true")
    quota = slackwater.await_quota("the seed's rules", 1, ALLOWED)
    assert quota <= ALLOWED
    assert slackwater.restarts() == 0


def test_a_busy_burstable_pod_throttles_best_effort(slackwater: Installed) -> None:
    be_busy(slackwater, "hog")
    be_busy(slackwater)
    wait_for("the pod to be busy", lambda: used_by(slackwater, "burstable") > CLEARLY_BUSY)
    used = used_by(slackwater, "burstable")
    slackwater.await_quota("a busy service", 1, ALLOWED - used // 2)
    # Two looks later nothing of the old budget is left to it.
    taken = used_by(slackwater, "besteffort")
    assert 0 < taken <= ALLOWED - used // 2
    be_calm(slackwater, "hog")


def test_everyone_tells_the_same(slackwater: Installed) -> None:
    """The kernel, explain, /metrics, the Node's report and its events."""

    def agreed() -> bool:
        kernel = slackwater.quota()
        row = explained(slackwater)
        told = slackwater.metrics()[QUOTA_METRIC]
        return {row["now"], row["granted"], f"{told * 1000:.0f}m"} == {f"{kernel}m"}

    wait_for("kernel, explain and metrics to agree", agreed)
    [because] = {c["because"]["signal"] for c in explained(slackwater)["contributions"]}
    assert because
    events = wait_for("the event", lambda: slackwater.events("NodeCPUThrottle"))
    assert events[0]["involvedObject"]["name"] == slackwater.node.name
    wait_for("the report", lambda: slackwater.report()["policies"]["best_effort_share"] == "on")
    wait_for("its quota", partial(reported, slackwater))
    listed = slackwater.plane.kubectl("get", "node", slackwater.node.name, "-o", "json")
    conditions = {c["type"]: c for c in json.loads(listed)["status"]["conditions"]}
    assert conditions["SlackwaterActing"]["status"] == "True"


def test_a_pod_deleted_between_two_looks_is_no_problem(slackwater: Installed) -> None:
    plane = slackwater.plane
    plane.apply(pod("short", "sleep 1000", {}))
    plane.kubectl("wait", "-n", HOME, "--for=condition=Ready", "pod/short", "--timeout=300s")
    plane.kubectl("delete", "-n", HOME, "pod/short", "--grace-period=0", "--force")
    slackwater.await_quota("a pod less", 1, ALLOWED)
    assert slackwater.restarts() == 0
    assert slackwater.report().get("problems", []) == []


def test_a_restarted_kubelet_does_not_let_best_effort_loose(slackwater: Installed) -> None:
    """It writes the tiers' values anew as soon as it is up."""
    slackwater.node.restart_kubelet()
    wait_for("the kubelet", slackwater.node.is_healthy)
    for _ in range(REWRITTEN_WITHIN):
        slackwater.await_quota("after the kubelet's restart", 1, ALLOWED)
        time.sleep(1.0)
    assert slackwater.restarts() == 0


def test_killed_it_comes_back_and_goes_on(slackwater: Installed) -> None:
    """The quota stands while nobody watches, and is still known to be ours afterwards."""
    before = slackwater.restarts()
    identity = slackwater.pod["status"]["containerStatuses"][0]["containerID"].partition("//")[2]
    slackwater.node.run(
        "ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", identity
    )
    assert slackwater.quota() is not None
    wait_for("the restart", lambda: slackwater.restarts() > before)
    assert slackwater.quota() is not None
    slackwater.await_agent()
    wait_for("explain to know it", lambda: explained(slackwater)["baseline"] == "unlimited")


def test_a_broken_configuration_keeps_the_last_good_one(slackwater: Installed) -> None:
    head = {"name": VOLCANO, "namespace": NAMESPACE}
    broken = {"colocation-config": '{"globalConfig": '}
    slackwater.plane.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": broken}
    )
    problems = wait_for("the sentence", lambda: slackwater.report().get("problems", []))
    assert VOLCANO in problems[0]
    assert slackwater.quota() is not None
    told = _applied(slackwater)
    slackwater.configure(SEED)
    wait_for("the event that it counts again", lambda: _applied(slackwater) > told)


def _applied(slackwater: Installed) -> int:
    """How often a configuration was told to count; the report says it too, a minute later."""
    return sum(each["count"] for each in slackwater.events("ConfigApplySuccess"))


def test_calm_again_best_effort_gets_its_share_back(slackwater: Installed) -> None:
    throttled = slackwater.quota()
    be_calm(slackwater)
    assert throttled is not None
    slackwater.await_quota("a calm service", throttled + 1, ALLOWED)


def test_released_everything_is_as_the_kubelet_made_it(slackwater: Installed) -> None:
    slackwater.agent("release")
    assert slackwater.quota() is None
