"""The chart with the real image on a real kubelet: the programs come up, and say what they do."""

import datetime as dt
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.install import IMAGE, MANAGER_IMAGE, REPOSITORY
from slackwater.contract.koordinator.amplification import RECORD_ANNOTATION
from tests.cluster.chart import AGENT, MANAGER
from tests.cluster.managers import received_at
from tests.unit.cli.in_process import run_command
from tools.children import Children
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import Node
from tools.cluster.processes import wait_for
from tools.image.__main__ import MANAGER as STAGE
from tools.image.__main__ import image_cache
from tools.image.building import build
from tools.manifests import CHART
from tools.provision import ROOT

#: This machine may have no CAP_SYS_RESOURCE to give; the node's cgroup root is below the host's.
VALUES = (
    f"image.repository={REPOSITORY}",
    "agent.capabilities=null",
    "agent.kubeletConfig=/var/lib/kubelet/config.yaml",
    "agent.settings.bestEffortShare.enabled=true",
    "manager.replicas=1",
    "image.pullPolicy=Never",
)


@pytest.fixture(scope="module")
def archive() -> Path:
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    return build(Children(ROOT), ROOT, image_cache(), IMAGE)


@pytest.fixture(scope="module")
def manager_archive(archive: Path) -> Path:
    """After the other one, with which it shares most steps."""
    return build(Children(ROOT), ROOT, image_cache(), MANAGER_IMAGE, STAGE)


@pytest.fixture(scope="module")
def installed(
    control_plane: ControlPlane, node: Node, archive: Path, manager_archive: Path
) -> Iterator[ControlPlane]:
    """By helm, as a person does it, and gone afterwards."""
    node.import_image(archive)
    node.import_image(manager_archive)
    values = [word for value in VALUES for word in ("--set", value)]
    where = ("--namespace", NAMESPACE)
    control_plane.helm("install", "slackwater", str(CHART), *where, "--create-namespace", *values)
    try:
        yield control_plane
    finally:
        control_plane.helm("uninstall", "slackwater", *where, "--wait", "--ignore-not-found")
        control_plane.kubectl("delete", "namespace", NAMESPACE)


def pods(plane: ControlPlane, component: str) -> list[dict[str, Any]]:
    label = f"app.kubernetes.io/component={component}"
    found: list[dict[str, Any]] = plane.get("pods", "-n", NAMESPACE, "-l", label)["items"]
    return found


def test_the_programs_become_ready(installed: ControlPlane) -> None:
    for what in (f"daemonset/{AGENT}", f"deployment/{MANAGER}"):
        installed.kubectl("-n", NAMESPACE, "rollout", "status", what, "--timeout=300s")
    for component in ("agent", "manager"):
        [pod] = pods(installed, component)
        [state] = pod["status"]["containerStatuses"]
        assert (state["ready"], state["restartCount"]) == (True, 0)
    # Another test's agent on this node may have been released by hand, which lasts.
    installed.kubectl("-n", NAMESPACE, "exec", f"daemonset/{AGENT}", "--", "slackwater", "resume")


def test_the_agent_reports_on_its_node(installed: ControlPlane, node: Node) -> None:
    def report() -> dict[str, Any] | None:
        there = installed.get("node", node.name)["metadata"].get("annotations", {})
        text = there.get("slackwater.io/report")
        return json.loads(text) if text else None

    def is_on() -> bool:
        """The Node may still carry the report of another test's agent."""
        return bool((told := report()) and told["policies"].get("best_effort_share") == "on")

    wait_for("a report that the policy is on", is_on)
    conditions = installed.get("node", node.name)["status"]["conditions"]
    assert "SlackwaterActing" in {each["type"] for each in conditions}


def test_the_agent_explains_itself_in_its_pod(installed: ControlPlane) -> None:
    explain = ("exec", f"daemonset/{AGENT}", "--", "slackwater", "explain")
    assert "besteffort" in installed.kubectl("-n", NAMESPACE, *explain)


def from_laptop(kubeconfig: Path, node: Node, *command: str) -> CompletedProcess[str]:
    """With that kubeconfig and nothing else, through the API server and the real kubelet."""
    return run_command(*command, "--node", node.name, environ={"KUBECONFIG": str(kubeconfig)})


def test_it_is_seen_from_a_laptop(installed: ControlPlane, node: Node) -> None:
    """By somebody who has the manual's Role and no other right."""
    text = (ROOT / "docs/reference/remote.md").read_text()
    role = text.partition("```yaml\n")[2].partition("```")[0]
    installed.kubectl("apply", "-f", "-", given=role)
    jane = installed.kubeconfig("jane", "people")

    def explained() -> CompletedProcess[str] | None:
        """A new role takes the API server a moment."""
        done = from_laptop(jane, node, "explain", "besteffort", "-o", "json")
        return None if "user jane may not" in done.stderr else done

    told = wait_for("the role to count", explained)
    assert told is not None
    assert (told.returncode, told.stderr) == (0, "")
    assert {(row["target"], row["level"]) for row in json.loads(told.stdout)} >= {
        ("besteffort", "tier")
    }
    seen = from_laptop(jane, node, "top", "-o", "json")
    assert (seen.returncode, seen.stderr) == (0, "")
    shown = json.loads(seen.stdout)
    [agent] = pods(installed, "agent")
    assert shown["kind"] == "Overview"
    assert agent["metadata"]["name"] in {each["name"] for each in shown["pods"]}
    missing = from_laptop(jane, node, "explain", "no-such-pod")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "no-such-pod" in missing.stderr


