"""The handlers where a real systemd owns the cgroups: pods' values as properties of their units."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.avoidance_rules import ALWAYS, NEVER, put_rule, restore, trigger
from tests.kernel.in_process import (
    BATCH_CPU,
    BATCH_MEMORY,
    BURST,
    LEVEL,
    Box,
    InProcess,
    pod_object,
)
from tests.kernel.units import MOUNTS, Node, _sleeper, systemctl, unit_writer

pytestmark = pytest.mark.systemd

ID = "5" * 64
MI = 2**20
_numbers = itertools.count(1)


class KubeNode(Node):
    """The same with the names that a kubelet with a cgroup root of its own gives."""

    def __init__(self) -> None:
        self.top = f"slackwater{next(_numbers)}x{os.getpid()}"
        self.process = _sleeper()
        names = [self.top]
        for part in ("kubepods", "besteffort", "pod1"):
            names.append(f"{names[-1]}-{part}")
        self.slice(f"{names[0]}.slice")
        self.slice(f"{names[1]}.slice", CPUWeight=("t", 79))
        self.slice(f"{names[2]}.slice", CPUWeight=("t", 1))
        self.slice(f"{names[3]}.slice", CPUWeight=("t", 17))
        paths = ["/".join(f"{name}.slice" for name in names[:depth]) for depth in range(1, 5)]
        self.kubepods, self.tier, self.pod = paths[1:]
        self.container = f"{self.pod}/cri-containerd-{ID}.scope"
        self._scope(f"cri-containerd-{ID}.scope", f"{names[3]}.slice")


@pytest.fixture
def node() -> Iterator[KubeNode]:
    made = KubeNode()
    try:
        yield made
    finally:
        made.close()


def test_weight_quota_memory_idle_and_burst_through_units(node: KubeNode, tmp_path: Path) -> None:
    before = node.picture()
    agent = InProcess(MOUNTS, node.kubepods, tmp_path, unit_writer())
    try:
        agent.settings(elasticResources={}, qosLevel={}, quotaBurst={})
        box = Box(ID, {}, {BATCH_CPU: "300", BATCH_MEMORY: str(64 * MI)})
        agent.put("pod", pod_object("1", [box], {LEVEL: "BE", BURST: "true"}))
        agent.settle()
        for path in (node.pod, node.container):
            assert node.text(path, "cpu.max") == "30000 100000"
            assert node.text(path, "cpu.max.burst") == "30000"
            assert node.text(path, "memory.max") == str(64 * MI)
        assert node.text(node.pod, "cpu.idle") == "1"
        assert node.text(node.container, "cpu.weight") == "30"
        name = node.pod.rpartition("/")[2]
        assert node.property(name, "CPUQuotaPerSecUSec") == 300_000
        assert node.property(name, "MemoryMax") == 64 * MI
        shown = node.picture()
        systemctl("daemon-reload")
        assert node.picture() == shown
        agent.settings(elasticResources={})  # idle and burst end, the weight stays
        agent.settle()
        assert node.text(node.pod, "cpu.weight") == "30"
        assert node.text(node.pod, "cpu.max.burst") == "0"
        agent.settings()
        agent.settle()
        assert node.picture() == before
        assert agent.ledger.entries == ()
        systemctl("daemon-reload")
        assert node.picture() == before
    finally:
        agent.close()


def test_a_rule_throttles_and_restores_through_units(node: KubeNode, tmp_path: Path) -> None:
    """The container sleeps: its first claim is the kernel's smallest quota, 1 % of a CPU."""
    before = node.picture()
    agent = InProcess(MOUNTS, node.kubepods, tmp_path, unit_writer())
    try:
        agent.put("pod", pod_object("1", [Box(ID)]))
        put_rule(agent, ALWAYS)
        trigger(agent)
        assert node.text(node.container, "cpu.max") == "1000 100000"
        assert node.text(node.pod, "cpu.idle") == "1"
        shown = node.picture()
        systemctl("daemon-reload")
        assert node.picture() == shown
        put_rule(agent, NEVER)
        restore(agent)
        agent.settle()
        assert node.picture() == before
        assert agent.ledger.entries == ()
    finally:
        agent.close()
