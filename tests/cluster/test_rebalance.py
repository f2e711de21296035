"""Rotations end to end: command line, real API server, controllers, nodes on paper, Prometheus.

The acceptance table's rows come first; then rotations that are carried out, and what goes wrong.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.rebalance_rows import (
    LAST_ROTATION,
    ROTATE,
    SCENES,
    SKIP,
    Row,
    Skip,
    prepare,
)
from tests.cluster.rebalance_stage import ANY_AGE, WORKLOAD, Stage, set_up
from tests.unit.kube.byte_server import ByteServer, Request, Wire
from tools.cluster import MANY_NODES_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import find_programs, wait_for

#: Has the rights that docs/reference/rebalance.md lists, and no other.
ROTATOR = "rotator"


@pytest.fixture(scope="module")
def stage(
    programs: dict[str, Path],
    make_folder: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    plane = ControlPlane(make_folder(), programs)
    kwok = find_programs(MANY_NODES_PROGRAMS, os.environ)["kwok"]
    try:
        plane.open()
        with set_up(plane, kwok, tmp_path_factory.mktemp("rebalance"), SCENES) as made:
            workloads = ("deployments.apps", "statefulsets.apps", "replicasets.apps")
            others = ("horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy")
            made.grant(ROTATOR, "list", "pods", *workloads, *others)
            made.grant(ROTATOR, "patch", *workloads)
            made.grant(ROTATOR, "create", "pods/eviction")
            made.grant(ROTATOR, "create,patch", "events")
            yield made
    finally:
        plane.close()


@pytest.mark.parametrize("row", ROTATE, ids=lambda row: str(row.scene))
def test_rows_that_rotate(stage: Stage, row: Row) -> None:
    prepare(stage, row.scene)
    told = stage.plan(row.scene, *row.flags)
    assert told.code == 0, told.err
    plan = told.plan
    assert (plan["decision"], plan["reason"]) == ("rotate", None), plan["because"]
    assert stage.letters(row.scene, plan["evict"]) == row.evict
    assert plan["average"] == pytest.approx(row.average, abs=5e-5)
    assert plan["predictedAverage"] == pytest.approx(row.predicted, abs=5e-5)
    assert plan["improvement"] == pytest.approx(row.improvement, abs=5e-3)
    assert len(plan["pods"]) - len(plan["evict"]) == row.left
    assert all(guard["passed"] for guard in plan["guards"])
    assert stage.writes(row.scene) == []


@pytest.mark.parametrize("row", SKIP, ids=lambda row: str(row.scene))
def test_rows_that_do_not(stage: Stage, row: Skip) -> None:
    """Neither a plan nor a run changes anything but events."""
    prepare(stage, row.scene)
    told = stage.plan(row.scene)
    plan = told.plan
    assert (plan["decision"], plan["reason"]) == ("skip", row.reason), plan["because"]
    assert plan["evict"] == []
    assert re.search(row.because, plan["because"]), plan["because"]
    assert told.code == row.code
    if row.improvement is not None:
        assert plan["improvement"] == pytest.approx(row.improvement, abs=5e-3)
    done = stage.ask("run", row.scene)
    assert done.code == row.code, done.err
    assert row.reason in done.out + done.err
    assert stage.writes(row.scene) == []
    assert stage.stayed(row.scene) == "".join(stage.names[row.scene])


def test_row_17_says_why_its_hottest_stays(stage: Stage) -> None:
    prepare(stage, "row-17")
    [spared] = [pod for pod in stage.plan("row-17").plan["pods"] if pod["group"] == "held_back"]
    assert stage.letters("row-17", [spared["name"]]) == "A"
    assert "slackwater.io/rotate" in spared["because"]


def test_row_1_for_people(stage: Stage) -> None:
    """The seed's example prints 34.8 % and the four pods."""
    told = stage.ask("plan", "row-1")
    assert told.code == 0, told.err
    assert "34.8" in told.out
    names = stage.names["row-1"]
    shown = [line for line in told.out.splitlines() if any(n in line for n in names.values())]
    assert len(shown) >= 6
    for letter in "ABEF":
        assert names[letter] in told.out


