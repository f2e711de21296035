"""Slices and scopes of a real systemd: what unit_writer sets lasts."""

import os
from collections.abc import Iterator

import pytest

from slackwater.model.cgroup import Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    CPUS,
    IDLE,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Result
from slackwater.model.unit_property import settle_in_unit
from slackwater.model.units import UNLIMITED, Bandwidth
from tests.kernel.bed import ROOT
from tests.kernel.hand import quota
from tests.kernel.units import Node, systemctl, to, unit_writer

pytestmark = pytest.mark.systemd


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    try:
        yield made
    finally:
        made.close()


def test_systemd_says_who_it_is() -> None:
    assert (unit_writer().systemd or 0) >= 252


CASES: tuple[tuple[Knob, KnobValue, str, str], ...] = (
    (QUOTA, quota(40_000), "cpu.max", "40000 100000"),
    (QUOTA, quota(41_500), "cpu.max", "42000 100000"),
    (QUOTA, quota(1_000), "cpu.max", "1000 100000"),
    (QUOTA, quota(25_000, 50_000), "cpu.max", "25000 50000"),
    (QUOTA, Bandwidth(UNLIMITED), "cpu.max", "max 100000"),
    (WEIGHT, 50, "cpu.weight", "50"),
    (IDLE, True, "cpu.idle", "1"),
    (CPUS, CpuSet.of([1]), "cpuset.cpus", "1"),
    (MEMORY_MAX, 100_000_001, "memory.max", "99999744"),
    (MEMORY_HIGH, 2**26, "memory.high", str(2**26)),
    (MEMORY_LOW, 2**20, "memory.low", str(2**20)),
    (MEMORY_MIN, 2**20, "memory.min", str(2**20)),
)


def test_properties_reach_the_kernel_and_survive_a_reload(node: Node) -> None:
    """Each in a pod of its own; a reload takes an emulated machine seconds, so one is for all."""
    writer = unit_writer()
    pods = [node.ref(node.add_pod(f"pod{number}")) for number in range(2, 2 + len(CASES))]
    for pod, (knob, value, file, text) in zip(pods, CASES, strict=True):
        assert writer.owns(pod, knob)
        outcome = writer.write(to(pod, knob, value))
        assert (outcome.result, outcome.detail) == (Result.APPLIED, ""), (knob.name, value)
        assert node.text(pod.path, file) == text
        assert writer.write(to(pod, knob, value)).result is Result.UNCHANGED, (knob.name, value)
        assert writer.read(pod, knob) == settle_in_unit(knob, value)
    systemctl("daemon-reload")
    for pod, (knob, value, file, text) in zip(pods, CASES, strict=True):
        assert node.text(pod.path, file) == text, (knob.name, value)
        assert writer.write(to(pod, knob, value)).result is Result.UNCHANGED, (knob.name, value)


def test_why_a_file_will_not_do(node: Node) -> None:
    """The same values written into the files are gone after any change of the unit."""
    node.write(node.tier, "cpu.max", "40000 100000")
    node.write(node.tier, "cpu.idle", "1")
    node.set(node.tier, CPUWeight=("t", 2))  # the kubelet's tick
    assert node.text(node.tier, "cpu.max") == "max 100000"
    assert node.text(node.tier, "cpu.idle") == "0"
    node.write(node.tier, "cpu.weight", "50")
    systemctl("daemon-reload")
    assert node.text(node.tier, "cpu.weight") == "2"


def test_why_a_quota_is_whole_percents(node: Node) -> None:
    node.set(node.pod, CPUQuotaPerSecUSec=("t", 415_000))
    assert node.text(node.pod, "cpu.max") == "41500 100000"
    systemctl("daemon-reload")
    assert node.text(node.pod, "cpu.max") == "41000 100000"


def test_a_quota_outlives_the_kubelets_tick(node: Node) -> None:
    writer, tier = unit_writer(), node.ref(node.tier, Level.TIER)
    writer.write(to(tier, QUOTA, quota(40_000)))
    node.set(node.tier, CPUWeight=("t", 3))
    assert node.text(node.tier, "cpu.max") == "40000 100000"


def test_a_file_changed_behind_systemds_back_is_set_again(node: Node) -> None:
    writer, pod = unit_writer(), node.ref(node.pod)
    writer.write(to(pod, QUOTA, quota(40_000)))
    node.write(node.pod, "cpu.max", "30000 100000")
    assert writer.write(to(pod, QUOTA, quota(40_000))).result is Result.APPLIED
    assert node.text(node.pod, "cpu.max") == "40000 100000"


def test_an_unset_cpuset_has_every_cpu_again(node: Node) -> None:
    """systemd ends the controller with the last property and keeps it for a neighbour; there,
    with processes in the group, the kernel has not let it empty the file."""
    writer, pod, tier = unit_writer(), node.ref(node.pod), node.ref(node.tier)
    for ref in (tier, pod):
        assert writer.write(to(ref, CPUS, CpuSet.of([0]))).result is Result.APPLIED
    for ref in (pod, tier):
        assert writer.write(to(ref, CPUS, CpuSet())).result is Result.APPLIED
        file = f"{ROOT}/{ref.path}/cpuset.cpus"
        assert not os.path.exists(file) or node.text(ref.path, "cpuset.cpus") in ("", "0-1")
    assert os.sched_getaffinity(node.process) == {0, 1}


def test_a_value_that_systemd_refuses(node: Node) -> None:
    outcome = unit_writer().write(to(node.ref(node.pod), MEMORY_MAX, 0))
    assert outcome.result is Result.REFUSED
    assert "out of range" in outcome.detail


def test_a_value_that_the_kernel_refuses_behind_systemd(node: Node) -> None:
    """systemd only logs what the kernel says; the file tells."""
    node.write(node.pod, "cpu.max.burst", "50000")
    outcome = unit_writer().write(to(node.ref(node.pod), QUOTA, quota(20_000)))
    assert outcome.result is Result.REFUSED
    assert "the kernel shows '50000 100000'" in outcome.detail


def test_a_stopped_unit_is_vanished(node: Node) -> None:
    writer, container = unit_writer(), node.ref(node.container, Level.CONTAINER)
    node.stop(node.container)
    assert writer.write(to(container, WEIGHT, 50)).result is Result.VANISHED
    assert isinstance(writer.read(container, WEIGHT), Gap)


def test_a_slice_that_systemd_did_not_make_is_left_alone(node: Node) -> None:
    """Asked to set it, systemd would take it over."""
    path = f"{node.tier}/{node.top}-besteffort-stranger.slice"
    os.mkdir(f"{ROOT}/{path}")
    try:
        outcome = unit_writer().write(to(node.ref(path), WEIGHT, 50))
        assert outcome.result is Result.REFUSED
        assert "not loaded" in outcome.detail
    finally:
        os.rmdir(f"{ROOT}/{path}")


def test_no_connection_stays_open(node: Node) -> None:
    """systemd queues every signal for every open connection."""
    before = len(os.listdir("/proc/self/fd"))
    writer = unit_writer()
    writer.write(to(node.ref(node.pod), WEIGHT, 50))
    assert len(os.listdir("/proc/self/fd")) == before


def test_systemd_may_execute_itself_anew(node: Node) -> None:
    writer, pod = unit_writer(), node.ref(node.pod)
    writer.write(to(pod, QUOTA, quota(40_000)))
    systemctl("daemon-reexec")
    assert node.text(node.pod, "cpu.max") == "40000 100000"
    assert writer.write(to(pod, QUOTA, quota(20_000))).result is Result.APPLIED
    assert node.text(node.pod, "cpu.max") == "20000 100000"
