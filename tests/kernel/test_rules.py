"""The kernel's rules, each on the real kernel and on the fake one: what the fake claims, is so.

Times are measured over three seconds, several groups in one window: a period more or less in the
window is 3 % of it. The machine may be busy beside: a window that this spoils is made longer.
"""

import os
from collections.abc import Callable

import msgspec
import pytest

from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
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
from slackwater.model.knob_text import settle_in_file
from slackwater.model.plan import Result
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from tests.kernel.hand import PAGE, default_weight, despite_neighbours, quota
from tests.kernel.rule_kernels import KernelUnderTest, RealKernel, SimulatedKernel

WINDOW = Micros(3_000_000)
NO_QUOTA = Bandwidth(UNLIMITED)
EVERY_CPU = CpuSet.of(range(os.cpu_count() or 1))
FIRST, BOTH = CpuSet.of([0]), CpuSet.of([0, 1])
OK, NO, SAME, OFF = Result.APPLIED, Result.REFUSED, Result.UNCHANGED, Result.UNSUPPORTED
#: 6.1 shows an idle group's weight as 0, later kernels as 1.
IDLE_WEIGHTS = {CgroupVersion.V1: (3,), CgroupVersion.V2: (0, 1)}

Step = tuple[str, Knob, KnobValue]


@pytest.fixture(
    params=[
        pytest.param(None, id="real"),
        *(
            pytest.param(each, id=f"fake-{each.value}", marks=pytest.mark.native)
            for each in CgroupVersion
        ),
    ]
)
def kernel(request: pytest.FixtureRequest) -> KernelUnderTest:
    """This machine's, or the fake of one version: it needs no kernel, so once is enough."""
    if request.param is None:
        return RealKernel(request.getfixturevalue("bed"))
    return SimulatedKernel(request.param)


class Measured(msgspec.Struct, frozen=True):
    """What one group used and counted in a window of so many seconds."""

    seconds: float
    times: CpuTimes

    @property
    def cores(self) -> float:
        return self.times.usage / 1e6 / self.seconds


def measure(kernel: KernelUnderTest, refs: list[CgroupRef], judge: Callable[..., None]) -> None:
    """`judge` gets what each of them used, in windows that grow; then from a new beginning."""
    kernel.wait(Micros(500_000))

    def begin() -> None:
        before = [(kernel.now(), kernel.times(ref)) for ref in refs]

        def look() -> None:
            kernel.wait(WINDOW)
            after = [(kernel.now(), kernel.times(ref)) for ref in refs]
            judge(
                *(
                    Measured((end - start) / 1e6, _difference(old, new))
                    for (start, old), (end, new) in zip(before, after, strict=True)
                )
            )

        despite_neighbours(look)

    despite_neighbours(begin)


def _difference(old: CpuTimes, new: CpuTimes) -> CpuTimes:
    was, now = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    return CpuTimes(**{name: now[name] - was[name] for name in now})


def put(kernel: KernelUnderTest, ref: CgroupRef, knob: Knob, value: KnobValue) -> None:
    assert kernel.write(ref, knob, value) in (OK, SAME), (ref.path, knob.name, value)


def near(value: float, want: float, part: float = 0.05) -> bool:
    return abs(value - want) <= want * part


