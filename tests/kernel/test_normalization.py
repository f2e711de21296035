"""CPU normalization on real cgroups: quotas divided exactly, in order, and given back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from slackwater.contract.koordinator.pod import QOS_CLASS
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.plan import StartNote
from slackwater.model.units import Bandwidth, Micros
from tests.kernel import batch_pods
from tests.kernel.bed import Bed
from tests.kernel.hand import clock, knob_files
from tests.kernel.in_process import NODE, Box, InProcess, cpu_inventory, pod_object
from tests.kernel.pods import CONTAINER, UID, limit, pod_path

pytestmark = pytest.mark.cgroupfs

AGAIN = CONTAINER.format(200)

INIT, SIDECAR, MAIN, OPEN = (CONTAINER.format(100 + number) for number in range(4))


class Normalized:
    """A burstable pod with a container of each kind, and one of a pod without any limit."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed = bed
        self.agent = InProcess(bed.mounts, bed.kubepods, folder, cpus=cpu_inventory(folder))
        self.pod = pod_path(bed, 1)
        self.inner = [bed.make(f"{self.pod}/{name}") for name in (INIT, SIDECAR, MAIN)]
        self.open = bed.make(f"{pod_path(bed, 2)}/{OPEN}")
        limit(bed, self.pod, 150_000)
        for path, quota in zip(self.inner, (20_000, 50_000, 100_000), strict=True):
            limit(bed, path, quota)
        self.put_web(MAIN)

    def put_web(self, main: str, labels: dict[str, str] | None = None) -> None:
        """The pods as objects, with this container as the main one's."""
        boxes = [
            Box(INIT, {}, {"cpu": "200m"}, "initContainers"),
            Box(SIDECAR, {}, {"cpu": "500m"}, "initContainers", always=True),
            Box(main, {}, {"cpu": "1"}),
        ]
        web = pod_object(UID.format(1), boxes, name="web")
        web["metadata"]["labels"] = labels or {}
        self.agent.put("pods", web, pod_object(UID.format(2), [Box(OPEN)], name="open"))

    def set_ratio(self, text: str | None) -> None:
        annotations = {} if text is None else {RATIO_ANNOTATION: text}
        node = {"kind": "Node", "metadata": {"name": NODE, "annotations": annotations}}
        self.agent.put("node", node)

    def quotas(self) -> list[int | None]:
        return [batch_pods.limit(self.bed, path) for path in (self.pod, *self.inner, self.open)]

    def quotas_of(self, paths: list[str]) -> list[int | None]:
        return [batch_pods.limit(self.bed, path) for path in paths]

    def files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in (self.pod, *self.inner, self.open):
            found |= knob_files(self.bed, path)
        return found


@pytest.fixture
def node(bed: Bed, tiers: tuple[str, str], tmp_path: Path) -> Iterator[Normalized]:
    made = Normalized(bed, tmp_path)
    try:
        yield made
    finally:
        made.agent.close()


def test_quotas_follow_the_ratio_and_go_back(node: Normalized) -> None:
    before = node.files()
    node.set_ratio("1.20")
    node.agent.settle()
    assert node.quotas() == [125_000, 16_667, 41_667, 83_334, None]
    # A step of 0.01 counts, in either direction.
    node.set_ratio("1.21")
    node.agent.settle()
    assert node.quotas() == [123_967, 16_529, 41_323, 82_645, None]
    node.set_ratio("1.20")
    node.agent.settle()
    assert node.quotas() == [125_000, 16_667, 41_667, 83_334, None]
    node.set_ratio("1.10")
    node.agent.settle()
    assert node.quotas() == [136_364, 18_182, 45_455, 90_910, None]
    # One that cannot be read changes nothing.
    node.set_ratio("0.82")
    node.agent.settle()
    assert node.quotas()[0] == 136_364
    node.set_ratio(None)
    node.agent.settle()
    assert node.files() == before


def test_a_ratio_of_one_gives_everything_back(node: Normalized) -> None:
    before = node.files()
    node.set_ratio("2.00")
    node.agent.settle()
    # On v1 the pod keeps room for a container that starts again, with its whole limit.
    pod = 100_000 if node.bed.version is CgroupVersion.V1 else 75_000
    assert node.quotas() == [pod, 10_000, 25_000, 50_000, None]
    node.set_ratio("1.00")
    node.agent.settle()
    assert node.files() == before


def test_a_container_that_starts_again_is_let_in_and_scaled_by_the_next_tick(
    node: Normalized,
) -> None:
    """As the runtime does it: a new cgroup, and then its whole limit, which v1 refuses above the
    pod's quota."""
    node.set_ratio("5.00")
    node.agent.settle()
    node.bed.remove(node.inner[2])
    fresh = node.bed.make(f"{node.pod}/{AGAIN}")
    limit(node.bed, fresh, 100_000)
    node.put_web(AGAIN)
    node.agent.settle()
    assert batch_pods.limit(node.bed, fresh) == 20_000
    assert node.quotas_of(node.inner[:2]) == [4_000, 10_000]


def test_a_release_and_a_killed_agent_leave_nothing(node: Normalized, tmp_path: Path) -> None:
    before = node.files()
    node.set_ratio("1.50")
    node.agent.settle()
    assert node.files() != before
    # The ledger alone, as after kill -9.
    node.agent.actuator.release()
    assert node.files() == before


@pytest.mark.parametrize("qos_class", ["LSE", "LSR", "SYSTEM"])
def test_pods_that_koordinator_pinned_are_left_alone(node: Normalized, qos_class: str) -> None:
    before = node.files()
    node.put_web(MAIN, {QOS_CLASS: qos_class})
    node.set_ratio("1.50")
    node.agent.settle()
    assert node.files() == before


def start_with(node: Normalized, asked: int, told: int) -> None:
    """As a container runtime makes the main container that the agent was asked about."""
    path = node.inner[2]
    note = StartNote(path, Bandwidth(Micros(asked)), Bandwidth(Micros(told)), clock())
    assert node.agent.actuator.note_start(note) is None
    limit(node.bed, path, told)


def test_a_quota_that_was_there_at_the_start_is_not_divided_again(node: Normalized) -> None:
    """And goes back to what the kubelet asked for, which the container never had."""
    before = node.files()
    start_with(node, 100_000, 83_334)
    node.set_ratio("1.20")
    node.agent.settle()
    assert node.quotas() == [125_000, 16_667, 41_667, 83_334, None]
    # A resize, of which the runtime asks too; the kubelet has raised the pod's quota before it.
    start_with(node, 110_000, 91_667)
    node.agent.settle()
    assert node.quotas()[3] == 91_667
    start_with(node, 100_000, 83_334)
    node.set_ratio(None)
    node.agent.settle()
    assert node.files() == before


def test_a_start_just_before_the_ratio_goes(node: Normalized) -> None:
    """No policy looks at containers any more, and the quota goes back all the same."""
    before = node.files()
    start_with(node, 100_000, 83_334)
    node.set_ratio(None)
    node.agent.rounds(2)
    node.agent.settle()
    assert node.files() == before
    assert node.agent.ledger.starts == ()
