"""The resident rebalancer with the chart's own rights: who leads, what it does, how it ends."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    LEASES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from slackwater.kube.client import Client
from slackwater.rebalancer.last_rotation import ANNOTATION
from tests.cluster.chart import (
    CANNOT,
    REBALANCER,
    SECRETS,
    Ask,
    client,
    delete,
    evict,
    make_event,
    patch,
    refusal,
    see,
    try_evicting,
)
from tests.cluster.rebalance_stage import WORKLOAD, Scene, Stage, set_up
from tests.cluster.residents import Resident, resident
from tools.cluster import MANY_NODES_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import find_programs, wait_for
from tools.manifests import render

F6 = (1.2, 1.1, 0.8, 0.6, 0.4, 0.3)
SCENES = (
    Scene("resident", F6),
    Scene("stuck", F6),
    Scene("rights", F6),
    Scene("calm", (0.6, 0.5, 0.5)),
)
#: Seconds; a signal is heard at once, the lease takes one request.


def rights(manifests: str) -> str:
    """Of the chart's objects those that say who may do what: the programs are this test's."""
    kept = ("Namespace", "ServiceAccount", "ClusterRole", "Role", "ValidatingAdmissionPolicy")
    found = [each for each in yaml.safe_load_all(manifests) if each]
    return yaml.safe_dump_all(
        [each for each in found if each["kind"].removesuffix("Binding") in kept]
    )


@pytest.fixture(scope="module")
def stage(
    programs: dict[str, Path],
    make_folder: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    plane = ControlPlane(make_folder(), programs)
    kwok = find_programs(MANY_NODES_PROGRAMS, os.environ)["kwok"]
    values = (
        "rebalancer.enabled=true",
        "rebalancer.mode=deployment",
        "rebalancer.clusterWide=true",
    )
    try:
        plane.open()
        given = rights(render(str(programs["helm"]), NAMESPACE, *values))
        plane.kubectl("apply", "--server-side", "-f", "-", given=given)
        with set_up(plane, kwok, tmp_path_factory.mktemp("resident"), SCENES) as made:
            yield made
    finally:
        plane.close()


@pytest.fixture(scope="module")
def kubeconfig(stage: Stage) -> Path:
    """Of the chart's service account."""
    token = stage.plane.kubectl("create", "token", REBALANCER, "-n", NAMESPACE)
    return stage.plane.token_kubeconfig(REBALANCER, token.strip())


def holder(stage: Stage) -> str:
    lease = stage.plane.get("lease", REBALANCER, "-n", NAMESPACE)
    return str(lease["spec"].get("holderIdentity", ""))


def test_one_of_two_rotates_and_the_other_takes_over(
    stage: Stage, kubeconfig: Path, tmp_path: Path
) -> None:
    with resident(stage, kubeconfig, "resident", "first", tmp_path) as first:
        wait_for("a leader", lambda: "first leads" in first.said("leader"))
        with resident(stage, kubeconfig, "resident", "second", tmp_path) as second:
            wait_for("a follower", lambda: "first leads" in second.said("leader"))
            wait_for("the rotation", lambda: "rotated" in first.results())
            assert second.results().count("evicted") == 0
            stage.await_ready("resident", 6)
            assert stage.stayed("resident") == "CD"
            _is_well(first, '"leads":true')
            _is_well(second, '"leader":"first"')
            metrics = first.get("/metrics")[1]
            assert 'rebalancer_rotation_decisions_total{reason="rotated"} 1.0' in metrics
            assert 'rebalancer_pods_deleted_total{type="most_busy"} 2.0' in metrics
            first.end()
            wait_for("another leader", lambda: holder(stage) == "second", patience=300)
            wait_for("its round", lambda: len(set(second.results())) > 1)
            assert "evicted" not in second.results(), "it cools down"
            second.end()
        assert holder(stage) == ""
    assert "could not be sent" not in first.log.read_text()


def _is_well(replica: Resident, told: str) -> None:
    for path in ("/healthz", "/readyz"):
        code, body = replica.get(path)
        assert (code, told in body) == (200, True), body


def test_it_ends_while_it_waits_for_new_pods(
    stage: Stage, kubeconfig: Path, tmp_path: Path
) -> None:
    """No node takes the new ones."""
    nodes = [each["metadata"]["name"] for each in stage.plane.get("nodes")["items"]]
    stage.plane.kubectl("cordon", *nodes)
    try:
        with resident(stage, kubeconfig, "stuck", "third", tmp_path) as third:
            wait_for("the first batch", lambda: third.results().count("evicted") == 2)
            third.end()
            [told] = [each for each in third.entries() if each.get("result") == "rotated"]
            assert told["because"] == "2 of 4 pods went: the rebalancer was asked to end"
        assert holder(stage) == ""
        guards = {each["guard"]: each for each in stage.plan("stuck").plan["guards"]}
        assert not guards["rollout"]["passed"], "who went next would find no node either"
        because = "2 of 6 pods are Pending: no node was found for them yet"
        assert guards["rollout"]["because"] == because
    finally:
        stage.plane.kubectl("uncordon", *nodes)
    assert stage.stayed("stuck") == "BCDE"
    workload = stage.plane.get("deployment", WORKLOAD, "-n", "stuck")
    last = json.loads(workload["metadata"]["annotations"][ANNOTATION])
    assert last["judged"], "half a rotation is not held against the prediction"