def test_quotas_limit_and_count(kernel: KernelUnderTest) -> None:
    wide, narrow = kernel.make("wide"), kernel.make("narrow")
    short, parent = kernel.make("short"), kernel.make("parent")
    child = kernel.make("parent/child")
    put(kernel, wide, QUOTA, quota(20_000))
    put(kernel, narrow, QUOTA, quota(10_000))
    put(kernel, short, QUOTA, quota(7_500, 50_000))
    put(kernel, parent, QUOTA, quota(15_000))
    kernel.go_first()
    for ref, loops in ((wide, 2), (narrow, 1), (short, 1), (child, 2)):
        kernel.burn(ref, loops)

    def judge(
        two: Measured, one: Measured, fast: Measured, above: Measured, below: Measured
    ) -> None:
        for row, want in ((two, 0.2), (one, 0.1), (fast, 0.15), (above, 0.15), (below, 0.15)):
            assert near(row.cores, want), (row, want)
        assert near(one.times.periods, 10 * one.seconds)
        assert near(fast.times.periods, 20 * fast.seconds)
        assert one.times.throttled_periods >= 9.3 * one.seconds
        assert above.times.throttled_periods >= 9.3 * above.seconds, "it shows where the quota is"
        assert below.times == CpuTimes(usage=below.times.usage)
        assert near(one.times.throttled, 0.9e6 * one.seconds, 0.2)
        assert two.times.throttled > one.times.throttled, "it is counted for each CPU"
        assert one.times.bursts == 0

    measure(kernel, [wide, narrow, short, parent, child], judge)


def test_weights_divide_one_cpu(kernel: KernelUnderTest) -> None:
    """By group, not by task; an idle group gets next to nothing; a pinned one no more than its
    CPU, however many loops it has."""
    heavy, light, idle = (kernel.make(name) for name in ("heavy", "light", "idle"))
    pinned = kernel.make("pinned")
    put(kernel, heavy, WEIGHT, 2 * default_weight(kernel.version))
    put(kernel, idle, IDLE, True)
    for ref, cpus, loops in ((heavy, 0, 1), (light, 0, 3), (idle, 0, 1), (pinned, 1, 2)):
        put(kernel, ref, CPUS, CpuSet.of([cpus]))
        kernel.burn(ref, loops)

    def judge(much: Measured, some: Measured, little: Measured, one: Measured) -> None:
        assert near(much.cores / some.cores, 2.0)
        assert little.cores <= 0.02 * much.cores
        assert one.cores <= 1.02
        assert much.cores + some.cores + little.cores <= 1.02

    measure(kernel, [heavy, light, idle, pinned], judge)


def test_what_is_left_over_goes_to_those_who_want_it(kernel: KernelUnderTest) -> None:
    """A heavy group that its quota holds back leaves the rest of the CPU to a light one."""
    held, free = kernel.make("held"), kernel.make("free")
    put(kernel, held, WEIGHT, 10 * default_weight(kernel.version))
    put(kernel, held, QUOTA, quota(10_000))
    for ref in (held, free):
        put(kernel, ref, CPUS, FIRST)
        kernel.burn(ref, 1)

    def judge(one: Measured, other: Measured) -> None:
        assert near(one.cores, 0.1)
        assert other.cores >= 0.3, "half a CPU may be others'"

    measure(kernel, [held, free], judge)


def test_a_burst_lends_what_was_saved(kernel: KernelUnderTest) -> None:
    """18 ms of work in one go, three times a second, on 10 ms in each 100 ms."""
    plain, bursty = kernel.make("plain"), kernel.make("bursty")
    for ref in (plain, bursty):
        put(kernel, ref, QUOTA, quota(10_000))
    put(kernel, bursty, BURST, 10_000)
    for ref in (plain, bursty):
        kernel.alternate(ref, Micros(18_000), Micros(300_000))

    def judge(without: Measured, lent: Measured) -> None:
        assert without.times.throttled_periods >= 1.5 * without.seconds
        assert lent.times.throttled_periods * 2 <= without.times.throttled_periods
        assert without.times.bursts == 0
        assert lent.times.bursts >= 1.5 * lent.seconds
        assert lent.times.burst_time >= 1.5 * lent.seconds * 2_000

    measure(kernel, [plain, bursty], judge)


def test_a_quota_lowered_below_what_was_spent_counts_as_a_burst(kernel: KernelUnderTest) -> None:
    """No burst is set; the kernel compares its snapshot of the older budget."""
    ref = kernel.make("pod")
    put(kernel, ref, QUOTA, quota(100_000))
    kernel.burn(ref, 2)
    for _ in range(6):
        kernel.wait(Micros(275_000))
        put(kernel, ref, QUOTA, quota(2_000))
        kernel.wait(Micros(110_000))
        put(kernel, ref, QUOTA, quota(100_000))
    assert 1 <= kernel.times(ref).bursts <= 6


