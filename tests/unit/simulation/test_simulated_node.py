"""The simulated node: kubelet's tree and weights, and what the agent sees of it."""

import pytest

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import CPUS, QUOTA, WEIGHT
from slackwater.model.needs import EVERYTHING, PODS, TIERS, Needs, ReadingField
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.survey import SnapshotInputs
from slackwater.simulation.demand import SECOND, Steady
from slackwater.simulation.fake_kernel import NO_PRESSURE, FakeKernel
from slackwater.simulation.scenario import ScenarioPod
from slackwater.simulation.simulated_node import (
    ScenarioSource,
    SimulatedNode,
    SimulatedSnapshotReader,
)

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
KNOWN = SnapshotInputs(MilliCpu(4000))


def pod(name: str, tier: Tier, demand: int, request: int = 0, limit: int = 0) -> ScenarioPod:
    wants = Steady(MilliCpu(demand))
    if not limit:
        return ScenarioPod(name, tier, wants, MilliCpu(request))
    return ScenarioPod(name, tier, wants, MilliCpu(request), MilliCpu(limit))


def node_of(version: CgroupVersion, *pods: ScenarioPod, system: int = 0) -> SimulatedNode:
    node = SimulatedNode(FakeKernel(version, 4), Steady(MilliCpu(system)) if system else None)
    for each in pods:
        node.add(each)
    return node


WEB = pod("web", Tier.BURSTABLE, 1000, 500)
API = pod("api", Tier.BURSTABLE, 500, 1500, 2000)
DATABASE = pod("db", Tier.GUARANTEED, 700, 1000, 1000)
BATCH = pod("batch", Tier.BESTEFFORT, 9000)


@pytest.mark.parametrize(
    ("version", "weights"),
    [
        (V1, {"burstable": 2048, "besteffort": 2, "web": 512, "api": 1536, "batch": 2}),
        (V2, {"burstable": 79, "besteffort": 1, "web": 20, "api": 59, "batch": 1}),
    ],
)
def test_weights_are_the_kubelets(version: CgroupVersion, weights: dict[str, int]) -> None:
    node = node_of(version, WEB, API, DATABASE, BATCH)
    found = {}
    for name in weights:
        ref = node.group(name)
        assert isinstance(ref, CgroupRef)
        found[name] = node.kernel.read(ref, WEIGHT)
    assert found == weights
    node.remove("api")
    before = weights["web"]
    assert node.kernel.read(node.tiers[Tier.BURSTABLE], WEIGHT) == before


@pytest.mark.parametrize("version", [V1, V2])
def test_the_tree_is_the_kubelets(version: CgroupVersion) -> None:
    node = node_of(version, WEB, DATABASE, BATCH, system=100)
    found = [ref for ref in node.kernel.refs() if ref.level is not Level.CONTAINER]
    assert {ref.path: (ref.level, ref.tier, ref.owner) for ref in found} == {
        "kubepods": (Level.NODE, Tier.GUARANTEED, ""),
        "kubepods/burstable": (Level.TIER, Tier.BURSTABLE, ""),
        "kubepods/burstable/podweb": (Level.POD, Tier.BURSTABLE, "web"),
        "kubepods/besteffort": (Level.TIER, Tier.BESTEFFORT, ""),
        "kubepods/besteffort/podbatch": (Level.POD, Tier.BESTEFFORT, "batch"),
        "kubepods/poddb": (Level.POD, Tier.GUARANTEED, "db"),
        "system.slice": (Level.POD, Tier.GUARANTEED, ""),
    }
    limit = node.kernel.read(_group(node, "db"), QUOTA)
    assert limit == Bandwidth(Micros(100_000))
    if version is V1:
        assert node.kernel.read(_group(node, "web"), CPUS) == CpuSet.of(range(4))


def _group(node: SimulatedNode, name: str) -> CgroupRef:
    found = node.group(name)
    assert isinstance(found, CgroupRef)
    return found


def test_a_weight_of_its_own() -> None:
    mine = ScenarioPod("mine", Tier.BURSTABLE, Steady(MilliCpu(1)), MilliCpu(100), weight=77)
    node = node_of(V2, mine)
    assert node.kernel.read(_group(node, "mine"), WEIGHT) == 77


def test_pods_come_and_go() -> None:
    node = node_of(V2, WEB, BATCH)
    assert [each.name for each in node.pods] == ["web", "batch"]
    node.remove("web")
    assert [each.name for each in node.pods] == ["batch"]
    assert node.group("web") == Gap("there is no pod web now")
    node.kernel.advance(SECOND)
    node.add(WEB)
    assert isinstance(node.group("web"), CgroupRef)


def looks(node: SimulatedNode, known: SnapshotInputs, count: int = 2) -> NodeSnapshot:
    snapshot_reader = SimulatedSnapshotReader(node.kernel, node.kubepods)
    snapshot: NodeSnapshot | Gap = Gap("")
    for number in range(count):
        node.kernel.advance(SECOND)
        snapshot = snapshot_reader.close_snapshot(number, node.kernel.now, known)
    assert isinstance(snapshot, NodeSnapshot)
    return snapshot