def test_row_1_in_the_originals_words(stage: Stage) -> None:
    environ = {
        "DEPLOYMENT_NAME": WORKLOAD,
        "KUBE_NAMESPACE": "row-1",
        "KUBE_LABEL_SELECTOR": f"app={WORKLOAD}",
        "PROMETHEUS_ENDPOINT": stage.endpoint,
        "DRY_RUN": "true",
        "SLACKWATER_REBALANCE_MINIMUM_POD_AGE": "0s",
    }
    before = stage.requests("row-1")
    told = stage.cli("run", environ=environ)
    assert told.code == 0, told.err
    assert "dry_run" in told.out + told.err
    assert stage.requests("row-1") == before  # no event either
    consumers = stage.cli("run", environ={**environ, "KUBE_LABEL_SELECTOR": "app=consumer"})
    assert consumers.code == 1
    assert "none of the 6 pods of Deployment row-1/web has the labels app=consumer" in (
        consumers.out + consumers.err
    )


def test_fresh_pods_are_too_young_to_judge(stage: Stage) -> None:
    """By default a pod has to be as old as the window: these are seconds old."""
    told = stage.plan("row-1", "--minimum-pod-age", "5m")
    assert {pod["group"] for pod in told.plan["pods"]} == {"young"}
    assert (told.plan["decision"], told.plan["evict"]) == ("skip", [])


def test_row_19_a_budget_holds(stage: Stage) -> None:
    pushed: list[bytes] = []

    def gateway(request: Request, wire: Wire) -> None:
        pushed.append(request.body)
        wire.answer(b"", 200)

    server = ByteServer(gateway)
    # Else the new pod may be Ready, and the budget open again, before the second is asked for.
    stage.plane.pause("kube-scheduler")
    try:
        told = stage.ask("run", "row-19", "--push", f"http://127.0.0.1:{server.port}")
    finally:
        stage.plane.resume("kube-scheduler")
        server.close()
    assert told.code == 0, told.err
    told_of = [json.loads(line) for line in told.out.splitlines()]
    fates = {
        stage.letters("row-19", [each["what"].partition("/")[2]]): each["result"]
        for each in told_of
        if each["what"].startswith("Pod ")
    }
    assert fates == {"A": "evicted", **dict.fromkeys("BEF", "pdb_blocked")}
    stage.await_ready("row-19", 6)  # a new pod is there for the one that went
    assert stage.stayed("row-19") == "BCDEF"
    assert stage.writes("row-19").count("create pods/eviction") >= 2  # one went, one was refused
    [metrics] = pushed
    assert _counted(metrics, "rebalancer_pods_deleted_total", 'type="most_busy"') == 1
    assert _counted(metrics, "rebalancer_pods_deleted_total", 'type="least_busy"') == 0


def test_a_rotation_goes_through_and_cools_down(stage: Stage) -> None:
    planned = stage.plan("rotated").plan
    assert [stage.letters("rotated", batch) for batch in planned["batches"]] == ["AF", "BE"]
    told = stage.ask("run", "rotated", user=ROTATOR)
    assert told.code == 0, told.err
    assert "could not be sent" not in told.err
    stage.await_ready("rotated", 6)
    assert stage.stayed("rotated") == "CD"
    workload = stage.plane.get("deployment", WORKLOAD, "-n", "rotated")
    last = json.loads(workload["metadata"]["annotations"][LAST_ROTATION])
    assert (last["pods"], last["hot"]) == (4, 2)
    assert last["improvement"] == pytest.approx(34.78, abs=5e-3)
    # The claim was written before the first pod went.
    made = stage.writes("rotated")
    assert made[0] == "patch deployments"
    assert made.count("create pods/eviction") == 4

    cooling = {each["guard"]: each["passed"] for each in stage.plan("rotated").plan["guards"]}
    assert cooling["cooldown"] is False
    again = stage.ask("run", "rotated", user=ROTATOR)
    assert again.code == 0, again.err
    assert stage.writes("rotated") == made
    events = stage.plane.get("events", "-n", "rotated")["items"]
    ours = [each for each in events if "slackwater-rebalancer" in json.dumps(each)]
    about = {each["involvedObject"]["name"] for each in ours}
    assert about >= {WORKLOAD, *(stage.names["rotated"][letter] for letter in "ABEF")}


