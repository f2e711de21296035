"""Time passes on the fake kernel: shares, quotas, bursts, cpusets, and what each counter says."""

import time

import pytest

from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import BURST, CPUS, IDLE, QUOTA, WEIGHT
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, percent
from slackwater.simulation.demand import Daily, Spike, Square, Steady
from slackwater.simulation.fake_kernel import FakeKernel
from tests.unit.simulation.nodes import (
    SECOND,
    V1,
    V2,
    burn,
    lost,
    made,
    milli,
    put,
    quota,
    run,
    times,
)

pytestmark = pytest.mark.long

VERSIONS = pytest.mark.parametrize("version", [V1, V2])
NO_QUOTA = Bandwidth(UNLIMITED)


def steady(level: int) -> Steady:
    return Steady(MilliCpu(level))


def pair(version: CgroupVersion, cpus: int = 1) -> tuple[FakeKernel, CgroupRef, CgroupRef]:
    kernel = FakeKernel(version, cpus)
    one, other = made(kernel, "one", "other")
    return kernel, one, other


@pytest.mark.parametrize(
    ("level", "threads", "cpus", "got"),
    [
        (300, 1, 4, 300),
        (2500, 4, 4, 2500),
        (2500, 2, 4, 2000),  # a thread is on one CPU at a time
        (9000, 64, 4, 4000),  # there are no more
        (-5, 1, 4, 0),
        (0, 1, 4, 0),
    ],
)
def test_work_gets_what_it_wants_and_can_use(level: int, threads: int, cpus: int, got: int) -> None:
    kernel = FakeKernel(V2, cpus)
    (pod,) = made(kernel, "pod")
    run(kernel, pod, steady(level), threads)
    assert milli(kernel, pod) == got
    assert kernel.now == SECOND
    wanted = min(max(level, 0), threads * 1000)
    assert lost(kernel, pod) == (wanted - got) * 1000


@pytest.mark.parametrize(
    ("version", "weights", "share"),
    [
        (V1, (2048, 1024), 2 / 3),
        (V1, (2, 1024), 2 / 1026),
        (V2, (200, 100), 2 / 3),
        (V2, (10_000, 1), 102_400 / 102_410),
    ],
)
def test_weights_divide(version: CgroupVersion, weights: tuple[int, int], share: float) -> None:
    kernel, one, other = pair(version, cpus=2)
    for ref, weight, loops in ((one, weights[0], 2), (other, weights[1], 7)):
        put(kernel, ref, WEIGHT, weight)
        burn(kernel, ref, loops)
    assert milli(kernel, one) == pytest.approx(2000 * share, abs=0.01)
    assert times(kernel, other).usage == pytest.approx(2 * SECOND * (1 - share), abs=10)


@VERSIONS
def test_idle_work_gets_what_others_leave(version: CgroupVersion) -> None:
    kernel, busy, idle = pair(version, cpus=2)
    put(kernel, idle, IDLE, True)
    burn(kernel, idle, 2)
    run(kernel, busy, steady(1200))
    assert milli(kernel, idle) == 800, "all that is left"
    run(kernel, busy, steady(9000))
    assert milli(kernel, idle) == pytest.approx(2000 * 3 / 1027, abs=0.01), "next to nothing"
    put(kernel, idle, IDLE, False)
    assert milli(kernel, idle) == 1000


def test_tasks_beside_groups_count_as_groups_do() -> None:
    """v1 allows both in one group: a thread weighs 1024 shares."""
    kernel = FakeKernel(V1, 1)
    pod, box = made(kernel, "pod", "pod/box")
    burn(kernel, pod, 3)
    burn(kernel, box, 1)
    assert milli(kernel, box) == 250
    assert times(kernel, pod).usage == SECOND, "with all below it"


@VERSIONS
@pytest.mark.parametrize(
    ("bandwidth", "got"),
    [
        (quota(20_000), 200),
        (quota(150_000), 1500),
        (quota(2_500, 5_000), 500),
        (quota(100_000, 250_000), 400),
        (quota(500_000), 2000),
    ],
)
def test_a_quota_limits(version: CgroupVersion, bandwidth: Bandwidth, got: int) -> None:
    kernel, pod, _ = pair(version, cpus=2)
    put(kernel, pod, QUOTA, bandwidth)
    burn(kernel, pod, 2)
    assert milli(kernel, pod) == got
    assert lost(kernel, pod) == 2 * SECOND - got * 1000


