"""Weight, quota, memory, idle and burst of real pods: as asked, undone exactly, in any company."""

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent import program
from slackwater.agent.board_view import view_of
from slackwater.model.cgroup import CgroupVersion, Controller
from slackwater.model.gap import Gap
from slackwater.model.knob import MEMORY_MAX, QUOTA, WEIGHT, Knob
from slackwater.model.plan import Result
from slackwater.policies.policy import Policy
from slackwater.record.explanation import explain
from tests.kernel.bed import Bed
from tests.kernel.hand import clock, knob_files
from tests.kernel.in_process import (
    BATCH_CPU,
    BATCH_MEMORY,
    BURST,
    BURST_TIME,
    LEVEL,
    RATIOS,
    Box,
    InProcess,
    pod_object,
)
from tests.kernel.pods import CONTAINER, UID, pod_path, remove_pod
from tests.kernel.running import Running

pytestmark = pytest.mark.cgroupfs

UID_1 = UID.format(1)
MI = 2**20
BE = {LEVEL: "BE"}
MAY_BURST = {BURST: "true"}
BATCH: dict[str, dict[str, Any]] = {"batchResources": {}}
V1, V2 = CgroupVersion.V1, CgroupVersion.V2


def batch(cpu: int, memory: int, number: int = 0, **more: Any) -> Box:
    """A container that may use so many milliCPU and bytes; its requests are its limits."""
    limits = {BATCH_CPU: str(cpu), BATCH_MEMORY: str(memory)}
    return Box(CONTAINER.format(100 + number), {}, limits, **more)


class Pod:
    """A best-effort pod on the bed, with the weights that the kubelet gives one."""

    def __init__(self, bed: Bed, containers: int = 2) -> None:
        self.bed = bed
        self.path = pod_path(bed, 1, "/besteffort")
        self.inner = [self.add(number) for number in range(containers)]
        bed.write(self.path, weight_file(bed), "17")

    def add(self, number: int) -> str:
        path = self.bed.make(f"{self.path}/{CONTAINER.format(100 + number)}")
        self.bed.write(path, weight_file(self.bed), "2")
        return path

    def picture(self) -> dict[str, str]:
        """Every knob of the tier, the pod and its containers."""
        found = knob_files(self.bed, self.path.rpartition("/")[0])
        for path in (self.path, *self.inner):
            found |= knob_files(self.bed, path)
        return found


def weight_file(bed: Bed) -> str:
    return file_of(bed, WEIGHT)


def file_of(bed: Bed, knob: Knob) -> str:
    file = knob.file(bed.version)
    assert not isinstance(file, Gap)
    return file.name


def weight(bed: Bed, path: str) -> int:
    return int(bed.read(path, weight_file(bed)))


def limit(bed: Bed, path: str) -> int | None:
    """The quota in microseconds."""
    word = bed.read(path, file_of(bed, QUOTA)).split()[0]
    return None if word in ("-1", "max") else int(word)


def burst(bed: Bed, path: str) -> int:
    return int(bed.read(path, "cpu.cfs_burst_us" if bed.version is V1 else "cpu.max.burst"))


def memory(bed: Bed, path: str) -> int | None:
    word = bed.read(path, file_of(bed, MEMORY_MAX), Controller.MEMORY)
    return None if word == "max" or int(word) > 2**62 else int(word)


def is_idle(bed: Bed, path: str) -> bool:
    return bed.read(path, "cpu.idle") == "1"


@pytest.fixture
def pod(bed: Bed) -> Pod:
    return Pod(bed)


