"""Waiting tasks, from plain files that look like a cgroup's and /proc's."""

import os
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.gap import Gap
from slackwater.observation.metrics import run_queue
from slackwater.observation.metrics.tick_view import NEEDS_SECOND
from tests.unit.observation.metrics.group_node import GroupNode

WAITED = "container_sched_run_queue_time"


def test_waiting_tasks_in_microseconds_per_second(node: GroupNode) -> None:
    [(_, container)] = node.refs
    node.tasks(container, t7=1_000_000, t8=5_000_000)
    assert node.look(1, WAITED) == NEEDS_SECOND
    node.tasks(container, t7=2_000_000, t8=9_000_000)  # 5 ms in 2 s
    assert node.values(3, WAITED) == {("p0", ""): 2500, ("p0", "main"): 2500}


def test_tasks_that_began_ended_or_took_anothers_number(node: GroupNode) -> None:
    [(_, container)] = node.refs
    node.tasks(container, t7=1_000_000, t8=5_000_000, t9=8_000_000)
    node.look(1, WAITED)
    node.tasks(container, t8=6_000_000, t9=3_000_000, t10=2_000_000)  # 1 ms, 3 ms and 2 ms
    assert node.values(2, WAITED)[("p0", "main")] == 6000
    node.host.remove("proc/10/schedstat")  # it ended after it was listed
    assert node.values(3, WAITED)[("p0", "main")] == 0


def test_a_container_without_tasks_waits_for_nothing(node: GroupNode) -> None:
    node.look(1, WAITED)
    assert node.values(2, WAITED) == {("p0", ""): 0, ("p0", "main"): 0}


def test_tasks_of_groups_below_the_containers_own(node: GroupNode) -> None:
    [(_, container)] = node.refs
    inner = node.plain.make(f"{container.path}/init.scope")
    node.tasks(container, t7=0)
    below = CgroupRef(inner, 0, Level.CONTAINER)
    node.tasks(below, t8=0)
    node.look(1, WAITED)
    node.tasks(below, t8=4_000_000)
    assert node.values(2, WAITED)[("p0", "main")] == 4000


def test_tasks_of_many_containers_are_looked_at_in_turn(
    tmp_path: Path, version: CgroupVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queue, "_TASKS_IN_A_TICK", 10)  # two containers with a task each
    node = GroupNode(tmp_path, version, pods=4)
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
    node = GroupNode(tmp_path, version)
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


def test_a_container_with_too_many_tasks_has_no_sample(node: GroupNode) -> None:
    """Each of them costs the tick a little."""
    [(_, container)] = node.refs
    node.tasks(container, **{f"t{number}": 0 for number in range(1000, 3001)})
    assert node.look(1, WAITED) == Gap("it has more than 2000 tasks")


class Processes:
    """A /proc of another PID namespace than ours: cgroups list none of its tasks."""

    def __init__(self, node: GroupNode) -> None:
        self._host = node.host
        self._host.name_self(os.getpid() + 1)

    def put(self, number: int, group: str, **waited: int) -> None:
        """A process in this cgroup, by /proc/PID/cgroup, and the waiting times of its threads."""
        self._host.put(f"proc/{number}/cgroup", group.encode())
        for task, nanos in waited.items():
            name = task.removeprefix("t")
            self._host.put(f"proc/{number}/task/{name}/schedstat", b"")
            self._host.put(f"proc/{name}/schedstat", f"1 {nanos} 2\n".encode())


@pytest.mark.parametrize(
    "group",
    [
        "4:cpu,cpuacct:/kubepods/burstable/pod1/{0}\n1:name=systemd:/\n",
        "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{0}.scope\n",
        "0::/../../kubepods-pod1.slice/cri-containerd-{0}.scope/init.scope\n",  # a namespace
        "0::/docker/" + "f" * 64 + "/kubepods/pod1/{0}\n",  # a container in a container
    ],
)
def test_in_another_pid_namespace_processes_say_where_they_are(node: GroupNode, group: str) -> None:
    processes = Processes(node)
    here = group.format(f"{0:064x}")
    processes.put(7, here, t7=1_000_000, t70=0)
    processes.put(8, "0::/system.slice/sshd.service\n", t8=0)
    processes.put(9, "0::/\n", t9=0)
    assert node.look(1, WAITED) == NEEDS_SECOND
    processes.put(7, here, t7=3_000_000, t70=1_000_000)  # 3 ms in 1 s
    processes.put(8, "0::/system.slice/sshd.service\n", t8=5_000_000)
    assert node.values(2, WAITED) == {("p0", ""): 3000, ("p0", "main"): 3000}


def test_a_process_that_joins_its_container_late_is_found(node: GroupNode) -> None:
    processes = Processes(node)
    here = f"0::/kubepods/pod1/{0:064x}\n"
    processes.put(7, "0::/system.slice/containerd.service\n", t7=0)
    node.look(1, WAITED)
    processes.put(7, here, t7=2_000_000)
    assert node.values(2, WAITED)[("p0", "main")] == 2000
    processes.put(7, here, t7=3_000_000)
    assert node.values(3, WAITED)[("p0", "main")] == 1000


def test_a_number_that_another_process_has_now_is_asked_again(node: GroupNode) -> None:
    processes = Processes(node)
    processes.put(7, f"0::/kubepods/pod1/{0:064x}\n", t7=0)
    for second in range(1, 4):
        node.look(second, WAITED)
    processes.put(7, "0::/system.slice/sshd.service\n", t7=0)
    for second in range(4, 69):
        node.look(second, WAITED)
    processes.put(7, "0::/system.slice/sshd.service\n", t7=5_000_000)
    assert node.values(69, WAITED)[("p0", "main")] == 0


def test_a_proc_that_cannot_be_searched_is_a_gap(node: GroupNode) -> None:
    os.rename(node.host.roots.proc, f"{node.host.roots.proc}-away")
    found = node.look(1, WAITED)
    assert found == Gap(f"{node.host.roots.proc}: No such file or directory")