def test_a_quota_counts_its_periods() -> None:
    kernel, pod, other = pair(V2, cpus=2)
    put(kernel, pod, QUOTA, quota(50_000))
    put(kernel, other, QUOTA, quota(20_000))
    burn(kernel, pod, 2)
    burn(kernel, other, 1)
    kernel.advance(SECOND)
    assert times(kernel, pod) == CpuTimes(Micros(500_000), 10, 10, Micros(1_500_000))
    assert times(kernel, other) == CpuTimes(Micros(200_000), 10, 10, Micros(800_000))


def test_a_quota_that_is_enough_throttles_nobody() -> None:
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(50_000))
    run(kernel, pod, steady(500))
    kernel.advance(SECOND)
    assert times(kernel, pod) == CpuTimes(Micros(500_000), 10)
    assert lost(kernel, pod) == 0


def test_one_who_waits_for_others_is_not_throttled() -> None:
    kernel, pod, other = pair(V2)
    put(kernel, pod, QUOTA, quota(60_000))
    burn(kernel, pod)
    burn(kernel, other)
    kernel.advance(SECOND)
    assert times(kernel, pod) == CpuTimes(Micros(500_000), 10)
    assert lost(kernel, pod) == 500_000


@VERSIONS
def test_a_parents_quota_throttles_the_parent(version: CgroupVersion) -> None:
    kernel = FakeKernel(version, 4)
    tier, one, other = made(kernel, "tier", "tier/one", "tier/other")
    put(kernel, tier, QUOTA, quota(90_000))
    put(kernel, one, WEIGHT, 200)
    put(kernel, other, WEIGHT, 100)
    for ref in (one, other):
        burn(kernel, ref, 2)
    kernel.advance(SECOND)
    assert times(kernel, tier).throttled_periods == 10
    assert times(kernel, one) == CpuTimes(Micros(600_000))
    assert times(kernel, other) == CpuTimes(Micros(300_000))
    assert lost(kernel, tier) == lost(kernel, one) + lost(kernel, other) == 3_100_000


def test_a_v2_child_above_its_parent_never_gets_it() -> None:
    kernel = FakeKernel(V2, 4)
    tier, pod = made(kernel, "tier", "tier/pod")
    put(kernel, tier, QUOTA, quota(50_000))
    put(kernel, pod, QUOTA, quota(80_000))
    burn(kernel, pod, 4)
    assert milli(kernel, pod) == 500
    assert times(kernel, pod).throttled_periods == 0


def test_no_quota_lifts_the_limit_and_counts_no_more() -> None:
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(10_000))
    burn(kernel, pod)
    assert milli(kernel, pod) == 100
    put(kernel, pod, QUOTA, NO_QUOTA)
    assert milli(kernel, pod) == 1000
    assert times(kernel, pod).periods == 10


def test_a_written_quota_is_a_new_budget_at_once() -> None:
    """tg_set_cfs_bandwidth refills and unthrottles: why an equal value is not written."""
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(10_000))
    burn(kernel, pod)
    kernel.advance(Micros(50_000))
    put(kernel, pod, QUOTA, quota(10_001))
    kernel.advance(Micros(50_000))
    assert times(kernel, pod).usage == 20_001
    put(kernel, pod, QUOTA, quota(10_001))
    assert milli(kernel, pod) == pytest.approx(100.01)


def test_an_unused_quota_counts_two_periods_and_stops() -> None:
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(50_000))
    kernel.advance(SECOND)
    assert times(kernel, pod).periods == 2
    run(kernel, pod, Spike(Micros(2 * SECOND), MilliCpu(100), Micros(300_000)))
    kernel.advance(Micros(3 * SECOND))
    assert times(kernel, pod).periods == 6, "three with work, and one to notice"