def test_an_unused_quota_counts_no_periods(kernel: KernelUnderTest) -> None:
    ref = kernel.make("pod")
    put(kernel, ref, QUOTA, quota(50_000))
    kernel.wait(Micros(500_000))
    counted = kernel.times(ref).periods
    assert counted == 2, "the timer starts with the quota"
    kernel.burn(ref, 1)
    kernel.wait(Micros(500_000))
    kernel.stop()
    kernel.wait(Micros(300_000))
    counted = kernel.times(ref).periods
    assert 7 <= counted <= 11
    kernel.wait(Micros(500_000))
    assert kernel.times(ref).periods == counted


@pytest.mark.parametrize(
    ("steps", "v1", "v2"),
    [
        # a child and its parent
        ((("t", QUOTA, quota(50_000)), ("t/p", QUOTA, quota(50_000))), OK, OK),
        ((("t", QUOTA, quota(50_000)), ("t/p", QUOTA, quota(50_001))), NO, OK),
        ((("t", QUOTA, quota(50_000)), ("t/p/c", QUOTA, quota(50_001))), NO, OK),
        ((("t", QUOTA, quota(50_000)), ("t/p", QUOTA, quota(30_000, 50_000))), NO, OK),
        ((("t", QUOTA, quota(50_000)), ("t/p", QUOTA, quota(20_000, 50_000))), OK, OK),
        ((("t/p", QUOTA, quota(50_000)), ("t", QUOTA, quota(49_999))), NO, OK),
        ((("t/p/c", QUOTA, quota(50_000)), ("t", QUOTA, quota(49_999))), NO, OK),
        (
            (
                ("t", QUOTA, quota(50_000)),
                ("t/p", QUOTA, quota(40_000)),
                ("t/p/c", QUOTA, quota(40_000)),
                ("t/p", QUOTA, NO_QUOTA),
            ),
            OK,
            OK,
        ),
        # the kernel compares whole 2^20ths of a CPU
        (
            (("t", QUOTA, quota(1_000_001, 1_000_000)), ("t/p", QUOTA, quota(100_001, 100_000))),
            NO,
            OK,
        ),
        (
            (
                ("t/p", QUOTA, quota(1_000, 999_998)),
                ("t", QUOTA, quota(300_000, 999_999)),
                ("t/p", QUOTA, quota(300_000, 999_998)),
            ),
            OK,
            OK,
        ),
        # two files on v1: the lower mixture on the way is below the child's quota, the higher
        # one is free, or above the parent's
        (
            (
                ("t", QUOTA, quota(50_000)),
                ("t/p", QUOTA, quota(50_000)),
                ("t", QUOTA, quota(120_000, 200_000)),
            ),
            OK,
            OK,
        ),
        (
            (
                ("t", QUOTA, quota(60_000)),
                ("t/p", QUOTA, quota(50_000)),
                ("t/p/c", QUOTA, quota(50_000)),
                ("t/p", QUOTA, quota(110_000, 200_000)),
            ),
            NO,
            OK,
        ),
        ((("t", QUOTA, quota(50_000)), ("t", QUOTA, quota(120_000, 200_000))), OK, OK),
        # bounds
        ((("t", QUOTA, quota(1_000)),), OK, OK),
        ((("t", QUOTA, quota(999)),), NO, NO),
        ((("t", QUOTA, quota(20_000, 1_000_000)),), OK, OK),
        ((("t", QUOTA, quota(20_000, 1_000_001)),), NO, NO),
        ((("t", QUOTA, quota(20_000, 1_000)),), OK, OK),
        ((("t", QUOTA, quota(20_000, 999)),), NO, NO),
        ((("t", QUOTA, NO_QUOTA),), SAME, SAME),
        # burst
        ((("t", BURST, 900_000_000),), OK, OK),
        ((("t", QUOTA, quota(50_000)), ("t", BURST, 50_000)), OK, OK),
        ((("t", QUOTA, quota(50_000)), ("t", BURST, 50_001)), NO, NO),
        ((("t", QUOTA, quota(50_000)), ("t", BURST, 20_000), ("t", QUOTA, quota(19_999))), NO, NO),
        ((("t", BURST, 20_000), ("t", QUOTA, quota(10_000))), NO, NO),
        ((("t", QUOTA, quota(50_000)), ("t", BURST, 9), ("t", QUOTA, NO_QUOTA)), OK, OK),
        # cpusets
        ((("t/p/c", CPUS, FIRST), ("t/p", CPUS, FIRST)), OK, OK),
        ((("t/p/c", CPUS, FIRST), ("t/p", CPUS, FIRST), ("t/p/c", CPUS, BOTH)), NO, OK),
        ((("t/p/c", CPUS, BOTH), ("t/p", CPUS, FIRST)), NO, OK),
        ((("t", CPUS, CpuSet.of([7000])),), NO, NO),
        ((("t/p/c", CPUS, FIRST), ("t/p/c", CPUS, CpuSet())), OK, OK),
        ((("t/p/c", CPUS, FIRST), ("t/p", CPUS, FIRST), ("t/p", CPUS, CpuSet())), NO, OK),
        # idle and weight
        ((("t", IDLE, True), ("t", WEIGHT, 50)), NO, NO),
        ((("t", IDLE, True), ("t", IDLE, False), ("t", WEIGHT, 50)), OK, OK),
        ((("t", IDLE, True), ("t", IDLE, True)), SAME, SAME),
        ((("t", IDLE, False),), SAME, SAME),
        ((("t", WEIGHT, 1),), NO, OK),
        ((("t", WEIGHT, 300_000),), NO, NO),
        # memory
        ((("t", MEMORY_MAX, 1000 * PAGE + 1),), OK, OK),
        ((("t", MEMORY_MAX, 1000 * PAGE + 1), ("t", MEMORY_MAX, 1001 * PAGE - 1)), SAME, SAME),
        ((("t", MEMORY_MAX, 1000 * PAGE), ("t", MEMORY_MAX, UNLIMITED)), OK, OK),
        ((("t", MEMORY_MAX, 1000 * PAGE), ("t/p", MEMORY_MAX, 2000 * PAGE)), OK, OK),
        ((("t", MEMORY_HIGH, 1000 * PAGE + 1),), OFF, OK),
        ((("t", MEMORY_LOW, 1000 * PAGE + 1),), OFF, OK),
        ((("t", MEMORY_MIN, UNLIMITED),), OFF, OK),
        # a vendor's
        ((("t", CPU_QOS_LEVEL, -1),), OFF, OFF),
    ],
)
def test_what_is_taken(
    kernel: KernelUnderTest, steps: tuple[Step, ...], v1: Result, v2: Result
) -> None:
    """The answer to the last of some writes; those before it are taken."""
    refs = {path: kernel.make(path) for path in ("t", "t/p", "t/p/c")}
    for path, knob, value in steps[:-1]:
        put(kernel, refs[path], knob, value)
    path, knob, value = steps[-1]
    before = kernel.read(refs[path], knob)
    want = v1 if kernel.version is CgroupVersion.V1 else v2
    assert kernel.write(refs[path], knob, value) is want
    after = kernel.read(refs[path], knob)
    assert after == (settle_in_file(knob, value, PAGE) if want is OK else before)