# --- rights


@pytest.fixture(scope="module")
def rebalancer(kubeconfig: Path) -> Iterator[Client]:
    made = client(kubeconfig)
    yield made
    made.close()


SEEN = (
    PODS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    HORIZONTAL_POD_AUTOSCALERS,
    POD_DISRUPTION_BUDGETS,
)


@pytest.mark.parametrize("kind", SEEN, ids=lambda kind: kind.plural)
def test_it_may_see(rebalancer: Client, kind: Resource) -> None:
    assert refusal(rebalancer, see(kind, "rights")) == ""


def note(text: str | None, **more: object) -> Ask:
    return patch(
        DEPLOYMENTS, WORKLOAD, "rights", metadata={"annotations": {ANNOTATION: text}, **more}
    )


def test_it_may_note_evict_and_tell(stage: Stage, rebalancer: Client) -> None:
    assert refusal(rebalancer, note("{}")) == ""
    assert refusal(rebalancer, note(None)) == ""
    assert refusal(rebalancer, try_evicting("rights", stage.names["rights"]["A"])) == ""
    told = make_event("Deployment", WORKLOAD, "rights", component=REBALANCER)
    assert refusal(rebalancer, told) == ""


ONLY = "the rebalancer may change the annotation slackwater.io/last-rotation and nothing else"
SPEC = {"template": {"spec": {"containers": [{"name": WORKLOAD, "image": "evil"}]}}}
MAY_NOT: dict[str, tuple[Ask, str]] = {
    "change a workload": (patch(DEPLOYMENTS, WORKLOAD, "rights", spec=SPEC), ONLY),
    "scale": (patch(DEPLOYMENTS, WORKLOAD, "rights", spec={"replicas": 1}), ONLY),
    "label": (note("{}", labels={"a": "b"}), ONLY),
    "annotate otherwise": (
        patch(DEPLOYMENTS, WORKLOAD, "rights", metadata={"annotations": {"a": "b"}}),
        ONLY,
    ),
    "remove an annotation": (
        patch(
            DEPLOYMENTS,
            WORKLOAD,
            "rights",
            metadata={"annotations": {"deployment.kubernetes.io/revision": None}},
        ),
        ONLY,
    ),
    "delete a pod": (delete(PODS, "x", "rights"), CANNOT.format("delete")),
    "delete a workload": (delete(DEPLOYMENTS, WORKLOAD, "rights"), CANNOT.format("delete")),
    "see secrets": (see(SECRETS, "rights"), CANNOT.format("list")),
    "see configuration": (see(CONFIG_MAPS, "rights"), CANNOT.format("list")),
    "see nodes": (see(NODES), CANNOT.format("list")),
    "take another lease": (
        patch(LEASES, "kube-scheduler", "kube-system", spec={}),
        CANNOT.format("patch"),
    ),
}


@pytest.mark.parametrize("what", MAY_NOT)
def test_it_may_not(stage: Stage, rebalancer: Client, what: str) -> None:
    ask, sentence = MAY_NOT[what]
    said = refusal(rebalancer, ask)
    assert sentence in said
    assert stage.stayed("rights") == "ABCDEF"


def test_a_pod_of_another_uid_stays(stage: Stage, rebalancer: Client) -> None:
    """It is a conflict like any other by its code: PodWriter reads the pod then."""
    name = stage.names["rights"]["A"]
    other = "00000000-0000-0000-0000-000000000000"
    admin = client(stage.plane.kubeconfig("admin"))
    for said in (
        refusal(rebalancer, lambda who: who.evict("rights", name, uid=other)),
        refusal(admin, lambda who: who.delete(PODS, name, "rights", uid=other)),
    ):
        assert "409 Conflict" in said
        assert "UID in " in said
    admin.close()
    assert stage.stayed("rights") == "ABCDEF"


def test_everybody_else_is_not_held(stage: Stage) -> None:
    admin = client(stage.plane.kubeconfig("admin"))
    mark = {"annotations": {"a": "b"}}
    assert refusal(admin, patch(DEPLOYMENTS, WORKLOAD, "rights", metadata=mark)) == ""
    assert refusal(admin, evict("rights", "nobody")) != ""
    admin.close()


# --- last: the control plane is disturbed


def test_it_outlives_an_api_server_that_is_away(
    stage: Stage, kubeconfig: Path, tmp_path: Path
) -> None:
    """A restart would not bring it back: it stays alive, and leads again when it can."""
    with resident(stage, kubeconfig, "calm", "fourth", tmp_path) as fourth:
        wait_for("a round", lambda: bool(set(fourth.results()) - {""}))
        stage.plane.kill("kube-apiserver")
        try:
            wait_for("the silence", lambda: bool(fourth.said("lease")))
            assert fourth.get("/healthz")[0] == 200
        finally:
            stage.plane.start("kube-apiserver")
        wait_for("all to be well", lambda: fourth.said("lease")[-1] == "recovered")
        fourth.end()
