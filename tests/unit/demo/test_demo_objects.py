"""The folder that the demo's agent reads: without a problem, and as it is meant."""

from pathlib import Path

import pytest

from slackwater.demo.demo_objects import describe_objective, describe_waterline, node_folder
from slackwater.demo.demo_plan import (
    BATCH_PODS,
    HOG_UID,
    SERVICE_REQUEST,
    SERVICE_UID,
    THRESHOLD,
    BatchControl,
)
from slackwater.model.cgroup import Tier
from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import Objects

RULES = {
    BatchControl.BEST_EFFORT_SHARE: {},
    BatchControl.WATERLINE: describe_waterline(3, 15),
    BatchControl.LATENCY_OBJECTIVE: describe_objective(8080, 0.0175, 15),
}


def objects(folder: Path, control: BatchControl) -> Objects:
    for name, text in node_folder(control, 3, RULES[control]).items():
        (folder / name).write_text(text)
    found = Folder(str(folder)).read()
    assert isinstance(found, Objects)
    return found


@pytest.mark.parametrize("control", RULES)
def test_the_agent_reads_what_it_is_told_without_a_problem(
    tmp_path: Path, control: BatchControl
) -> None:
    found = objects(tmp_path, control)
    assert found.problems == ()
    (node,) = found.nodes
    assert node.allocatable_cpu == 3000


def test_the_share_is_switched_on(tmp_path: Path) -> None:
    found = objects(tmp_path, BatchControl.BEST_EFFORT_SHARE)
    assert found.settings is not None
    assert found.settings.policies["best_effort_share"].enabled
    assert found.settings.policies["best_effort_share"].threshold == THRESHOLD


def test_the_pods_of_the_share_are_a_burstable_service_and_a_best_effort_hog(
    tmp_path: Path,
) -> None:
    pods = {pod.name: pod for pod in objects(tmp_path, BatchControl.BEST_EFFORT_SHARE).pods}
    assert set(pods) == {"service", "hog"}
    assert pods["service"].tier is Tier.BURSTABLE
    assert pods["hog"].tier is Tier.BESTEFFORT
    assert (pods["service"].uid, pods["hog"].uid) == (SERVICE_UID, HOG_UID)
    requests = [c.requests.cpu for c in pods["service"].resources.containers]
    assert requests == [SERVICE_REQUEST]
    assert pods["hog"].annotations["volcano.sh/qos-level"] == "BE"


@pytest.mark.parametrize("control", [BatchControl.WATERLINE, BatchControl.LATENCY_OBJECTIVE])
def test_batch_pods_are_burstable_too_and_of_lower_priority(
    tmp_path: Path, control: BatchControl
) -> None:
    pods = {pod.name: pod for pod in objects(tmp_path, control).pods}
    assert set(pods) == {"service", *(pod.name for pod in BATCH_PODS)}
    assert {pod.tier for pod in pods.values()} == {Tier.BURSTABLE}
    for expected in BATCH_PODS:
        pod = pods[expected.name]
        assert pod.uid == expected.uid
        assert [c.requests.cpu for c in pod.resources.containers] == [expected.request]
