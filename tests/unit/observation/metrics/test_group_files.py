"""Working sets and run-queue times from plain files that look like cgroups' and /proc's."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.metric import Samples
from slackwater.model.units import UNLIMITED, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.observation.metrics import group_files
from slackwater.observation.metrics.collector import MetricCollector
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, TickView
from tests.unit.observation.descriptors import open_descriptors
from tests.unit.observation.metrics.hosts import PlainHost, at, look, requests
from tests.unit.observation.plain_tree import PlainTree

MEMORY = "container_mem_total_usage"
ELASTIC_MEMORY = "ext_res_container_mem_total_usage"
WAITED = "container_sched_run_queue_time"


class Node:
    """Pods of one container each, in plain directories, and what a test says of them."""

    def __init__(self, top: Path, version: CgroupVersion, pods: int = 1) -> None:
        self.host = PlainHost(top)
        self.plain = PlainTree(top / "cgroup", version)
        self._v1 = version is CgroupVersion.V1
        self.refs: list[tuple[CgroupRef, CgroupRef]] = []
        self.workloads = tuple(self._pod(number) for number in range(pods))
        self.collector: MetricCollector = self.host.collector(self.plain.mounts)

    def _pod(self, number: int) -> Workload:
        uid = f"{number:032x}"
        path = self.plain.make(f"kubepods/pod{uid}/{number:064x}")
        pod, container = (self._ref(each, uid) for each in (os.path.dirname(path), path))
        self.refs.append((pod, container))
        for each in (pod, container):
            self.memory(each, 1000, 400)
            self.tasks(each)
        amounts = {"gocrane.io/memory": 1} if number % 2 else {}
        inside = WorkloadContainer(
            "main", container, MilliCpu(0), UNLIMITED, extended_limits=amounts
        )
        return Workload(uid, f"p{number}", "d", Tier.GUARANTEED, pod, containers=(inside,))

    def _ref(self, path: str, uid: str) -> CgroupRef:
        level = Level.POD if path.count("/") == 1 else Level.CONTAINER
        return CgroupRef(path, os.stat(self.plain.directory(path)).st_ino, level, owner=uid)

    def memory(self, ref: CgroupRef, used: int, inactive: int) -> None:
        usage = "memory.usage_in_bytes" if self._v1 else "memory.current"
        stat = f"cache 5\ninactive_file {inactive}\nactive_file 7\n"
        if self._v1:  # of the group itself, and of those below as well
            stat = f"cache 5\ninactive_file 1\ntotal_inactive_file {inactive}\n"
        for name, text in ((usage, f"{used}\n"), ("memory.stat", stat)):
            self.plain.put(ref.path, name, text, CgroupController.MEMORY)

    def tasks(self, ref: CgroupRef, **waited: int) -> None:
        """By number, with nanoseconds: t7=100."""
        name = "tasks" if self._v1 else "cgroup.threads"
        numbers = [task.removeprefix("t") for task in waited]
        self.plain.put(ref.path, name, "".join(f"{each}\n" for each in numbers))
        for number, nanos in zip(numbers, waited.values(), strict=True):
            self.host.put(f"proc/{number}/schedstat", f"1 {nanos} 2\n".encode())

    def view(self) -> TickView:
        return TickView(usage=MilliCpu(0), workloads=self.workloads)

    def look(self, seconds: float, name: str, age: int = 0) -> Samples | Gap:
        return self.collector.collect(at(seconds), requests(name, age=age), self.view())[name]

    def values(self, seconds: float, name: str, age: int = 0) -> dict[tuple[str, str], float]:
        found = self.look(seconds, name, age)
        assert not isinstance(found, Gap), found
        return {
            (each.labels["PodName"], each.labels["ContainerName"]): each.value for each in found
        }


@pytest.fixture(params=CgroupVersion)
def version(request: pytest.FixtureRequest) -> CgroupVersion:
    found: CgroupVersion = request.param
    return found


@pytest.fixture
def node(tmp_path: Path, version: CgroupVersion) -> Iterator[Node]:
    made = Node(tmp_path, version)
    yield made
    made.collector.close()


def test_a_working_set_leaves_out_idle_files(node: Node) -> None:
    [(pod, container)] = node.refs
    node.memory(pod, 5000, 1000)
    node.memory(container, 300, 400)  # never below zero
    assert node.values(1, MEMORY) == {("p0", ""): 4000, ("p0", "main"): 0}
    node.memory(pod, 7000, 1000)
    assert node.values(2, MEMORY)[("p0", "")] == 6000


def test_files_are_held_while_they_are_asked_for(node: Node) -> None:
    before = open_descriptors()
    node.look(1, MEMORY)
    assert open_descriptors() == before + 4  # two files of two groups
    node.look(2, MEMORY)
    assert open_descriptors() == before + 4
    look(node.collector, 3, ["cpu_load_1_min"], node.view())
    assert open_descriptors() == before
    node.look(4, MEMORY)
    node.collector.close()
    assert open_descriptors() == before


def test_files_of_groups_that_went_are_closed(node: Node) -> None:
    before = open_descriptors()
    node.look(1, MEMORY)
    node.workloads = ()
    assert node.look(2, MEMORY) == ()
    assert open_descriptors() == before


def test_memory_that_cannot_be_read_is_left_out(node: Node) -> None:
    [(pod, container)] = node.refs
    node.plain.put(container.path, "memory.stat", "inactive_file x\n", CgroupController.MEMORY)
    assert node.values(1, MEMORY) == {("p0", ""): 600}
    node.plain.put(pod.path, "memory.stat", "", CgroupController.MEMORY)
    found = node.look(2, MEMORY)
    assert isinstance(found, Gap)
    assert "memory.stat holds ''" in found.reason


def test_the_sum_of_elastic_memory(tmp_path: Path, version: CgroupVersion) -> None:
    node = Node(tmp_path, version, pods=4)
    for number, (_, container) in enumerate(node.refs):
        node.memory(container, 10**number, 0)
    try:
        found = node.look(1, ELASTIC_MEMORY)
        assert not isinstance(found, Gap)
        assert [(each.value, each.labels) for each in found] == [(10 + 1000, {})]
        node.plain.put(node.refs[3][1].path, "memory.stat", "", CgroupController.MEMORY)
        assert isinstance(node.look(2, ELASTIC_MEMORY), Gap)  # half a sum is none
    finally:
        node.collector.close()


def test_many_groups_are_read_in_turn(
    tmp_path: Path, version: CgroupVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at first; then so many in a tick, and each within the age that is asked for."""
    monkeypatch.setattr(group_files, "_GROUPS_IN_A_TICK", 4)
    node = Node(tmp_path, version, pods=5)  # ten groups
    try:
        assert set(node.values(1, MEMORY).values()) == {600}
        for pod, container in node.refs:
            node.memory(pod, 2000, 0)
            node.memory(container, 2000, 0)
        fresh = [list(node.values(tick, MEMORY).values()).count(2000) for tick in (2, 3, 4)]
        assert fresh == [4, 8, 10]
        for pod, container in node.refs:
            node.memory(pod, 3000, 0)
            node.memory(container, 3000, 0)
        # At 6 the six that were read last at 2 and 3 are older than half of 4 s.
        assert list(node.values(6, MEMORY, age=4).values()).count(3000) == 6
    finally:
        node.collector.close()