@pytest.mark.parametrize("version", [V1, V2])
def test_a_snapshot_of_what_is_needed(version: CgroupVersion) -> None:
    node = node_of(version, WEB, DATABASE, BATCH, system=100)
    snapshot = looks(node, KNOWN)
    assert snapshot.usage == 4000
    assert set(snapshot.tiers) == {Tier.BURSTABLE, Tier.BESTEFFORT}
    assert set(snapshot.readings) == {node.kubepods.id, *(r.id for r in node.tiers.values())}
    assert snapshot.usage_of(node.tiers[Tier.BURSTABLE]) == 1000
    # Three best-effort CPUs less what others use; the kernel's weights leave others their own.
    best = snapshot.usage_of(node.tiers[Tier.BESTEFFORT])
    assert not isinstance(best, Gap)
    assert 2150 <= best <= 2200
    tier = snapshot.readings[node.tiers[Tier.BURSTABLE].id]
    assert isinstance(tier.quota, Bandwidth)
    assert (tier.weight, tier.burst, tier.idle, tier.cpus) == (NOT_ASKED,) * 4
    assert snapshot.readings[node.kubepods.id].quota == NOT_ASKED
    assert snapshot.elapsed == SECOND


def test_one_look_is_no_rate() -> None:
    snapshot = looks(node_of(V2, WEB), KNOWN, 1)
    assert snapshot.usage == Gap("the node was read only once so far")
    assert (snapshot.rates, snapshot.elapsed) == ({}, 0)


@pytest.mark.parametrize(
    ("known", "seen"),
    [
        (KNOWN, set()),
        (SnapshotInputs(MilliCpu(4000), needs=TIERS), set()),
        (SnapshotInputs(MilliCpu(4000), needs=PODS), {"web", "batch", "db"}),
        (SnapshotInputs(MilliCpu(4000), needs=EVERYTHING), {"web", "batch", "db"}),
    ],
)
def test_pods_are_read_where_somebody_needs_them(known: SnapshotInputs, seen: set[str]) -> None:
    node = node_of(V2, WEB, DATABASE, BATCH)
    snapshot = looks(node, known)
    assert {r.ref.owner for r in snapshot.readings.values() if r.ref.owner} == seen
    if known.needs == EVERYTHING:
        assert {r.pressure for r in snapshot.readings.values()} == {NO_PRESSURE}


def test_what_is_ours_is_read_whoever_needs_it() -> None:
    node = node_of(V2, WEB)
    ref, none = _group(node, "web"), Bandwidth(Micros(50_000))
    held = (Held(ref, "quota", none, none, Micros(0)),)
    reading = looks(node, SnapshotInputs(MilliCpu(4000), held=held)).readings[ref.id]
    assert isinstance(reading, CgroupReading)
    assert isinstance(reading.quota, Bandwidth)


def test_memory_is_read_where_somebody_needs_it() -> None:
    node = node_of(V2, WEB)
    wants = frozenset(
        {ReadingField.MEMORY_HIGH, ReadingField.MEMORY_MIN, ReadingField.CPU_QOS_LEVEL}
    )
    needs = Needs({**TIERS.fields, Level.POD: wants})
    snapshot = looks(node, SnapshotInputs(MilliCpu(4000), needs=needs))
    reading = snapshot.readings[_group(node, "web").id]
    assert reading.others == {
        "memory-high": UNLIMITED,
        "memory-min": 0,
        "cpu-qos-level": Gap("this cgroup has no cpu.qos_level"),
    }
    assert snapshot.readings[node.kubepods.id].others == {}
    assert snapshot.version is V2


def test_pods_are_matched_with_their_objects_once() -> None:
    node, source = node_of(V2, WEB, BATCH), ScenarioSource(Objects())
    source.set_pods(node.pods)
    known = SnapshotInputs(MilliCpu(4000), pods=source.read().pods, needs=PODS)
    snapshot_reader = SimulatedSnapshotReader(node.kernel, node.kubepods)
    first, second = (snapshot_reader.close_snapshot(n, Micros(n + 1), known) for n in range(2))
    assert isinstance(first, NodeSnapshot)
    assert isinstance(second, NodeSnapshot)
    assert first.workloads is second.workloads
    assert {(w.name, w.tier, w.request) for w in first.workloads} == {
        ("web", Tier.BURSTABLE, 500),
        ("batch", Tier.BESTEFFORT, 0),
    }
    assert all(isinstance(w.ref, CgroupRef) for w in first.workloads)
    node.remove("web")
    third = snapshot_reader.close_snapshot(3, Micros(3), known)
    assert isinstance(third, NodeSnapshot)
    assert third.workloads[0].ref == Gap("its cgroup is not there")


def test_a_blind_sight_has_no_usage() -> None:
    node = node_of(V2, WEB)
    snapshot_reader = SimulatedSnapshotReader(node.kernel, node.kubepods)
    snapshot_reader.blind_until = Micros(2 * SECOND)
    usages = []
    for number in range(4):
        node.kernel.advance(SECOND)
        snapshot = snapshot_reader.close_snapshot(number, node.kernel.now, KNOWN)
        assert isinstance(snapshot, NodeSnapshot)
        usages.append(snapshot.usage)
    assert usages[0] == Gap("the scenario hides the node's usage")
    assert usages[1] == Gap("the node was read only once so far")
    assert usages[2:] == [1000, 1000]


def test_a_tree_that_is_gone_is_a_gap() -> None:
    kernel = FakeKernel(V2, 1)
    other = SimulatedNode(FakeKernel(V2, 1))
    snapshot_reader = SimulatedSnapshotReader(kernel, other.kubepods)
    assert snapshot_reader.close_snapshot(1, Micros(1), KNOWN) == Gap("the kubelet's tree is gone")
    snapshot_reader.close()
