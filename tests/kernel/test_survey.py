"""A snapshot of real cgroups: what best effort uses is told apart from what others use."""

import itertools
import time

import msgspec
import pytest

from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.gap import Gap
from slackwater.model.needs import EVERYTHING, PODS, TIERS
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.observation.cgroups.tree import CgroupTree
from slackwater.observation.host import NodeUsageMeter, Roots
from slackwater.observation.survey import TURN, SnapshotInputs, Surveyor
from tests.kernel.bed import Bed
from tests.kernel.hand import despite_neighbours

WINDOW = 3.0
KNOWN = SnapshotInputs(allocatable=MilliCpu(2000))


def now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


def limit(bed: Bed, path: str, quota: int) -> None:
    if bed.version is CgroupVersion.V1:
        bed.write(path, "cpu.cfs_quota_us", str(quota))
    else:
        bed.write(path, "cpu.max", f"{quota} 100000")


def test_rates_and_quotas_of_tiers(bed: Bed) -> None:
    """The same, however much else is read; both look over one window."""
    best_effort = bed.make(f"{bed.kubepods}/besteffort")
    burstable = bed.make(f"{bed.kubepods}/burstable")
    bed.go_first()
    for path, quota in ((best_effort, 30_000), (burstable, 20_000)):
        limit(bed, path, quota)
        bed.burn(path, 1)
    known = [msgspec.structs.replace(KNOWN, needs=needs) for needs in (TIERS, EVERYTHING)]
    surveyors = [
        Surveyor(CgroupTree(bed.mounts, bed.kubepods), NodeUsageMeter(bed.mounts, Roots()))
        for _ in known
    ]
    pairs = list(zip(surveyors, known, strict=True))
    numbers = itertools.count(2)

    def judge() -> None:
        time.sleep(WINDOW)
        number = next(numbers)
        for surveyor, each in pairs:
            _check_rates(surveyor.close_snapshot(number, now(), each))

    try:
        for surveyor, each in pairs:
            first = surveyor.close_snapshot(1, now(), each)
            assert isinstance(first, NodeSnapshot)
            assert isinstance(first.usage, Gap)
        despite_neighbours(judge)
    finally:
        for surveyor in surveyors:
            surveyor.close()


def _check_rates(second: NodeSnapshot | Gap) -> None:
    assert isinstance(second, NodeSnapshot)
    tiers = {tier: second.usage_of(ref) for tier, ref in second.tiers.items()}
    assert tiers[Tier.BESTEFFORT] == pytest.approx(300, rel=0.05)
    assert tiers[Tier.BURSTABLE] == pytest.approx(200, rel=0.05)
    assert isinstance(second.usage, int)
    assert second.usage >= 475
    reading = second.readings[second.tiers[Tier.BESTEFFORT].id]
    assert reading.quota == Bandwidth(Micros(30_000))
    assert second.elapsed == pytest.approx(WINDOW * 1e6, rel=0.2)


def test_a_tree_that_went_is_a_gap(bed: Bed) -> None:
    bed.make(bed.kubepods)
    surveyor = Surveyor(CgroupTree(bed.mounts, bed.kubepods), NodeUsageMeter(bed.mounts, Roots()))
    try:
        assert isinstance(surveyor.close_snapshot(1, now(), KNOWN), NodeSnapshot)
        bed.remove(bed.kubepods)
        assert surveyor.close_snapshot(2, now(), KNOWN) == Gap("the kubelet's tree is gone")
    finally:
        surveyor.close()


def test_pods_without_objects_are_seen_by_their_place(bed: Bed) -> None:
    uid = "0" * 32
    bed.make(f"{bed.kubepods}/besteffort/pod{uid}/{'a' * 64}")
    surveyor = Surveyor(CgroupTree(bed.mounts, bed.kubepods), NodeUsageMeter(bed.mounts, Roots()))
    try:
        found = surveyor.close_snapshot(1, now(), msgspec.structs.replace(KNOWN, needs=PODS))
    finally:
        surveyor.close()
    assert isinstance(found, NodeSnapshot)
    [workload] = found.workloads
    assert (workload.uid, workload.name, workload.tier) == (uid, uid, Tier.BESTEFFORT)
    assert not isinstance(workload.ref, Gap)
    assert found.readings[workload.ref.id].quota == Bandwidth(UNLIMITED)


def test_knobs_of_pods_are_read_in_turn_and_after_our_own_writes(bed: Bed) -> None:
    pod = bed.make(f"{bed.kubepods}/besteffort/pod{'0' * 32}")
    identity = bed.id(pod)
    known = msgspec.structs.replace(KNOWN, needs=PODS)
    surveyor = Surveyor(CgroupTree(bed.mounts, bed.kubepods), NodeUsageMeter(bed.mounts, Roots()))
    place = 2  # after kubepods and its tier
    quiet = [tick for tick in range(1, 2 * TURN) if tick % TURN != place]
    seen = []
    try:
        for tick, written in ((quiet[0], False), (quiet[1], False), (quiet[2], True)):
            ours = frozenset({identity} if written else ())
            found = surveyor.close_snapshot(
                tick, now(), msgspec.structs.replace(known, written=ours)
            )
            assert isinstance(found, NodeSnapshot)
            seen.append(found.readings[identity].quota)
            limit(bed, pod, 40_000)  # as somebody else, after the first look
        for tick in range(1, TURN + 1):
            limit(bed, pod, 30_000)
            last = surveyor.close_snapshot(tick, now(), known)
            assert isinstance(last, NodeSnapshot)
            seen.append(last.readings[identity].quota)
    finally:
        surveyor.close()
    assert seen[:3] == [Bandwidth(UNLIMITED), Bandwidth(UNLIMITED), Bandwidth(Micros(40_000))]
    assert seen[-1] == Bandwidth(Micros(30_000))