def test_without_a_memory_controller_there_is_a_gap(tmp_path: Path) -> None:
    node = Node(tmp_path, CgroupVersion.V2)
    node.collector = node.host.collector()
    assert node.look(1, MEMORY) == Gap("the memory controller is mounted nowhere")


def test_waiting_tasks_in_microseconds_per_second(node: Node) -> None:
    [(_, container)] = node.refs
    node.tasks(container, t7=1_000_000, t8=5_000_000)
    assert node.look(1, WAITED) == NEEDS_SECOND
    node.tasks(container, t7=2_000_000, t8=9_000_000)  # 5 ms in 2 s
    assert node.values(3, WAITED) == {("p0", ""): 2500, ("p0", "main"): 2500}


def test_tasks_that_began_ended_or_took_anothers_number(node: Node) -> None:
    [(_, container)] = node.refs
    node.tasks(container, t7=1_000_000, t8=5_000_000, t9=8_000_000)
    node.look(1, WAITED)
    node.tasks(container, t8=6_000_000, t9=3_000_000, t10=2_000_000)  # 1 ms, 3 ms and 2 ms
    assert node.values(2, WAITED)[("p0", "main")] == 6000
    node.host.remove("proc/10/schedstat")  # it ended after it was listed
    assert node.values(3, WAITED)[("p0", "main")] == 0


def test_a_container_without_tasks_waits_for_nothing(node: Node) -> None:
    node.look(1, WAITED)
    assert node.values(2, WAITED) == {("p0", ""): 0, ("p0", "main"): 0}


def test_tasks_of_groups_below_the_containers_own(node: Node) -> None:
    [(_, container)] = node.refs
    inner = node.plain.make(f"{container.path}/init.scope")
    node.tasks(container, t7=0)
    below = CgroupRef(inner, 0, Level.CONTAINER)
    node.tasks(below, t8=0)
    node.look(1, WAITED)
    node.tasks(below, t8=4_000_000)
    assert node.values(2, WAITED)[("p0", "main")] == 4000


def test_another_pid_namespace_is_told(node: Node) -> None:
    [(_, container)] = node.refs
    name = "tasks" if node.plain.version is CgroupVersion.V1 else "cgroup.threads"
    node.plain.put(container.path, name, "0\n0\n")
    found = node.look(1, WAITED)
    assert isinstance(found, Gap)
    assert "the agent needs the host's PID namespace" in found.reason


def test_tasks_of_many_containers_are_looked_at_in_turn(
    tmp_path: Path, version: CgroupVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_files, "_TASKS_IN_A_TICK", 4)  # two containers with a task each
    node = Node(tmp_path, version, pods=4)
    try:
        for number, (_, container) in enumerate(node.refs):
            node.tasks(container, **{f"t{number + 1}": 0})
        assert node.look(1, WAITED) == NEEDS_SECOND
        for number, (_, container) in enumerate(node.refs):
            node.tasks(container, **{f"t{number + 1}": 6_000_000})
        assert len(node.values(2, WAITED)) == 2 * 2  # two pods and their containers
        found = node.values(3, WAITED)
        assert len(found) == 4 * 2
        assert sorted(set(found.values())) == [3000, 6000]  # over the time since its own last look
    finally:
        node.collector.close()


def test_samples_that_are_too_old_are_gaps(tmp_path: Path, version: CgroupVersion) -> None:
    node = Node(tmp_path, version)
    try:
        node.look(1, WAITED, age=5)
        node.values(2, WAITED, age=5)
        [(_, container)] = node.refs
        name = "tasks" if version is CgroupVersion.V1 else "cgroup.threads"
        os.unlink(f"{node.plain.directory(container.path)}/{name}")
        assert node.values(6, WAITED, age=5)  # four seconds old
        found = node.look(8, WAITED, age=5)
        assert isinstance(found, Gap)
        assert found.reason == f"{name} does not exist here; the last sample is 6 s old"
    finally:
        node.collector.close()
