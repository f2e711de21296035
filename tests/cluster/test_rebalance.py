"""Rotations end to end: command line, real API server, controllers, nodes on paper, Prometheus.

The rows are those of the rebalancer's acceptance table, by their numbers there. F6 is its fleet of
six pods: 1.2, 1.1, 0.8, 0.6, 0.4 and 0.3 cores, where 0.7 are wanted and 1.05 are the threshold.
"""

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from slackwater.kube.time_of_day import whole_seconds
from tests.cluster.rebalance_stage import WORKLOAD, Scene, Stage, set_up
from tests.unit.kube.byte_server import ByteServer, Request, Wire
from tools.cluster import MANY_NODES_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.programs import find_programs
from tools.cluster.waiting import wait_for

F6 = (1.2, 1.1, 0.8, 0.6, 0.4, 0.3)
LAST_ROTATION = "slackwater.io/last-rotation"
SCENES = (
    Scene("row-1", F6),
    Scene("row-3", (1.2, 1.0, 0.8, 0.6, 0.4, 0.3)),
    Scene("row-5", (0.9, 0.85, 0.8, 0.75), ((WORKLOAD, 50),)),
    Scene("row-7", (2.5, 2.4, 2.3, 1.0, 1.0, 1.0, 0.7, 0.6, 0.5)),
    Scene("row-9", (1.5, 1.2, 0.2)),
    Scene("row-11", (1.2, 1.0, 0.8, 0.4, 0.3)),
    Scene("row-13-none", F6, ()),
    Scene("row-13-two", F6, ((WORKLOAD, 70), (f"keda-hpa-{WORKLOAD}", 80))),
    Scene("row-15", (*F6[:5], math.nan)),
    Scene("row-17", F6),
    Scene("row-19", F6, available=5),
    Scene("row-21", (1.3,) * 6),
    Scene("row-23-scaling", F6),
    Scene("row-23-cooldown", F6),
    Scene("rotated", F6, ((f"keda-hpa-{WORKLOAD}", 70),)),
    Scene("stateful", F6, kind="StatefulSet"),
)


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
            yield made
    finally:
        plane.close()


def four_minutes_ago() -> str:
    last = {"at": whole_seconds(time.time() - 240), "top": 1.15, "mean": 0.73}
    return json.dumps({**last, "improvement": 34.8, "pods": 4, "hot": 2})


def prepare(stage: Stage, scene: str) -> None:
    """What a row says beside usage and targets."""
    match scene:
        case "row-17":
            stage.annotate(f"pod/{stage.names[scene]['A']}", scene, "slackwater.io/rotate=false")
        case "row-23-scaling":
            # The real controller finds no metrics and leaves the wish as it is.
            status = {"status": {"desiredReplicas": 8, "currentReplicas": 6}}
            patch = ("--type=merge", "--subresource=status", "-p", json.dumps(status))
            stage.plane.kubectl("patch", "hpa", WORKLOAD, "-n", scene, *patch)
        case "row-23-cooldown":
            stage.annotate(f"deploy/{WORKLOAD}", scene, f"{LAST_ROTATION}={four_minutes_ago()}")


def writes(stage: Stage, scene: str) -> list[str]:
    """What the rebalancer changed there, by the server's own account."""
    return [
        f"{line['verb']} {line['objectRef']['resource']}/{line['objectRef'].get('subresource', '')}"
        for line in stage.plane.audit()
        if line.get("userAgent", "").startswith("slackwater-rebalancer")
        and line.get("objectRef", {}).get("namespace") == scene
        and line["verb"] not in ("get", "list", "watch")
    ]


class Row(msgspec.Struct, frozen=True):
    """`left`: how many pods of the scene would stay Ready."""

    scene: str
    evict: str
    average: float
    predicted: float
    improvement: float
    left: int
    flags: tuple[str, ...] = ()


K3 = ("--top-k", "3", "--tolerance", "2.0", "--minimum-improvement", "20")
ROTATE = (
    Row("row-1", "ABFE", 1.15, 0.75, 34.78, 2),
    Row("row-3", "AFE", 1.2, 0.6333, 47.22, 3),
    Row("row-7", "ABCIHG", 2.4, 1.5, 37.5, 3, K3),
    Row("row-11", "AED", 1.2, 0.6333, 47.22, 2),
    Row("row-15", "ABED", 1.15, 0.825, 28.26, 2),
    Row("row-17", "BFE", 1.1, 0.6, 45.45, 3),
)


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
    assert writes(stage, row.scene) == []


class Skip(msgspec.Struct, frozen=True):
    """`improvement`: None where it does not come so far."""

    scene: str
    reason: str
    code: int
    because: str
    improvement: float | None = None