def test_a_stateful_sets_pods_come_back_with_their_names(stage: Stage) -> None:
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.pods("stateful")}
    told = stage.ask("run", "stateful")
    assert told.code == 0, told.err
    stage.await_ready("stateful", 6)
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.pods("stateful")}
    assert set(after) == set(before)
    new = [name for name in after if after[name] != before[name]]
    assert "".join(sorted(stage.letters("stateful", new))) == "ABEF"


def test_of_two_rebalancers_one_rotates(stage: Stage) -> None:
    """Two CronJobs that overlap read the same; the annotation lets one of them through."""
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda _: stage.ask("run", "rivals"), range(2)))
    assert [each.code for each in told] == [0, 0], [each.err for each in told]
    stage.await_ready("rivals", 6)
    assert stage.stayed("rivals") == "CD"
    assert stage.writes("rivals").count("create pods/eviction") == 4


def test_a_run_over_several_workloads(stage: Stage, tmp_path: Path) -> None:
    """One has no HPA: it is told, and the others are judged all the same."""
    scenes = ("row-1", "row-13-none", "row-5")
    workloads = [{"namespace": each, "name": WORKLOAD} for each in scenes]
    settings = {
        "apiVersion": "slackwater.io/v1",
        "kind": "RebalancerSettings",
        "spec": {"workloads": workloads},
    }
    file = tmp_path / "workloads.yaml"
    file.write_text(json.dumps(settings))
    where = ("--prometheus-endpoint", stage.endpoint, *ANY_AGE, "-o", "json")
    told = stage.cli("plan", "--file", str(file), *where)
    assert told.code == 1, told.err
    reasons = [each["reason"] for each in told.plan["items"]]
    assert reasons == [None, "hpa_target_missing", "insufficient_improvement"]


def test_a_rollout_in_flight_is_left_alone(stage: Stage) -> None:
    """Its new pods cannot be scheduled, so it stays in flight."""
    template = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
    patch = ("--type=merge", "-p", json.dumps(template))
    stage.plane.kubectl("patch", "deployment", WORKLOAD, "-n", "row-3", *patch)

    def guards() -> dict[str, bool]:
        """The hottest pod may be the first that the rollout takes, so the reason may be another."""
        return {each["guard"]: each["passed"] for each in stage.plan("row-3").plan["guards"]}

    try:
        wait_for("the rollout", lambda: not guards()["rollout"])
    finally:
        stage.plane.kubectl("rollout", "undo", f"deployment/{WORKLOAD}", "-n", "row-3")


def test_somebody_without_rights_hears_which_verb_is_missing(stage: Stage) -> None:
    told = stage.plan("row-1", user="jane")
    assert told.code == 1
    assert told.plan["reason"] == "kubernetes_error"
    assert (
        "the verb list on horizontalpodautoscalers of autoscaling is not granted"
        in (told.plan["because"])
    )


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--prometheus-endpoint", "http://127.0.0.1:1", "--prometheus-retries", "0"),
         "prometheus_error"),
        (("--prometheus-pod-label", "exported_pod"), "no_usage_data"),
        (("--container", "nobody"), "no_usage_data"),
    ],
)  # fmt: skip
def test_without_numbers_nobody_goes(stage: Stage, flags: tuple[str, ...], reason: str) -> None:
    told = stage.plan("row-1", *flags)
    assert (told.code, told.plan["reason"]) == (1, reason), told.out
    done = stage.ask("run", "row-1", *flags)
    assert done.code == 1
    assert reason in done.out
    assert stage.writes("row-1") == []
    assert stage.stayed("row-1") == "ABCDEF"


def test_a_workload_that_is_not_there(stage: Stage) -> None:
    where = ("-n", "row-1", "--prometheus-endpoint", stage.endpoint, "-o", "json")
    told = stage.cli("plan", "nothing", *where)
    assert told.code == 1
    assert told.plan["reason"] == "workload_missing"
    assert "no Deployment, StatefulSet, ReplicaSet is called nothing" in told.plan["because"]


def _counted(exposition: bytes, metric: str, label: str) -> float:
    lines = [
        line
        for line in exposition.decode().splitlines()
        if line.startswith(metric) and label in line
    ]
    return sum(float(line.split()[-1]) for line in lines)
