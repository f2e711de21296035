"""Values that cgroup_writer writes: the kernel takes them, shows them and holds to them."""

import os
import time
from collections.abc import Callable

import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import CgroupController, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Because, Intent, Verb
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    MEMORY_HIGH,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.knob_text import settle_in_file
from slackwater.model.plan import Change, Result
from slackwater.model.units import DEFAULT_PERIOD, UNLIMITED, Bandwidth, MilliCpu
from slackwater.resolution.quota import grant_quota, quota_amount, quota_value
from tests.kernel.bed import Bed
from tests.kernel.hand import (
    PAGE,
    change_of,
    default_weight,
    despite_neighbours,
    lightest,
    quota,
    ref_of,
    throttled,
    writer_of,
)
from tests.kernel.machine import IS_MACHINE

#: In an emulated machine periods of 5 ms spread by 4 % over three seconds, close to the bound.
SHORT = quota(5_000, 50_000) if IS_MACHINE else quota(1_000, 5_000)


@pytest.fixture
def writer(bed: Bed) -> CgroupWriter:
    return writer_of(bed.mounts)


@pytest.fixture
def pod(bed: Bed) -> CgroupRef:
    return ref_of(bed, bed.make(f"{bed.kubepods}/besteffort/pod1"))


def put(writer: CgroupWriter, ref: CgroupRef, knob: Knob, new: KnobValue) -> Result:
    return writer.write(change_of(writer, ref, knob, new)).result


def test_a_quota_limits_a_group_and_its_children(bed: Bed, writer: CgroupWriter) -> None:
    """In one window; together they leave a CPU to others, who may be busy."""
    pods = [bed.make(f"{bed.kubepods}/burstable/pod{number}") for number in range(3)]
    child = bed.make(f"{bed.kubepods}/besteffort/pod")
    parent = f"{bed.kubepods}/besteffort"
    wanted = {
        pods[0]: quota(10_000),
        pods[1]: quota(20_000),
        pods[2]: SHORT,
        parent: quota(20_000),
    }
    bed.go_first()
    for path, bandwidth in wanted.items():
        assert put(writer, ref_of(bed, path), QUOTA, bandwidth) is Result.APPLIED
        assert writer.read(ref_of(bed, path), QUOTA) == bandwidth
    for path in (*pods, child):
        bed.burn(path, processes=2)
    time.sleep(0.3)
    cores_since = bed.meter([*pods, child])

    def judge() -> None:
        time.sleep(3.0)
        for bandwidth, got in zip(wanted.values(), cores_since(), strict=True):
            assert isinstance(bandwidth.limit, int)
            assert got == pytest.approx(bandwidth.limit / bandwidth.period, rel=0.05)

    despite_neighbours(judge)
    assert throttled(bed, child) == 0, "throttling shows where the quota is"
    assert throttled(bed, parent) > 0


def test_no_quota_lifts_the_limit(bed: Bed, writer: CgroupWriter, pod: CgroupRef) -> None:
    put(writer, pod, QUOTA, quota(5_000))
    bed.burn(pod.path)
    assert put(writer, pod, QUOTA, Bandwidth(UNLIMITED)) is Result.APPLIED
    assert writer.read(pod, QUOTA) == Bandwidth(UNLIMITED)
    assert bed.cores(pod.path, 1.0) > 0.2


def test_a_burst_above_its_quota_is_refused(writer: CgroupWriter, pod: CgroupRef) -> None:
    put(writer, pod, QUOTA, quota(10_000))
    outcome = writer.write(Change(pod, BURST, 0, 20_000))
    assert outcome.result is Result.REFUSED
    assert "20000" in outcome.detail
    assert writer.read(pod, BURST) == 0


def test_weights_divide_one_cpu(bed: Bed, writer: CgroupWriter, version: CgroupVersion) -> None:
    light = ref_of(bed, bed.make(f"{bed.kubepods}/light"))
    heavy = ref_of(bed, bed.make(f"{bed.kubepods}/heavy"))
    for ref, weight in ((light, lightest(version)), (heavy, default_weight(version))):
        assert put(writer, ref, CPUS, CpuSet.of([0])) is Result.APPLIED
        assert put(writer, ref, WEIGHT, weight) in (Result.APPLIED, Result.UNCHANGED)
        assert writer.read(ref, WEIGHT) == weight
        bed.burn(ref.path)
    least, most = bed.cores_of([light.path, heavy.path], 2.0)
    assert most > 0.95 * (least + most)