def test_a_new_group(kernel: KernelUnderTest) -> None:
    pod = kernel.make_bare("pod")
    old = kernel.version is CgroupVersion.V1
    rows: list[tuple[Knob, KnobValue | None]] = [
        (WEIGHT, default_weight(kernel.version)),
        (QUOTA, NO_QUOTA),
        (BURST, 0),
        (IDLE, False),
        (CPUS, CpuSet()),
        (MEMORY_MAX, UNLIMITED),
        (MEMORY_HIGH, None if old else UNLIMITED),
        (MEMORY_LOW, None if old else 0),
        (MEMORY_MIN, None if old else 0),
        (CPU_QOS_LEVEL, None),
    ]
    for knob, want in rows:
        found = kernel.read(pod, knob)
        assert found == want or (want is None and isinstance(found, Gap)), knob.name
    assert kernel.times(pod) == CpuTimes(Micros(0))


def test_a_v1_group_without_cpus_takes_no_tasks(kernel: KernelUnderTest) -> None:
    assert kernel.admits(kernel.make_bare("pod")) is (kernel.version is CgroupVersion.V2)
    assert kernel.admits(kernel.make("other"))


def test_v2_takes_tasks_in_leaves_only(kernel: KernelUnderTest) -> None:
    inner, leaf = kernel.make("pod"), kernel.make("pod/box")
    assert kernel.admits(leaf)
    assert kernel.admits(inner) is (kernel.version is CgroupVersion.V1)