SKIP = (
    Skip("row-5", "insufficient_improvement", 0, r"5\.7 ?%", 5.71),
    Skip("row-9", "min_pods", 0, "would leave 0 pods, minimum required is 2", 28.40),
    Skip("row-13-none", "hpa_target_missing", 1, "no HorizontalPodAutoscaler of namespace"),
    Skip("row-13-two", "hpa_target_ambiguous", 1, "wants 80 %, web wants 70 %"),
    Skip("row-21", "insufficient_improvement", 0, r"0\.0 ?%", 0.0),
    Skip("row-23-scaling", "hpa_scaling", 0, "from 6 to 8", 34.78),
    Skip("row-23-cooldown", "cooldown", 0, "4m", 34.78),
)


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
    assert {each for each in writes(stage, row.scene) if "events" not in each} == set()
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
        "PROMETHEUS_ENDPOINT": stage.prometheus.endpoint,
        "DRY_RUN": "true",
        "SLACKWATER_REBALANCE_MINIMUM_POD_AGE": "0s",
    }
    told = stage.cli("run", environ=environ)
    assert told.code == 0, told.err
    assert "dry_run" in told.out + told.err
    assert writes(stage, "row-1") == []  # no event either
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
    try:
        told = stage.ask("run", "row-19", "--push", f"http://127.0.0.1:{server.port}")
    finally:
        server.close()
    assert told.code == 0, told.err
    assert "budget" in told.out + told.err
    stage.await_ready("row-19", 6)  # a new pod is there for the one that went
    assert stage.stayed("row-19") == "BCDEF"
    assert writes(stage, "row-19").count("create pods/eviction") >= 2  # one went, one was refused
    [metrics] = pushed
    assert _counted(metrics, "rebalancer_pods_deleted_total", 'type="most_busy"') == 1
    assert _counted(metrics, "rebalancer_pods_deleted_total", 'type="least_busy"') == 0


def test_a_rotation_goes_through_and_cools_down(stage: Stage) -> None:
    planned = stage.plan("rotated").plan
    assert [stage.letters("rotated", batch) for batch in planned["batches"]] == ["AF", "BE"]
    told = stage.ask("run", "rotated")
    assert told.code == 0, told.err
    stage.await_ready("rotated", 6)
    assert stage.stayed("rotated") == "CD"
    workload = stage.plane.get("deployment", WORKLOAD, "-n", "rotated")
    last = json.loads(workload["metadata"]["annotations"][LAST_ROTATION])
    assert (last["pods"], last["hot"]) == (4, 2)
    assert last["improvement"] == pytest.approx(34.78, abs=5e-3)
    # The claim was written before the first pod went.
    made = [each for each in writes(stage, "rotated") if "events" not in each]
    assert made[0] == "patch deployments/"
    assert made.count("create pods/eviction") == 4

    again = stage.ask("run", "rotated")
    assert again.code == 0, again.err
    assert "cooldown" in again.out + again.err
    assert [each for each in writes(stage, "rotated") if "events" not in each] == made


def test_a_rotation_is_told_in_events(stage: Stage) -> None:
    """Comes after the rotation above."""
    found = stage.plane.get("events", "-n", "rotated")["items"]
    ours = [each for each in found if "slackwater-rebalancer" in json.dumps(each)]
    kinds = {each["involvedObject"]["kind"] for each in ours}
    assert kinds == {"Deployment", "Pod"}
    about = {each["involvedObject"]["name"] for each in ours}
    assert {stage.names["rotated"][letter] for letter in "ABEF"} <= about


def test_a_stateful_sets_pods_come_back_with_their_names(stage: Stage) -> None:
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.pods("stateful")}
    told = stage.ask("run", "stateful")
    assert told.code == 0, told.err
    stage.await_ready("stateful", 6)
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.pods("stateful")}
    assert set(after) == set(before)
    new = [name for name in after if after[name] != before[name]]
    assert "".join(sorted(stage.letters("stateful", new))) == "ABEF"


def test_a_rollout_in_flight_is_left_alone(stage: Stage) -> None:
    """Its new pods cannot be scheduled, so it stays in flight."""
    template = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
    patch = ("--type=merge", "-p", json.dumps(template))
    stage.plane.kubectl("patch", "deployment", WORKLOAD, "-n", "row-3", *patch)
    try:
        wait_for("the rollout", lambda: stage.plan("row-3").plan["reason"] == "rollout_in_progress")
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


def test_a_workload_that_is_not_there(stage: Stage) -> None:
    where = ("-n", "row-1", "--prometheus-endpoint", stage.prometheus.endpoint, "-o", "json")
    told = stage.cli("plan", "nothing", *where)
    assert told.code == 1
    assert told.plan["reason"] == "workload_missing"


def _counted(exposition: bytes, metric: str, label: str) -> float:
    lines = [
        line
        for line in exposition.decode().splitlines()
        if line.startswith(metric) and label in line
    ]
    return sum(float(line.split()[-1]) for line in lines)
