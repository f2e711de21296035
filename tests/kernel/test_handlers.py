"""Weight, quota, memory, idle and burst of real pods: as asked, and undone exactly."""

import os

import pytest

from tests.kernel.batch_pods import (
    BATCH,
    BE,
    MAY_BURST,
    MI,
    UID_1,
    V1,
    BatchPod,
    batch,
    burst,
    is_idle,
    limit,
    memory,
    weight,
)
from tests.kernel.bed import Bed
from tests.kernel.in_process import (
    BATCH_CPU,
    BATCH_MEMORY,
    LEVEL,
    RATIOS,
    Box,
    InProcess,
    pod_object,
)
from tests.kernel.pods import CONTAINER

pytestmark = pytest.mark.cgroupfs


@pytest.mark.parametrize("end", ["plain", "annotated", "gone", "off", "release"])
def test_all_four_as_asked_and_every_file_back(
    bed: Bed, pod: BatchPod, agent: InProcess, end: str
) -> None:
    before = pod.picture()
    boxes = [batch(500, 64 * MI), batch(1000, 128 * MI, 1)]
    agent.settings(elasticResources={}, qosLevel={}, quotaBurst={}, memoryQos={})
    said = BE | MAY_BURST | {RATIOS: '{"memoryQos": {"highRatio": 50, "lowRatio": 25}}'}
    agent.put("pod", pod_object(UID_1, boxes, said))
    agent.settle()
    v1 = bed.version is V1
    assert [limit(bed, path) for path in (pod.path, *pod.inner)] == [150_000, 50_000, 100_000]
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [150_000, 50_000, 100_000]
    assert [memory(bed, path) for path in (pod.path, *pod.inner)] == [192 * MI, 64 * MI, 128 * MI]
    assert [weight(bed, path) for path in pod.inner] == ([512, 1024] if v1 else [50, 100])
    assert is_idle(bed, pod.path)
    if not v1:
        assert bed.read(pod.inner[0], "memory.high") == str(32 * MI)
        assert bed.read(pod.inner[1], "memory.low") == str(32 * MI)
    assert agent.once().outcomes == ()  # the idle group's weight is hidden, and not fought for
    match end:
        case "plain":
            agent.put("pod", pod_object(UID_1, [Box(box.id) for box in boxes]))
        case "annotated":  # as before, and of a class that is the kubelet's business
            agent.put("pod", pod_object(UID_1, boxes, {LEVEL: "LC", RATIOS: ""}))
        case "gone":
            agent.put("pod")
        case "off":
            agent.settings()
        case "release":
            agent.agent.release(agent.once().snapshot.at, "the test's end")
    if end != "release":
        agent.settle()
    assert pod.picture() == before
    assert agent.ledger.entries == ()


def test_every_kind_of_container(bed: Bed, agent: InProcess, pod: BatchPod) -> None:
    """What runs first may need more than what stays; what only looks on needs nothing."""
    pod.inner += [pod.add(2), pod.add(3)]
    agent.settings(**BATCH)
    init = batch(3000, 64 * MI, listed="initContainers")
    sidecar = batch(500, 32 * MI, 1, listed="initContainers", always=True)
    onlooker = Box(CONTAINER.format(103), listed="ephemeralContainers")
    agent.put("pod", pod_object(UID_1, [init, sidecar, batch(1000, 64 * MI, 2), onlooker]))
    agent.settle()
    quotas = [limit(bed, path) for path in (pod.path, *pod.inner)]
    assert quotas == [300_000, 300_000, 50_000, 100_000, None]
    assert memory(bed, pod.path) == 96 * MI
    assert weight(bed, pod.inner[3]) == 2


def test_a_limit_that_one_container_lacks_is_none_of_the_pod(
    bed: Bed, agent: InProcess, pod: BatchPod
) -> None:
    agent.settings(**BATCH)
    free = Box(CONTAINER.format(101), {BATCH_CPU: "500"}, {BATCH_MEMORY: "64Mi", BATCH_CPU: "0"})
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI), free]))
    agent.settle()
    assert [limit(bed, path) for path in (pod.path, *pod.inner)] == [None, 50_000, None]
    assert memory(bed, pod.path) == 128 * MI
    assert "at most the limit" in agent.told("default/job: elastic_resources")[0]


@pytest.mark.v2
@pytest.mark.parametrize(
    ("said", "high", "low", "least"),
    [
        ('{"memoryQos": {"highRatio": 80, "lowRatio": 50, "minRatio": 10}}', "80%", "50%", "10%"),
        ('{"memoryQos": {"lowRatio": 50}}', "max", "50%", "0"),
        ("{}", "max", "0", "0"),
    ],
)
def test_memory_by_ratios(
    bed: Bed, pod: BatchPod, agent: InProcess, said: str, high: str, low: str, least: str
) -> None:
    """ "{}" is a reset, whatever stood there; the end of the annotation is the way back to it."""
    for file, text in (("memory.high", "90M"), ("memory.low", "1M"), ("memory.min", "1M")):
        bed.write(pod.inner[0], file, text)
    before = pod.picture()
    agent.settings(memoryQos={})
    size = 100 * MI
    box = Box(CONTAINER.format(100), {"memory": str(size)}, {"memory": str(size)})
    agent.put("pod", pod_object(UID_1, [box], {RATIOS: said}))
    agent.settle()
    found = [bed.read(pod.inner[0], f"memory.{name}") for name in ("high", "low", "min")]
    page = os.sysconf("SC_PAGE_SIZE")
    wanted = [
        str(size * int(text[:-1]) // 100 // page * page) if text.endswith("%") else text
        for text in (high, low, least)
    ]
    assert found == wanted
    agent.put("pod", pod_object(UID_1, [box]))
    agent.settle()
    assert pod.picture() == before


@pytest.mark.v2
def test_memory_as_the_kubelet_does_it(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    before = pod.picture()
    agent.settings(memoryQos={"formula": "kubelet"})
    boxes = [
        Box(CONTAINER.format(100), {"memory": "10Mi"}, {"memory": "20000001"}),
        Box(CONTAINER.format(101), {"memory": "10Mi"}, {"memory": "10Mi"}),
    ]
    agent.put("pod", pod_object(UID_1, boxes))
    agent.settle()
    page = os.sysconf("SC_PAGE_SIZE")
    high = (10 * MI + (20000001 - 10 * MI) * 90 // 100) // page * page
    assert [bed.read(path, "memory.high") for path in pod.inner] == [str(high), "max"]
    assert [bed.read(path, "memory.min") for path in pod.inner] == [str(10 * MI)] * 2
    agent.settings()
    agent.settle()
    assert pod.picture() == before


@pytest.mark.v1
def test_on_v1_there_is_no_memory_protection_and_it_is_said(
    bed: Bed, pod: BatchPod, agent: InProcess
) -> None:
    before = pod.picture()
    agent.settings(memoryQos={})
    boxes = [Box(CONTAINER.format(100), {}, {"memory": "100Mi"})]
    agent.put("pod", pod_object(UID_1, boxes, {RATIOS: '{"memoryQos": {"highRatio": 80}}'}))
    agent.settle()
    assert pod.picture() == before
    sentence = "only cgroup v2 has memory.high, memory.low and memory.min"
    assert agent.told("default/job: memory_qos") == [sentence]
