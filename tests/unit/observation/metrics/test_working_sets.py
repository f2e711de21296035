"""Working sets, from plain files that look like a memory controller's."""

from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.observation.metrics import working_sets
from tests.unit.observation.descriptors import open_descriptors
from tests.unit.observation.metrics.group_node import GroupNode
from tests.unit.observation.metrics.hosts import look

MEMORY = "container_mem_total_usage"
ELASTIC_MEMORY = "ext_res_container_mem_total_usage"


def test_a_working_set_leaves_out_idle_files(node: GroupNode) -> None:
    [(pod, container)] = node.refs
    node.memory(pod, 5000, 1000)
    node.memory(container, 300, 400)  # never below zero
    assert node.values(1, MEMORY) == {("p0", ""): 4000, ("p0", "main"): 0}
    node.memory(pod, 7000, 1000)
    assert node.values(2, MEMORY)[("p0", "")] == 6000


def test_files_are_held_while_they_are_asked_for(node: GroupNode) -> None:
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


def test_files_of_groups_that_went_are_closed(node: GroupNode) -> None:
    before = open_descriptors()
    node.look(1, MEMORY)
    node.workloads = ()
    assert node.look(2, MEMORY) == ()
    assert open_descriptors() == before


def test_memory_that_cannot_be_read_is_left_out(node: GroupNode) -> None:
    [(pod, container)] = node.refs
    node.plain.put(container.path, "memory.stat", "inactive_file x\n", CgroupController.MEMORY)
    assert node.values(1, MEMORY) == {("p0", ""): 600}
    node.plain.put(pod.path, "memory.stat", "", CgroupController.MEMORY)
    found = node.look(2, MEMORY)
    assert isinstance(found, Gap)
    assert "memory.stat holds ''" in found.reason


def test_the_sum_of_elastic_memory(tmp_path: Path, version: CgroupVersion) -> None:
    node = GroupNode(tmp_path, version, pods=4)
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
    monkeypatch.setattr(working_sets, "_GROUPS_IN_A_TICK", 4)
    node = GroupNode(tmp_path, version, pods=5)  # ten groups
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


def test_descriptors_are_not_held_for_what_is_read_now_and_then(
    tmp_path: Path, version: CgroupVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_sets, "_GROUPS_IN_A_TICK", 3)
    node = GroupNode(tmp_path, version, pods=2)  # four groups
    before = open_descriptors()
    assert len(node.values(1, MEMORY)) == 4
    assert open_descriptors() == before
    node.workloads = node.workloads[:1]
    assert len(node.values(2, MEMORY)) == 2
    assert open_descriptors() == before + 4
    node.collector.close()


def test_a_group_that_cannot_be_read_keeps_its_last_value_for_a_while(node: GroupNode) -> None:
    [(_, container)] = node.refs
    assert len(node.values(1, MEMORY, age=10)) == 2
    node.plain.put(container.path, "memory.stat", "", CgroupController.MEMORY)
    assert node.values(11, MEMORY, age=10)[("p0", "main")] == 600
    assert ("p0", "main") not in node.values(12, MEMORY, age=10)
    node.memory(container, 900, 0)
    assert node.values(13, MEMORY, age=10)[("p0", "main")] == 900


def test_without_a_memory_controller_there_is_a_gap(tmp_path: Path) -> None:
    node = GroupNode(tmp_path, CgroupVersion.V2)
    node.collector = node.host.collector()
    assert node.look(1, MEMORY) == Gap("the memory controller is mounted nowhere")