@pytest.mark.parametrize("where", ["pod", "pod/box"])
def test_a_cpuset_with_tasks_is_not_emptied(kernel: KernelUnderTest, where: str) -> None:
    """On v2 "as the parent" is then written as every CPU there is."""
    pod = kernel.make("pod")
    place = kernel.make(where) if where != "pod" else pod
    put(kernel, place, CPUS, FIRST)
    put(kernel, pod, CPUS, FIRST)
    kernel.burn(place, 1)
    kernel.wait(Micros(300_000))
    old = kernel.version is CgroupVersion.V1
    assert kernel.write(pod, CPUS, CpuSet()) is (NO if old else OK)
    assert kernel.read(pod, CPUS) == (FIRST if old else EVERY_CPU)
    assert kernel.write(pod, CPUS, CpuSet()) is (NO if old else SAME)


def test_idle_hides_the_weight_and_resets_it(kernel: KernelUnderTest) -> None:
    pod = kernel.make("pod")
    put(kernel, pod, WEIGHT, 50)
    put(kernel, pod, IDLE, True)
    assert kernel.read(pod, WEIGHT) in IDLE_WEIGHTS[kernel.version]
    assert kernel.write(pod, WEIGHT, 60) is NO
    put(kernel, pod, IDLE, False)
    assert kernel.read(pod, WEIGHT) == default_weight(kernel.version)


def test_a_group_with_children_or_tasks_stays(kernel: KernelUnderTest) -> None:
    pod = kernel.make("pod")
    box = kernel.make("pod/box")
    assert kernel.remove(pod) is NO
    kernel.burn(box, 1)
    kernel.wait(Micros(300_000))
    assert kernel.remove(box) is NO
    kernel.stop()
    kernel.wait(Micros(100_000))
    used = kernel.times(pod).usage
    assert used > 50_000
    assert kernel.remove(box) is OK
    assert kernel.times(pod).usage >= used, "what is gone stays counted above it"
    assert kernel.remove(pod) is OK
    assert kernel.remove(pod) is Result.VANISHED


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (QUOTA, quota(20_000)),
        (BURST, 1_000),
        (WEIGHT, 50),
        (IDLE, True),
        (CPUS, FIRST),
        (MEMORY_MAX, 2**30),
    ],
)
def test_a_group_made_again_is_another(
    kernel: KernelUnderTest, knob: Knob, value: KnobValue
) -> None:
    first = kernel.make("pod")
    kernel.remove(first)
    assert kernel.read(first, knob) == VANISHED
    assert kernel.write(first, knob, value) is Result.VANISHED
    second = kernel.make("pod")
    assert second.path == first.path
    assert second.id != first.id
    before = kernel.read(second, knob)
    assert kernel.write(first, knob, value) is Result.VANISHED
    assert isinstance(kernel.read(first, knob), Gap)
    assert kernel.read(second, knob) == before