@pytest.mark.parametrize(
    ("burst", "got"),
    [(0, (10_000, 0, 0)), (5_000, (15_000, 1, 5_000)), (10_000, (18_000, 1, 8_000))],
)
def test_a_burst_lends_what_was_saved(burst: int, got: tuple[int, int, int]) -> None:
    """18 ms of work in one go after a rest."""
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(10_000))
    put(kernel, pod, BURST, burst)
    run(kernel, pod, Spike(Micros(SECOND), MilliCpu(1000), Micros(18_000)), 1)
    kernel.advance(Micros(2 * SECOND))
    found = times(kernel, pod)
    assert (found.usage, found.bursts, found.burst_time) == got


def test_a_burst_is_saved_period_by_period() -> None:
    """2 ms are left over in each period; ten periods fill a burst of 20 ms, and no more."""
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(20_000))
    put(kernel, pod, BURST, 20_000)
    burn(kernel, pod)
    kernel.advance(SECOND)
    spent = times(kernel, pod).usage
    run(kernel, pod, steady(180))
    kernel.advance(Micros(500_000))
    run(kernel, pod, steady(1000))
    kernel.advance(Micros(100_000))
    assert times(kernel, pod).usage - spent == 5 * 18_000 + 20_000 + 10_000
    run(kernel, pod, steady(180))
    kernel.advance(Micros(10 * SECOND))
    before = times(kernel, pod).usage
    run(kernel, pod, steady(1000))
    kernel.advance(SECOND)
    assert times(kernel, pod).usage - before == 10 * 20_000 + 20_000


def test_a_lowered_quota_counts_as_a_burst() -> None:
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(100_000))
    burn(kernel, pod)
    kernel.advance(Micros(50_000))
    put(kernel, pod, QUOTA, quota(5_000))
    found = times(kernel, pod)
    assert (found.bursts, found.burst_time) == (1, 45_000)


@VERSIONS
def test_pinned_groups_share_their_cpu(version: CgroupVersion) -> None:
    kernel = FakeKernel(version, 4)
    heavy, light, free = made(kernel, "heavy", "light", "free")
    put(kernel, heavy, WEIGHT, 2 * (1024 if version is V1 else 100))
    for ref in (heavy, light):
        put(kernel, ref, CPUS, CpuSet.of([2]))
        burn(kernel, ref, 3)
    burn(kernel, free, 3)
    assert milli(kernel, heavy) == pytest.approx(1000 * 2 / 3, abs=0.01)
    assert times(kernel, light).usage == pytest.approx(SECOND / 3, abs=10)
    assert times(kernel, free).usage == 3 * SECOND


def test_a_pinned_group_is_throttled_on_its_own_cpus_only() -> None:
    kernel = FakeKernel(V2, 4)
    tier, one, other = made(kernel, "tier", "tier/one", "tier/other")
    put(kernel, tier, CPUS, CpuSet.of([0, 1]))
    put(kernel, tier, QUOTA, quota(100_000))
    for ref in (one, other):
        burn(kernel, ref, 4)
    kernel.advance(SECOND)
    assert times(kernel, tier).throttled == SECOND, "two CPUs, half the time"


def test_a_group_that_is_let_go_in_time_does_not_count_as_throttled() -> None:
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(10_000))
    burn(kernel, pod)
    kernel.advance(Micros(50_000))
    put(kernel, pod, QUOTA, quota(200_000))
    kernel.advance(Micros(50_000))
    assert times(kernel, pod) == CpuTimes(Micros(60_000), 1, 0, Micros(40_000))


def test_a_v2_cpuset_outside_its_parents_is_the_parents() -> None:
    kernel = FakeKernel(V2, 4)
    tier, pod = made(kernel, "tier", "tier/pod")
    put(kernel, tier, CPUS, CpuSet.of([0]))
    put(kernel, pod, CPUS, CpuSet.of([1, 2, 3]))
    burn(kernel, pod, 4)
    assert milli(kernel, pod) == 1000


def test_periods_of_different_lengths_run_side_by_side() -> None:
    kernel = FakeKernel(V2, 8)
    limits = (quota(10_000, 30_000), quota(20_000, 100_000), quota(90_000, 250_000))
    refs = made(kernel, "a", "b", "c")
    for ref, limit in zip(refs, limits, strict=True):
        put(kernel, ref, QUOTA, limit)
        burn(kernel, ref, 2)
    kernel.advance(Micros(3 * SECOND))
    assert [times(kernel, ref).periods for ref in refs] == [100, 30, 12]
    assert [times(kernel, ref).usage for ref in refs] == [1_000_000, 600_000, 1_080_000]