@pytest.fixture
def agent(bed: Bed, pod: Pod, tmp_path: Path) -> Iterator[InProcess]:
    made = InProcess(bed.mounts, bed.kubepods, tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("end", ["plain", "annotated", "gone", "off", "release"])
def test_all_four_as_asked_and_every_file_back(
    bed: Bed, pod: Pod, agent: InProcess, end: str
) -> None:
    before = pod.picture()
    boxes = [batch(500, 64 * MI), batch(1000, 128 * MI, 1)]
    agent.settings(batchResources={}, qosLevel={}, quotaBurst={}, memoryQos={})
    said = BE | MAY_BURST | {RATIOS: '{"memoryQos": {"highRatio": 50, "lowRatio": 25}}'}
    agent.put("pod", pod_object(UID_1, boxes, said))
    agent.settle()
    v1 = bed.version is V1
    assert [limit(bed, path) for path in (pod.path, *pod.inner)] == [150_000, 50_000, 100_000]
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [150_000, 50_000, 100_000]
    assert [memory(bed, path) for path in (pod.path, *pod.inner)] == [192 * MI, 64 * MI, 128 * MI]
    assert [weight(bed, path) for path in pod.inner] == ([512, 1024] if v1 else [20, 39])
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


def test_every_kind_of_container(bed: Bed, agent: InProcess, pod: Pod) -> None:
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
    bed: Bed, agent: InProcess, pod: Pod
) -> None:
    agent.settings(**BATCH)
    free = Box(CONTAINER.format(101), {BATCH_CPU: "500"}, {BATCH_MEMORY: "64Mi", BATCH_CPU: "0"})
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI), free]))
    agent.settle()
    assert [limit(bed, path) for path in (pod.path, *pod.inner)] == [None, 50_000, None]
    assert memory(bed, pod.path) == 128 * MI
    assert "at most the limit" in agent.told("default/job: batch_resources")[0]


@pytest.mark.parametrize("first", ["qosLevel", "batchResources"])
def test_a_weight_below_idle_comes_and_goes_with_its_owner(
    bed: Bed, pod: Pod, agent: InProcess, first: str
) -> None:
    """Whoever is switched off first, nothing is refused, and no stranger is suspected."""
    before = pod.picture()
    both: dict[str, dict[str, Any]] = {"batchResources": {}, "qosLevel": {}}
    agent.settings(**both)
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE))
    agent.settle()
    assert is_idle(bed, pod.path)
    agent.settings(**{name: {} for name in both if name != first})
    agent.settle()
    assert is_idle(bed, pod.path) is (first == "batchResources")
    if first == "qosLevel":
        assert weight(bed, pod.path) == (512 if bed.version is V1 else 20)
    agent.settings()
    agent.settle()
    assert pod.picture() == before
    assert agent.ledger.entries == ()


def test_a_request_that_comes_while_the_pod_is_idle(bed: Bed, pod: Pod, agent: InProcess) -> None:
    before = pod.picture()
    agent.settings(batchResources={}, qosLevel={})
    agent.put("pod", pod_object(UID_1, [Box(CONTAINER.format(100))], BE))
    agent.settle()
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE))
    agent.settle()
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)]))
    agent.settle()
    assert (is_idle(bed, pod.path), weight(bed, pod.path)) == (
        False,
        512 if bed.version is V1 else 20,
    )
    agent.put("pod")
    agent.settle()
    assert pod.picture() == before


@pytest.mark.parametrize("stand_in", ["weight", "none"])
def test_other_stand_ins(bed: Bed, pod: Pod, agent: InProcess, stand_in: str) -> None:
    agent.settings(qosLevel={"standIn": stand_in})
    agent.put("pod", pod_object(UID_1, [], BE))
    agent.settle()
    lowest = 2 if bed.version is V1 else 1
    assert weight(bed, pod.path) == (lowest if stand_in == "weight" else 17)
    assert not is_idle(bed, pod.path)


def set_limits(agent: InProcess, *cpu: int, time: str = "") -> None:
    said = MAY_BURST | ({BURST_TIME: time} if time else {})
    boxes = [batch(each, 64 * MI, number) for number, each in enumerate(cpu)]
    agent.put("pod", pod_object(UID_1, boxes, said))


def test_burst_follows_the_quota_up_and_down(bed: Bed, pod: Pod, agent: InProcess) -> None:
    """The kernel refuses a burst above the quota, and a quota below the burst."""
    before = pod.picture()
    agent.settings(batchResources={}, quotaBurst={})
    for first, second in ((500, 1000), (2000, 300), (100, 5), (1500, 1500), (400, 400)):
        set_limits(agent, first, second)
        agent.settle()
        each = [max(first * 100, 1000), max(second * 100, 1000)]
        assert [limit(bed, path) for path in pod.inner] == each
        assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [sum(each), *each]
    set_limits(agent, 400, 200, time="30000")
    agent.settle()
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [50_000, 30_000, 20_000]
    agent.settings(**BATCH)
    set_limits(agent, 100, 100)  # burst ends and the quota falls below it at one time
    agent.settle()
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [0, 0, 0]
    agent.settings()
    agent.settle()
    assert pod.picture() == before


