"""The page about a cluster with a real API server: nodes, one node, policies, plans, bad days."""

import json
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from slackwater.contract.node_report import (
    ActiveRule,
    AgentCondition,
    NodeReport,
    NodeStatusPatch,
    status_patch_object,
)
from slackwater.model.units import MilliCpu
from tests.browser.conftest import NARROW, Opened, Serve
from tests.cluster.managers import action, install_kinds, node, policy
from tools.cluster.control_plane import ControlPlane

API_SERVER = "kube-apiserver"
RULE = ActiveRule("cpu", "triggered", "2026-11-19T10:00:00Z")
VIEWS = ("", "nodes/n1/", "policies", "rotation")


def report(plane: ControlPlane, name: str, used: int, *rules: ActiveRule) -> None:
    """What the agent of that node would write."""
    said = NodeReport(
        version="0.1.0",
        since="2026-11-19T10:00:00Z",
        period="1s",
        quota=MilliCpu(3000),
        used=MilliCpu(used),
        holding=3,
        policies={"best_effort_share": "", "quota_burst": "not asked for"},
        rules={"NodeQOS/good": rules} if rules else {},
    )
    condition = AgentCondition("True", "Acting", "values are held by best_effort_share")
    patch = NodeStatusPatch(said, condition)
    body = json.dumps(status_patch_object(name, patch, "2026-11-19T10:00:00Z"))
    plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-", given=body
    )


@pytest.fixture(scope="module")
def cluster(own_server: ControlPlane) -> ControlPlane:
    plane = own_server
    plane.kubectl("create", "namespace", "slackwater-system")
    install_kinds(plane)
    plane.apply(node("n1"), node("n2"), action("throttle"), policy("good", "throttle"))
    report(plane, "n1", 1234)
    return plane


def test_a_cluster_from_its_nodes_to_one_of_them(
    cluster: ControlPlane, serve: Serve, opened: Opened
) -> None:
    shown = serve("--kubeconfig", str(cluster.kubeconfig()))
    wide, narrow = opened(shown.address), opened(shown.address, viewport=NARROW)
    page = wide.go()
    expect(page.locator("#n-n1")).to_contain_text("1234m")
    expect(page.locator("#n-n2")).to_contain_text("no agent")
    report(cluster, "n1", 2345, RULE)
    expect(page.locator("#n-n1")).to_contain_text("2345m")
    expect(page.locator("#n-n1")).to_contain_text("NodeQOS/good/cpu triggered")
    page.get_by_label("Name").fill("n2")
    expect(page.locator("#count")).to_have_text("1 of 2 nodes")
    page.get_by_label("Name").fill("")

    page.get_by_role("link", name="n1", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("n1")
    expect(page.locator("#unreachable")).to_contain_text("no agent's pod is on the node n1")
    expect(page.get_by_text("There is no prediction of this node")).to_be_visible()
    page.get_by_role("link", name="Policies").first.press("Enter")
    expect(page.locator("#policy-NodeQOS-good")).to_contain_text("1 rule active on nodes")
    page.get_by_role("link", name="Rotation").press("Enter")
    page.get_by_label("Workload").fill("nobody")
    page.get_by_role("button", name="Plan").press("Enter")
    expect(page.locator("#plan-1")).to_contain_text("nobody")
    page.get_by_label("Workload").fill("a b")
    page.get_by_role("button", name="Plan").press("Enter")
    expect(page.locator("#problem")).to_contain_text("a b")
    page.goto(f"{shown.address}nodes/nowhere/")
    expect(page.locator("#sentence")).to_contain_text("the cluster has no node 'nowhere'")

    for path in VIEWS:
        assert not narrow.go(path).locator("#sentence").count()
        assert not narrow.overflows(), path
    refused = "Failed to load resource: the server responded with a status of 503"
    assert [error for error in wide.errors if refused not in error] == []
    assert wide.asked_elsewhere() == narrow.asked_elsewhere() == []
    assert shown.end() == (0, "The address has a secret in it. Ctrl-C ends the page.\n")


def test_axe_finds_no_problem(cluster: ControlPlane, serve: Serve, opened: Opened) -> None:
    shown = serve("--kubeconfig", str(cluster.kubeconfig()))
    for scheme in ("light", "dark"):
        one = opened(shown.address, color_scheme=scheme, bypass_csp=True)
        for path in VIEWS:
            found = Axe().run(one.go(path))
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_without_rights_the_page_names_the_missing_one(
    cluster: ControlPlane, serve: Serve, opened: Opened
) -> None:
    shown = serve("--kubeconfig", str(cluster.kubeconfig("visitor")))
    page = opened(shown.address).go()
    expect(page.locator("#sentence")).to_contain_text('cannot list resource "nodes"')


def test_an_api_server_that_goes_and_comes_back(
    cluster: ControlPlane, serve: Serve, opened: Opened
) -> None:
    shown = serve("--kubeconfig", str(cluster.kubeconfig()))
    page = opened(shown.address).go()
    expect(page.locator("#n-n1")).to_be_visible()
    cluster.kill(API_SERVER)
    expect(page.locator("#lost")).to_contain_text("The cluster cannot be asked now")
    expect(page.locator("#n-n1")).to_be_visible()
    cluster.start(API_SERVER)
    expect(page.locator("#lost")).to_have_count(0)
    report(cluster, "n1", 777)
    expect(page.locator("#n-n1")).to_contain_text("777m")


def test_a_cluster_that_never_answers(
    serve: Serve, opened: Opened, tmp_path: Path, cluster: ControlPlane
) -> None:
    gone = tmp_path / "gone"
    text = cluster.kubeconfig().read_text()
    gone.write_text(re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", text))
    gone.chmod(0o600)
    page = opened(serve("--kubeconfig", str(gone)).address).go()
    expect(page.locator("#sentence")).to_contain_text("Connection refused")