def test_a_demand_changes_in_the_middle_of_a_period() -> None:
    kernel, pod, _ = pair(V2)
    put(kernel, pod, QUOTA, quota(50_000))
    run(kernel, pod, Spike(Micros(30_000), MilliCpu(1000), Micros(30_000)))
    kernel.advance(Micros(100_000))
    assert times(kernel, pod) == CpuTimes(Micros(30_000), 1)


def test_work_of_the_same_name_is_replaced_and_other_work_added() -> None:
    kernel, pod, _ = pair(V2, cpus=8)
    run(kernel, pod, steady(500))
    run(kernel, pod, steady(700))
    assert milli(kernel, pod) == 700
    kernel.detach(pod, "work")
    assert milli(kernel, pod) == 0


def test_what_latency_sensitive_work_lost_is_told() -> None:
    """Best-effort work of equal weight takes what a spike needed; an idle one, 3 in 1027 of it."""
    for idle, gone in ((False, 500_000), (True, 2_921)):
        kernel, service, batch = pair(V2)
        put(kernel, batch, IDLE, idle)
        burn(kernel, batch)
        run(kernel, service, Spike(SECOND, MilliCpu(1000), SECOND, MilliCpu(300)))
        kernel.advance(Micros(3 * SECOND))
        assert lost(kernel, service) == pytest.approx(gone, abs=1)


def small_steps(kernel: FakeKernel, micros: int) -> None:
    """Too short for whole rounds to be counted at once."""
    for _ in range(micros // 100_000):
        kernel.advance(Micros(100_000))


def busy_node(version: CgroupVersion) -> tuple[FakeKernel, list[CgroupRef]]:
    kernel = FakeKernel(version, 3)
    refs = made(kernel, "tier", "tier/a", "tier/b", "c", "d")
    put(kernel, refs[0], QUOTA, quota(160_000))
    put(kernel, refs[1], QUOTA, quota(45_000, 50_000))
    put(kernel, refs[3], QUOTA, quota(70_000))
    put(kernel, refs[3], BURST, 65_000)
    put(kernel, refs[4], CPUS, CpuSet.of([0]))
    run(kernel, refs[1], Square(Micros(7 * SECOND), percent(40), MilliCpu(1500), MilliCpu(333)))
    run(kernel, refs[2], Daily(MilliCpu(900), MilliCpu(700), Micros(20 * SECOND)))
    run(kernel, refs[3], Square(Micros(3_300_000), percent(60), MilliCpu(990), MilliCpu(620)))
    run(kernel, refs[4], Spike(Micros(4_250_000), MilliCpu(2000), Micros(5 * SECOND)))
    return kernel, refs


@VERSIONS
def test_many_rounds_at_once_are_the_same_as_one_by_one(version: CgroupVersion) -> None:
    fast, refs = busy_node(version)
    slow, _ = busy_node(version)
    fast.advance(Micros(30 * SECOND))
    small_steps(slow, 30 * SECOND)
    assert fast.now == slow.now
    for ref in refs:
        assert fast.reading(ref, fast.now) == slow.reading(ref, slow.now), ref.path
        assert fast.lost(ref) == slow.lost(ref)


def test_an_hour_of_a_node_is_short() -> None:
    """50 pods for an hour, a demand that changes every second; measured: 1 s of CPU time."""
    kernel = FakeKernel(V2, 32)
    (tier,) = made(kernel, "tier")
    put(kernel, tier, QUOTA, quota(1_600_000))
    for pod in range(50):
        ref, box = made(kernel, f"tier/{pod}", f"tier/{pod}/box")
        put(kernel, ref, QUOTA, quota(90_000))
        run(kernel, box, Daily(MilliCpu(600), MilliCpu(20 * pod), Micros(600 * SECOND)))
    started = time.process_time()
    kernel.advance(Micros(3600 * SECOND))
    assert time.process_time() - started < 10
    assert times(kernel, tier).periods == 36_000