def test_burst_on_a_quota_that_is_not_ours(bed: Bed, pod: Pod, agent: InProcess) -> None:
    """The kubelet's limits: facts row 31."""
    for path, quota in ((pod.path, 300_000), (pod.inner[0], 100_000), (pod.inner[1], 200_000)):
        bed.write(path, file_of(bed, QUOTA), str(quota))
    agent.settings(quotaBurst={})
    boxes = [Box(CONTAINER.format(100)), Box(CONTAINER.format(101))]
    agent.put("pod", pod_object(UID_1, boxes, MAY_BURST | {BURST_TIME: "100000"}))
    agent.settle()
    found = [burst(bed, path) for path in (pod.path, *pod.inner)]
    assert found == [200_000, 100_000, 100_000]
    agent.put("pod", pod_object(UID_1, boxes, {BURST: "false"}))
    agent.settle()
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [0, 0, 0]


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
    bed: Bed, pod: Pod, agent: InProcess, said: str, high: str, low: str, least: str
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
def test_memory_as_the_kubelet_does_it(bed: Bed, pod: Pod, agent: InProcess) -> None:
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
    bed: Bed, pod: Pod, agent: InProcess
) -> None:
    before = pod.picture()
    agent.settings(memoryQos={})
    boxes = [Box(CONTAINER.format(100), {}, {"memory": "100Mi"})]
    agent.put("pod", pod_object(UID_1, boxes, {RATIOS: '{"memoryQos": {"highRatio": 80}}'}))
    agent.settle()
    assert pod.picture() == before
    sentence = "only cgroup v2 has memory.high, memory.low and memory.min"
    assert agent.told("default/job: memory_qos") == [sentence]


NAMES = ("best_effort_share", "batch_resources", "quota_burst")


def orders() -> list[tuple[Policy, ...]]:
    by_name = {policy.name: policy for policy in program.POLICIES}
    rest = tuple(policy for policy in program.POLICIES if policy.name not in NAMES)
    return [(*(by_name[name] for name in names), *rest) for names in itertools.permutations(NAMES)]


def test_three_policies_meet_in_any_order(
    bed: Bed, pod: Pod, agent: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that is used up, so that the tier gets the kernel's smallest quota whatever else
    this machine does. On v1 all below it nest in it; v2 takes the smaller one by itself."""
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "10m"}}}
    before = pod.picture()
    pictures, contributions = [], []
    for order in orders():
        monkeypatch.setattr(program, "POLICIES", order)
        agent.put("node", node)
        agent.settings(bestEffortShare={"threshold": 1}, batchResources={}, quotaBurst={})
        set_limits(agent, 500, 1000, time="20000")
        agent.once()  # rates need two looks
        agent.settle()
        pictures.append(pod.picture())
        contributions.append(explained(agent))
        agent.settings()
        agent.settle()
        assert pod.picture() == before
    assert all(picture == pictures[0] for picture in pictures)
    assert all(found == contributions[0] for found in contributions)
    found = contributions[0]
    v1 = bed.version is V1
    share, base = ("best_effort_share", "cap"), ("batch_resources", "base")
    assert found["besteffort", "quota"] == [share]
    assert found["default/job", "quota"] == ([base, share] if v1 else [base])
    assert found["default/job/c0", "quota"] == ([base, share] if v1 else [base])
    assert found["default/job/c0", "burst"] == [("quota_burst", "set")]
    assert found["default/job/c0", "weight"] == [("batch_resources", "set")]


def explained(agent: InProcess) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Who took part in each value, by target and knob."""
    rows = explain(view_of(agent.board, clock()), "")
    assert not isinstance(rows, Gap)
    return {
        (row.target, row.knob): [(part.policy, part.verb) for part in row.contributions]
        for row in rows
        if row.knob
    }


def test_a_container_that_starts_again(bed: Bed, pod: Pod, agent: InProcess) -> None:
    """A new cgroup with the kernel's defaults in it, burst 0 among them."""
    agent.settings(batchResources={}, quotaBurst={})
    set_limits(agent, 500, 1000)
    agent.settle()
    bed.remove(pod.inner[1])
    fresh = pod.add(7)
    boxes = [batch(500, 64 * MI), batch(1000, 64 * MI, 7)]
    agent.put("pod", pod_object(UID_1, boxes, MAY_BURST))
    agent.settle()
    assert (limit(bed, fresh), burst(bed, fresh)) == (100_000, 100_000)
    assert {entry.ref.path for entry in agent.ledger.entries} == {pod.path, pod.inner[0], fresh}


def test_a_container_of_the_same_name_that_starts_again(
    bed: Bed, pod: Pod, agent: InProcess
) -> None:
    agent.settings(batchResources={}, quotaBurst={})
    set_limits(agent, 500, 1000)
    agent.settle()
    bed.remove(pod.inner[1])
    bed.make(pod.inner[1])
    agent.settle()
    assert (limit(bed, pod.inner[1]), burst(bed, pod.inner[1])) == (100_000, 100_000)


def test_a_pod_that_goes_between_the_look_and_the_write(
    bed: Bed, pod: Pod, agent: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.settings(batchResources={}, quotaBurst={}, qosLevel={})
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE | MAY_BURST))
    look = agent.sight.close_snapshot

    def look_and_lose(*arguments: Any) -> Any:
        found = look(*arguments)
        if os.path.exists(bed.directory(pod.path)):
            remove_pod(bed, pod.path)
        return found

    monkeypatch.setattr(agent.sight, "close_snapshot", look_and_lose)
    first = agent.once()
    assert {outcome.result for outcome in first.outcomes} == {Result.VANISHED}
    agent.settle()
    assert agent.ledger.entries == ()


