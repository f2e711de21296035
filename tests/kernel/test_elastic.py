"""Elastic resources on real processes: as asked for among themselves, never above their limits, and
below ordinary pods."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController
from slackwater.model.elastic import BATCH_CPU, ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.units import parse_milli_cpu
from tests.kernel.batch_pods import MI, V1, limit, memory, weight
from tests.kernel.bed import Bed
from tests.kernel.hand import PAGE, despite_neighbours, knob_files, until
from tests.kernel.in_process import Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER, UID, pod_path

pytestmark = pytest.mark.cgroupfs

#: Of CPU time, over which a share is judged.
JUDGED = 2_000_000


@pytest.fixture
def plain(bed: Bed, tiers: tuple[str, str], tmp_path: Path) -> Iterator[InProcess]:
    """An agent with elastic resources on, beside tiers with the kubelet's weights."""
    made = InProcess(bed.mounts, bed.kubepods, tmp_path)
    made.settings(elasticResources={})
    try:
        yield made
    finally:
        made.close()


def put_pods(bed: Bed, agent: InProcess, *asked: Mapping[str, str]) -> list[tuple[str, str]]:
    """Best-effort pods with one container each, whose limits these are: the pods' cgroups and their
    containers'."""
    made: list[tuple[str, str]] = []
    documents = []
    for number, limits in enumerate(asked, 1):
        pod, identity = pod_path(bed, number, "/besteffort"), CONTAINER.format(number)
        made.append((pod, bed.make(f"{pod}/{identity}")))
        box = Box(identity, {}, limits)
        documents.append(pod_object(UID.format(number), [box], name=f"job-{number}"))
    agent.put("pods", *documents)
    agent.settle()
    return made


def burn_on_one(bed: Bed, path: str) -> None:
    """All loops on the first CPU: what they share is exactly one."""
    (pid,) = bed.burn(path)
    os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})


def used_of(bed: Bed, *paths: str) -> list[int]:
    """CPU time of each while together they use enough to judge, whatever the machine's speed."""
    before = [bed.usage(path) for path in paths]

    def now() -> list[int]:
        return [bed.usage(path) - old for path, old in zip(paths, before, strict=True)]

    until(lambda: sum(now()) >= JUDGED)
    return now()


@pytest.mark.parametrize(
    "asked",
    [
        ({ELASTIC_CPU: "1"}, {ELASTIC_CPU: "3"}),
        ({ELASTIC_CPU: "500m"}, {BATCH_CPU: "1500"}),
    ],
)
def test_short_cpu_is_shared_as_asked_for(
    bed: Bed, plain: InProcess, asked: tuple[Mapping[str, str], ...]
) -> None:
    pods = put_pods(bed, plain, *asked)
    for _, inner in pods:
        burn_on_one(bed, inner)

    def judge() -> None:
        one, three = used_of(bed, *(pod for pod, _ in pods))
        assert three / one == pytest.approx(3, rel=0.05)

    despite_neighbours(judge)


def test_a_limit_is_never_exceeded(bed: Bed, plain: InProcess) -> None:
    ((pod, inner),) = put_pods(bed, plain, {ELASTIC_CPU: "300m"})
    bed.go_first()
    bed.burn(inner, 2)
    used = bed.cores(pod, 3)
    assert used <= 0.3 * 1.05
    assert used >= 0.3 * 0.5  # it did run, however busy the machine is


def test_all_of_them_stay_below_an_ordinary_pod(bed: Bed, plain: InProcess) -> None:
    pods = put_pods(bed, plain, {ELASTIC_CPU: "8"}, {BATCH_CPU: "8000"})
    service = bed.make(f"{pod_path(bed, 9)}/{CONTAINER.format(9)}")
    for path in (service, *(inner for _, inner in pods)):
        burn_on_one(bed, path)

    def judge() -> None:
        ordinary, *elastic = used_of(bed, service, *(pod for pod, _ in pods))
        assert sum(elastic) < ordinary * 0.05

    despite_neighbours(judge)


def test_what_is_written_and_put_back(bed: Bed, plain: InProcess) -> None:
    before: dict[str, str] = {}
    pod, inner = pod_path(bed, 1, "/besteffort"), CONTAINER.format(1)
    for path in (pod, f"{pod}/{inner}"):
        before |= knob_files(bed, bed.make(path))
    asked = {ELASTIC_CPU: "1500m", ELASTIC_MEMORY: "64Mi"}
    ((pod, inner),) = put_pods(bed, plain, asked)
    for path in (pod, inner):
        assert limit(bed, path) == parse_milli_cpu("1500m") * 100
        assert memory(bed, path) == 64 * MI
        assert weight(bed, path) == (1536 if bed.version is V1 else 150)
        if bed.version is not V1:
            high = int(bed.read(path, "memory.high", CgroupController.MEMORY))
            assert high == 64 * MI * 9 // 10 // PAGE * PAGE
    plain.settings()
    plain.settle()
    assert knob_files(bed, pod) | knob_files(bed, inner) == before


def test_a_bad_amount_is_one_sentence_and_the_other_pod_goes_on(bed: Bed, plain: InProcess) -> None:
    bad, good = put_pods(bed, plain, {ELASTIC_CPU: "0.5m"}, {ELASTIC_CPU: "2"})
    assert limit(bed, bad[0]) is None
    assert limit(bed, good[0]) == 200_000
    (told,) = plain.told("default/job-1: elastic_resources")
    assert told.endswith(
        "limits['gocrane.io/cpu'] is '0.5m', but must be CPUs to a thousandth, zero or more, such "
        "as 2 or 500m"
    )