def test_no_relay_stays_in_the_agents_container(installed: ControlPlane, node: Node) -> None:
    """The kubelet and containerd close its stdin when the laptop is gone."""
    look = ("exec", f"daemonset/{AGENT}", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline; true")
    wait_for(
        "no relay", lambda: "relay" not in installed.kubectl("-n", NAMESPACE, *look).split("\0")
    )


def test_from_a_laptop_the_missing_right_is_named(installed: ControlPlane, node: Node) -> None:
    reader = installed.kubeconfig("reader", "people")
    nothing = from_laptop(reader, node, "top", "--once")
    rights = "may not list pods and get pods/exec and create pods/exec in the namespace"
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert f"slackwater: user reader {rights} {NAMESPACE};" in nothing.stderr
    where = ("-n", NAMESPACE)
    installed.kubectl("create", "role", "reader", "--verb=list", "--resource=pods", *where)
    installed.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=reader", *where)

    def told() -> bool:
        """A new role takes the API server a moment."""
        said = from_laptop(reader, node, "explain").stderr
        return "user reader may not get pods/exec and create pods/exec in the namespace" in said

    wait_for("the sentence about exec", told)
    gone = run_command(
        "explain", "--node", "no-such-node", environ={"KUBECONFIG": str(installed.kubeconfig())}
    )
    assert gone.stderr == (
        "slackwater: there is no node no-such-node; `kubectl get nodes` lists them\n"
    )


def test_doctor_in_the_pod_sees_the_node(installed: ControlPlane, node: Node) -> None:
    doctor = ("sh", "-c", "slackwater doctor -o json; true")
    said = installed.kubectl("-n", NAMESPACE, "exec", f"daemonset/{AGENT}", "--", *doctor)
    found = json.loads(said)
    # Other tests' nodes may stand on this machine, too.
    problems = [each["what"] for each in found["problems"]]
    assert [what for what in problems if not what.startswith("Several trees")] == []
    assert found["cgroup"]["kubepods"].endswith(f"{node.cgroup_root}/kubepods")
    assert found["cgroup"]["driver"] == "cgroupfs"


def test_metrics_are_served_at_the_pods_address(installed: ControlPlane, node: Node) -> None:
    for component, port in (("agent", 10480), ("manager", 10481)):
        [pod] = pods(installed, component)
        said = node.get(f"http://{pod['status']['podIP']}:{port}/metrics")
        assert b"slackwater_" in said


def test_the_agent_runs_with_no_more_than_it_needs(installed: ControlPlane, node: Node) -> None:
    status = installed.kubectl(
        "-n", NAMESPACE, "exec", f"daemonset/{AGENT}", "--", "cat", "/proc/1/status"
    )
    facts = dict(row.split(":\t", 1) for row in status.splitlines() if ":\t" in row)
    assert facts["CapEff"].strip("0") == ""
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    manager = installed.kubectl("-n", NAMESPACE, "exec", f"deployment/{MANAGER}", "--", "id", "-u")
    assert manager.strip() == "65532"


def test_they_never_asked_for_what_they_may_not(installed: ControlPlane) -> None:
    """And they did ask: the API server's own log knows. Only since this release is installed: one
    that is removed loses its rights before its programs end."""
    daemonset = installed.get("daemonset", AGENT, "-n", NAMESPACE)
    began = dt.datetime.fromisoformat(daemonset["metadata"]["creationTimestamp"]).timestamp()
    asked = [
        (each["user"]["username"].rpartition(":")[2], each["responseStatus"]["code"])
        for each in installed.audit()
        if each["user"].get("username", "").startswith(f"system:serviceaccount:{NAMESPACE}:")
        if "responseStatus" in each and received_at(each) >= began
    ]
    assert {name for name, _ in asked} == {AGENT, MANAGER}
    assert [each for each in asked if each[1] in (401, 403)] == []


def test_a_plain_uninstall_leaves_nothing(
    installed: ControlPlane, node: Node, request: pytest.FixtureRequest
) -> None:
    """No word before it, as everybody does it. When helm comes back, every value is back."""
    quota = node.cgroup("cpu", "kubepods/besteffort") / "cpu.cfs_quota_us"
    wait_for("a quota", lambda: quota.read_text() != "-1\n")
    topologies = ("get", "noderesourcetopologies.v1alpha1.topology.node.k8s.io", "-o", "name")
    wait_for("its topology", lambda: node.name in installed.kubectl(*topologies))
    installed.kubectl("annotate", "node", node.name, f"{RECORD_ANNOTATION}={{}}")
    began = time.monotonic()
    installed.helm("uninstall", "slackwater", "--namespace", NAMESPACE, "--wait")
    # For `make assurance`. The fixture record_property warns of the report's format, which has it.
    request.node.user_properties.append(("seconds", round(time.monotonic() - began, 1)))
    assert quota.read_text() == "-1\n"
    assert node.name not in installed.kubectl(*topologies)
    shown = installed.get("node", node.name)
    left = shown["metadata"]["annotations"]
    assert RECORD_ANNOTATION not in left, "nodes are released before anything goes"
    report = json.loads(left["slackwater.io/report"])
    assert (report["holding"], bool(report["released"])) == (0, True)
    assert "interference.crane.io" not in {each["key"] for each in shown["spec"].get("taints", ())}
    rights = "clusterroles,clusterrolebindings,serviceaccounts,roles,rolebindings,jobs"
    label = "app.kubernetes.io/part-of=slackwater"
    assert installed.kubectl("get", rights, "-A", "-l", label, "-o", "name") == ""


def test_the_next_installation_is_not_paused(installed: ControlPlane, node: Node) -> None:
    """The last of this file: it begins anew."""
    quota = node.cgroup("cpu", "kubepods/besteffort") / "cpu.cfs_quota_us"
    values = [word for value in VALUES for word in ("--set", value)]
    installed.helm("install", "slackwater", str(CHART), "--namespace", NAMESPACE, *values)
    wait_for("a quota", lambda: quota.read_text() != "-1\n")