def test_a_cpuset_pins(bed: Bed, writer: CgroupWriter, pod: CgroupRef) -> None:
    (pid,) = bed.burn(pod.path)
    for cpu in (1, 0):
        assert put(writer, pod, CPUS, CpuSet.of([cpu])) is Result.APPLIED
        time.sleep(0.3)
        assert os.sched_getaffinity(pid) == {cpu}
        with open(f"/proc/{pid}/stat") as stat:
            assert stat.read().rsplit(")", 1)[1].split()[36] == str(cpu)


def test_an_empty_cpuset_is_written(
    bed: Bed, writer: CgroupWriter, pod: CgroupRef, version: CgroupVersion
) -> None:
    """An empty text must still be a write call."""
    put(writer, pod, CPUS, CpuSet.of([0]))
    assert put(writer, pod, CPUS, CpuSet()) is Result.APPLIED
    assert bed.read(pod.path, "cpuset.cpus", CgroupController.CPUSET) == ""


@pytest.mark.v2
def test_a_populated_cpuset_is_emptied_to_every_cpu(
    bed: Bed, writer: CgroupWriter, pod: CgroupRef
) -> None:
    """The kernel refuses an empty one there with ENOSPC; every CPU means the same."""
    put(writer, pod, CPUS, CpuSet.of([0]))
    (pid,) = bed.burn(pod.path)
    time.sleep(0.3)
    assert put(writer, pod, CPUS, CpuSet()) is Result.APPLIED
    assert os.sched_getaffinity(pid) == set(range(os.cpu_count() or 0))
    assert put(writer, pod, CPUS, CpuSet()) is Result.UNCHANGED


@pytest.mark.v1
def test_a_populated_cpuset_is_not_emptied_on_v1(
    bed: Bed, writer: CgroupWriter, pod: CgroupRef
) -> None:
    bed.burn(pod.path)
    time.sleep(0.3)
    assert put(writer, pod, CPUS, CpuSet()) is Result.REFUSED


def test_memory_is_kept_in_pages(writer: CgroupWriter, pod: CgroupRef) -> None:
    uneven = 10 * 2**20 + 1
    assert put(writer, pod, MEMORY_MAX, uneven) is Result.APPLIED
    assert writer.read(pod, MEMORY_MAX) == settle_in_file(MEMORY_MAX, uneven, PAGE)
    assert put(writer, pod, MEMORY_MAX, uneven) is Result.UNCHANGED
    assert put(writer, pod, MEMORY_MAX, UNLIMITED) is Result.APPLIED
    assert writer.read(pod, MEMORY_MAX) is UNLIMITED


def _throughput(bed: Bed, path: str, act: Callable[[], object]) -> float:
    """Cores used while `act` is done some fifty times a second."""
    before, start = bed.usage(path), time.monotonic()
    while time.monotonic() < start + 1.5:
        act()
        time.sleep(0.02)
    return (bed.usage(path) - before) / 1e6 / (time.monotonic() - start)


def test_an_equal_quota_is_not_written(
    bed: Bed, writer: CgroupWriter, pod: CgroupRef, version: CgroupVersion
) -> None:
    """The kernel unthrottles a group whose quota is written, equal or not: a writer that does
    not look first hands out many times the quota."""
    put(writer, pod, QUOTA, quota(2_000))
    bed.burn(pod.path)
    time.sleep(0.5)
    file, text = (
        ("cpu.cfs_quota_us", "2000") if version is CgroupVersion.V1 else ("cpu.max", "2000")
    )
    change = change_of(writer, pod, QUOTA, quota(2_000))

    def ours() -> None:
        assert writer.write(change).result is Result.UNCHANGED

    # An emulated CPU that had to wait counts that as use; who writes each time is above each time.
    looks = (_throughput(bed, pod.path, ours) for _ in range(8))
    careful = next((each for each in looks if each <= 0.02 * 1.25), None)
    assert careful is not None
    careless = _throughput(bed, pod.path, lambda: bed.write(pod.path, file, text))
    assert careless >= careful * 1.5