def test_a_pod_that_goes_while_it_is_ours(bed: Bed, pod: Pod, agent: InProcess) -> None:
    agent.settings(batchResources={}, quotaBurst={}, qosLevel={})
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE | MAY_BURST))
    agent.settle()
    remove_pod(bed, pod.path)
    agent.settle()
    assert agent.ledger.entries == ()


def test_bad_words_are_told_once_and_the_others_go_on(bed: Bed, pod: Pod, agent: InProcess) -> None:
    other = pod_path(bed, 2, "/besteffort")
    bed.make(f"{other}/{CONTAINER.format(200)}")
    agent.settings(batchResources={}, quotaBurst={}, qosLevel={})
    bad = Box(CONTAINER.format(100), {}, {BATCH_CPU: "200m"})
    said = {LEVEL: "GOLD", BURST: "perhaps"}
    good = Box(CONTAINER.format(200), {}, {BATCH_CPU: "500"})
    agent.put(
        "pods",
        pod_object(UID_1, [bad], said),
        pod_object(UID.format(2), [good], BE | {BURST: "1", BURST_TIME: "-5"}, name="good"),
    )
    agent.settle()
    agent.rounds(2)
    assert (limit(bed, other), burst(bed, other), is_idle(bed, other)) == (50_000, 50_000, True)
    told = {line.what: line.because for line in agent.lines if line.what.startswith("default/")}
    assert told.keys() == {
        "default/job: batch_resources",
        "default/job: qos_level",
        "default/job: quota_burst",
        "default/good: quota_burst",
    }
    assert len([line for line in agent.lines if line.what in told]) == len(told)
    assert "'200m'" in told["default/job: batch_resources"]
    assert "'GOLD'" in told["default/job: qos_level"]
    assert "'perhaps'" in told["default/job: quota_burst"]
    assert "'-5'" in told["default/good: quota_burst"]


VOLCANO = """
cpuQosConfig: {enable: true}
cpuBurstConfig: {enable: true}
---
kind: Node
metadata: {name: here, labels: {volcano.sh/colocation: "true"}}
status: {allocatable: {cpu: "2"}}
"""


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_the_real_agent_by_volcanos_configuration(
    bed: Bed, pod: Pod, tmp_path: Path, start: Callable[..., Running]
) -> None:
    before = pod.picture()
    node = tmp_path / "node"
    node.mkdir()
    (node / "settings.yaml").write_text(VOLCANO)
    document = pod_object(UID_1, [batch(500, 64 * MI)], BE | MAY_BURST)
    (node / "pod.json").write_text(json.dumps(document))
    running = start("--on-exit", "release", "--supported-features", "*,-CPUBurst")
    wait_until(lambda: is_idle(bed, pod.path) and limit(bed, pod.path) == 50_000)
    (node / "settings.yaml").write_text(VOLCANO.replace("cpuQosConfig: {enable: true}", ""))
    wait_until(lambda: not is_idle(bed, pod.path))
    lines = running.end(signal.SIGTERM)
    assert running.process.returncode == 0
    assert pod.picture() == before
    assert not any("refused" in line.get("result", "") for line in lines)
    assert not any("somebody else" in line.get("because", "") for line in lines)
    assert not any(line["what"].startswith("burst of ") for line in lines)
