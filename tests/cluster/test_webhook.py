"""The webhook for Nodes' statuses on a real API server over TLS, with the rights that it has."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.koordinator.amplification import RECORD_ANNOTATION
from slackwater.contract.koordinator.node_ratios import HELD_CONDITION
from slackwater.contract.koordinator.normalization import RAW_ALLOCATABLE_ANNOTATION
from tests.cluster.chart import client, refusal
from tests.cluster.managers import Crew, ManagerProcess, crew
from tests.cluster.webhook_bed import (
    RATIO,
    WrittenNode,
    configure,
    install_webhook,
    metric,
    start_manager,
)
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import free_ports, wait_for

REVIEWS = "slackwater_webhook_reviews_total"


class WebhookBed:
    """A control plane whose webhook is a manager of ours, and may be killed."""

    def __init__(self, plane: ControlPlane, replicas: Crew, port: int, rights: Path) -> None:
        self.plane = plane
        self.rights = rights
        self._replicas = replicas
        self._port = port
        self.manager: ManagerProcess = start_manager(replicas, port)

    def make_node(self, name: str, cpu: str = "8") -> WrittenNode:
        return WrittenNode(self.plane, name, cpu)

    def restart(self) -> None:
        self.manager = start_manager(self._replicas, self._port)


@pytest.fixture(scope="module")
def bed(
    programs: dict[str, Path],
    make_folder: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WebhookBed]:
    plane = ControlPlane(make_folder(), programs)
    try:
        for program in ("etcd", "kube-apiserver"):
            plane.start(program)
        [port] = free_ports(1)
        rights = install_webhook(plane, port)
        with crew(rights, NAMESPACE, tmp_path_factory.mktemp("managers")) as replicas:
            yield WebhookBed(plane, replicas, port, rights)
    finally:
        plane.close()


def await_amount(node: WrittenNode, amount: str) -> None:
    wait_for(f"{node.name} to have {amount}", lambda: node.allocatable() == amount)


def test_what_the_kubelet_states_is_amplified_in_the_same_write(bed: WebhookBed) -> None:
    node = bed.make_node("stated")
    node.set_ratio("1.13")
    node.touch()
    assert node.allocatable() == "9040m"
    node.state("3")
    assert node.allocatable() == "3390m"
    assert json.loads(node.annotations()[RAW_ALLOCATABLE_ANNOTATION])["cpu"] == "3"
    node.write(node.admin, conditions=[{"type": "Others", "status": "True"}])
    node.write(node.admin, allocatable={"cpu": "50"})
    assert node.allocatable() == "3390m"  # the kubelet alone is believed


def test_a_changed_ratio_is_in_force_without_the_kubelet_and_its_end_too(bed: WebhookBed) -> None:
    node = bed.make_node("changed")
    node.set_ratio("1.50")
    await_amount(node, "12")
    node.set_ratio(None)
    await_amount(node, "8")
    assert not node.annotations()


def test_a_true_amount_that_equals_the_amplified_one_is_found_out(bed: WebhookBed) -> None:
    node = bed.make_node("equal")
    node.set_ratio("1.50")
    node.touch()
    node.write(conditions=[{"type": "Ready", "status": "True"}])
    assert node.allocatable() == "11999m"  # it computes 12 by now, or has said nothing about it
    node.write(allocatable={"cpu": "12"})
    assert node.allocatable() == "18"


def test_a_node_without_a_ratio_is_never_sent(bed: WebhookBed) -> None:
    node = bed.make_node("apart")
    results = [f'{{result="{each}"}}' for each in ("changed", "unchanged", "held", "refused")]

    def count() -> float:
        return sum(metric(bed.manager, REVIEWS, each) for each in results)

    before = count()
    node.state("7")
    assert (node.allocatable(), count()) == ("7", before)


def test_a_ratio_that_cannot_be_read_holds_and_is_told(bed: WebhookBed) -> None:
    node = bed.make_node("broken")
    node.set_ratio("1.50")
    node.touch()
    node.set_ratio('"much"')
    node.state("6")
    assert node.allocatable() == "9"
    assert metric(bed.manager, REVIEWS, '{result="held"}') >= 1
    told = wait_for(
        "a line about it",
        lambda: [each for each in bed.manager.lines() if each["what"] == "webhook: broken"],
    )
    assert "['cpu'] is '\"much\"', but must be a number up to 5000" in told[0]["because"]

    def events() -> list[str]:
        found = bed.plane.get("events", "--field-selector", "involvedObject.name=broken")["items"]
        return [each["reason"] for each in found]

    wait_for("an event", lambda: "AmplificationInvalid" in events())


def test_without_a_manager_heartbeats_go_on_and_afterwards_amounts_are_right(
    bed: WebhookBed,
) -> None:
    node = bed.make_node("alone")
    node.set_ratio("1.50")
    node.touch()
    assert node.allocatable() == "12"
    bed.manager.kill()
    node.state("10")
    assert node.allocatable() == "10"
    node.set_ratio("2.00")
    bed.restart()
    await_amount(node, "20")  # the kubelet has not written since


def test_a_lost_secret_is_made_anew_and_trusted(bed: WebhookBed) -> None:
    node = bed.make_node("secret")
    before = metric(bed.manager, "slackwater_webhook_certificate_expiry_timestamp_seconds")
    lost = '[{"op":"remove","path":"/data"}]'
    bed.plane.kubectl(
        "patch", "secret", "slackwater-webhook", "-n", NAMESPACE, "--type=json", "-p", lost
    )
    name = "slackwater_webhook_certificate_expiry_timestamp_seconds"
    wait_for("another certificate", lambda: metric(bed.manager, name) > before)
    node.set_ratio("1.50")

    def restated() -> bool:
        node.state("8")
        return node.allocatable() == "12"

    wait_for("it to be trusted", restated)


def test_the_managers_token_changes_nothing_else_of_a_status(bed: WebhookBed) -> None:
    node = bed.make_node("guarded")
    manager = client(bed.rights)
    ready = [{"type": "Ready", "status": "True"}]
    assert "may change NormalizationHeld only" in refusal(
        manager, lambda by: node.write(by, conditions=ready)
    )
    assert "may change cpu and memory only" in refusal(
        manager, lambda by: node.write(by, allocatable={"pods": "1"})
    )


def test_a_ratio_of_the_clusters_configuration_is_in_force_by_one_write(bed: WebhookBed) -> None:
    node = bed.make_node("configured")
    some = {
        "name": "some",
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "configured"}},
    }
    more = {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 1.25}}
    bed.plane.kubectl("label", "node", "configured", "kubernetes.io/hostname=configured")
    configure(bed.plane, json.dumps({"enable": False, "nodeConfigs": [{**some, **more}]}))
    wait_for("a ratio", lambda: RATIO in node.annotations())
    assert (node.allocatable(), node.allocatable("memory")) == ("12", "20Gi")
    assert node.annotations()[RATIO] == '{"cpu":1.50,"memory":1.25}'


def test_released_nodes_have_their_true_amounts_and_no_annotations(bed: WebhookBed) -> None:
    node = bed.make_node("released")
    node.set_ratio("1.50")
    node.touch()
    assert node.allocatable() == "12"
    node.write(node.admin, conditions=[{"type": HELD_CONDITION, "status": "True"}])
    done = bed.manager
    released = ManagerProcess(
        bed.rights, NAMESPACE, "releases", Path(f"{done._log}.release"), "--release-nodes"
    )
    # Nobody scales a Deployment's pods here.
    wait_for("the Deployment to be scaled", lambda: _replicas(bed) == 0)
    assert done.end() == 0
    assert released.process.wait() == 0, released.lines()
    assert node.allocatable() == "8"
    assert HELD_CONDITION not in condition_types(node)
    assert not {RATIO, RAW_ALLOCATABLE_ANNOTATION, RECORD_ANNOTATION} & node.annotations().keys()
    assert "webhooks" not in str(bed.plane.get("mutatingwebhookconfigurations")["items"])


def condition_types(node: WrittenNode) -> set[str]:
    return {each["type"] for each in node.read()["status"].get("conditions", [])}


def _replicas(bed: WebhookBed) -> int:
    found = bed.plane.get("deployment", "slackwater-manager", "-n", NAMESPACE)
    return int(found["spec"]["replicas"])