def test_idle_locks_the_weight(writer: CgroupWriter, pod: CgroupRef) -> None:
    assert put(writer, pod, IDLE, True) is Result.APPLIED
    assert writer.read(pod, IDLE) is True
    assert writer.write(Change(pod, WEIGHT, 0, 50)).result is Result.REFUSED
    assert put(writer, pod, IDLE, False) is Result.APPLIED


def test_leaving_idle_resets_the_weight(
    writer: CgroupWriter, pod: CgroupRef, version: CgroupVersion
) -> None:
    """Which is why the executor notes the weight with it."""
    put(writer, pod, WEIGHT, 50)
    put(writer, pod, IDLE, True)
    put(writer, pod, IDLE, False)
    assert writer.read(pod, WEIGHT) == default_weight(version)


def test_a_value_out_of_range_is_refused_before_the_kernel_clamps_it(
    writer: CgroupWriter, pod: CgroupRef, version: CgroupVersion
) -> None:
    before = writer.read(pod, WEIGHT)
    assert writer.write(Change(pod, WEIGHT, 0, 1)).result is (
        Result.REFUSED if version is CgroupVersion.V1 else Result.APPLIED
    )
    assert writer.write(Change(pod, WEIGHT, 0, 300_000)).result is Result.REFUSED
    assert writer.read(pod, WEIGHT) == (before if version is CgroupVersion.V1 else 1)


def test_a_vendors_knob_is_unsupported(writer: CgroupWriter, pod: CgroupRef) -> None:
    outcome = writer.write(Change(pod, CPU_QOS_LEVEL, 0, -1))
    assert outcome.result is Result.UNSUPPORTED
    assert "cpu.qos_level" in outcome.detail


@pytest.mark.v1
def test_memory_high_does_not_exist_on_v1(writer: CgroupWriter, pod: CgroupRef) -> None:
    assert writer.write(Change(pod, MEMORY_HIGH, UNLIMITED, 2**30)).result is Result.UNSUPPORTED


@pytest.mark.v1
def test_a_period_and_a_quota_change_together(writer: CgroupWriter, pod: CgroupRef) -> None:
    """Two files on v1; a quota of 2 ms may stand while its period grows, not the reverse."""
    put(writer, pod, QUOTA, quota(50_000))
    for new in (quota(2_500, 5_000), quota(200_000, 400_000), Bandwidth(UNLIMITED), quota(1_000)):
        assert put(writer, pod, QUOTA, new) is Result.APPLIED
        assert writer.read(pod, QUOTA) == new


@pytest.mark.v1
def test_a_refused_second_file_puts_the_first_one_back(
    writer: CgroupWriter, pod: CgroupRef
) -> None:
    put(writer, pod, QUOTA, quota(50_000))
    outcome = writer.write(Change(pod, QUOTA, quota(50_000), quota(20_000, 2_000_000)))
    assert outcome.result is Result.REFUSED  # a period is 1 s at most
    assert writer.read(pod, QUOTA) == quota(50_000)


@pytest.mark.parametrize(
    ("row", "milli", "v1", "v2"),
    [
        ("15", 500, "50000", "50000 100000"),
        ("17: an exhausted budget is the kernel's floor", 0, "1000", "1000 100000"),
        ("13", 3808, "380800", "380800 100000"),
    ],
)
def test_rows_of_volcano(bed: Bed, row: str, milli: int, v1: str, v2: str) -> None:
    """facts/volcano.md section 6: a claim on the best-effort tier as the kernel shows it."""
    path = bed.make(f"{bed.kubepods}/besteffort")
    tier = CgroupRef(path, bed.id(path), Level.TIER, Tier.BESTEFFORT)
    cap = Intent(tier, "quota", Verb.CAP, MilliCpu(milli), Because("", "", ""), row)
    free = Bandwidth(UNLIMITED)
    wanted = quota_value(quota_amount(grant_quota(tier, UNLIMITED, [cap])), DEFAULT_PERIOD)
    outcome = writer_of(bed.mounts).write(Change(tier, QUOTA, free, wanted))
    assert outcome.result is Result.APPLIED
    name = "cpu.cfs_quota_us" if bed.version is CgroupVersion.V1 else "cpu.max"
    assert bed.read(path, name) == (v1 if bed.version is CgroupVersion.V1 else v2)
