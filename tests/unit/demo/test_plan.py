"""What is shown: phases, settings and objects that the agent reads as they are meant."""

from pathlib import Path

from slackwater.demo.plan import (
    ALONE,
    BENCHMARK,
    DEMO,
    HOG_UID,
    SERVICE_REQUEST,
    SERVICE_UID,
    SLACKWATER,
    THRESHOLD,
    Hold,
    node_folder,
)
from slackwater.model.cgroup import Tier
from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import Objects


def objects(folder: Path, cpus: int) -> Objects:
    for name, text in node_folder(cpus).items():
        (folder / name).write_text(text)
    found = Folder(str(folder)).read()
    assert isinstance(found, Objects)
    return found


def test_the_demo_goes_from_alone_to_slackwater() -> None:
    assert DEMO[0] == ALONE
    assert DEMO[-1] == SLACKWATER
    assert [phase.hold for phase in DEMO] == [
        Hold.ABSENT, Hold.DEFAULT_WEIGHT, Hold.KUBELET, Hold.SLACKWATER,
    ]  # fmt: skip


def test_the_benchmark_has_every_way_to_hold_batch_back() -> None:
    assert {phase.hold for phase in BENCHMARK} == set(Hold)
    assert set(DEMO) <= set(BENCHMARK)
    assert len({phase.name for phase in BENCHMARK}) == len(BENCHMARK)
    assert len({phase.title for phase in BENCHMARK}) == len(BENCHMARK)


def test_the_agent_reads_what_it_is_told_without_a_problem(tmp_path: Path) -> None:
    found = objects(tmp_path, 3)
    assert found.problems == ()
    assert found.settings is not None
    assert found.settings.best_effort_share.enabled
    assert found.settings.best_effort_share.threshold == THRESHOLD
    (node,) = found.nodes
    assert node.allocatable_cpu == 3000


def test_the_pods_are_a_burstable_service_and_a_best_effort_hog(tmp_path: Path) -> None:
    pods = {pod.name: pod for pod in objects(tmp_path, 2).pods}
    assert set(pods) == {"service", "hog"}
    assert pods["service"].tier is Tier.BURSTABLE
    assert pods["hog"].tier is Tier.BESTEFFORT
    assert (pods["service"].uid, pods["hog"].uid) == (SERVICE_UID, HOG_UID)
    requests = [c.requests.cpu for c in pods["service"].resources.containers]
    assert requests == [SERVICE_REQUEST]
    assert pods["hog"].annotations["volcano.sh/qos-level"] == "BE"
