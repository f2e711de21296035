"""Which error the kernel has for which value: the answers that test_rules holds to the kernels."""

import errno

import pytest

from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    LARGEST_QUOTA,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.simulation.demand import Steady
from slackwater.simulation.fake_cgroup import (
    FakeCgroup,
    SimulatedTask,
    check_value,
    write_sequences,
)
from tests.unit.simulation.nodes import V1, V2, quota

NO_QUOTA = Bandwidth(UNLIMITED)
NO_QUOTA_50 = Bandwidth(UNLIMITED, Micros(50_000))


def chain(version: CgroupVersion) -> tuple[FakeCgroup, FakeCgroup, FakeCgroup]:
    """A parent, a child and a grandchild below a root of four CPUs."""
    root = FakeCgroup(CgroupRef("", 1, Level.NODE), None, version)
    root.cpus = CpuSet.of(range(4))
    found, path = root, ""
    line = []
    for name in ("tier", "pod", "box"):
        path = f"{path}/{name}".strip("/")
        child = found.children[name] = FakeCgroup(CgroupRef(path, 1, Level.POD), found, version)
        child.cpus = root.cpus if version is V1 else CpuSet()
        line.append(child)
        found = child
    return line[0], line[1], line[2]


@pytest.mark.parametrize(
    ("tier", "pod", "box", "new", "v1"),
    [
        (NO_QUOTA, NO_QUOTA, NO_QUOTA, quota(10_000), 0),
        (quota(10_000), NO_QUOTA, NO_QUOTA, quota(10_000), 0),
        (quota(10_000), NO_QUOTA, NO_QUOTA, quota(10_001), errno.EINVAL),
        (quota(10_000), NO_QUOTA, NO_QUOTA, NO_QUOTA, 0),
        (quota(10_000), NO_QUOTA, NO_QUOTA, quota(5_001, 50_000), errno.EINVAL),
        (quota(10_000), NO_QUOTA, NO_QUOTA, quota(20_000, 200_000), 0),
        (NO_QUOTA, NO_QUOTA, quota(10_000), quota(9_999), errno.EINVAL),
        (NO_QUOTA, NO_QUOTA, quota(10_000), quota(10_000), 0),
        # without a quota of its own the pod has the tier's, and the box below must fit
        (quota(10_000), quota(5_000), quota(5_000), NO_QUOTA, 0),
        (quota(10_000), NO_QUOTA, quota(10_000), quota(9_000), errno.EINVAL),
        (NO_QUOTA, NO_QUOTA, NO_QUOTA, quota(10_000, 999), errno.EINVAL),
        (NO_QUOTA, NO_QUOTA, NO_QUOTA, quota(10_000, 1_000_001), errno.EINVAL),
    ],
)
def test_quotas_nest_on_v1(
    tier: Bandwidth, pod: Bandwidth, box: Bandwidth, new: Bandwidth, v1: int
) -> None:
    for version in (V1, V2):
        groups = chain(version)
        for group, standing in zip(groups, (tier, pod, box), strict=True):
            group.quota = standing
        out_of_bounds = not 1_000 <= new.period <= 1_000_000
        want = v1 if version is V1 or out_of_bounds else 0
        assert check_value(groups[1], QUOTA, new) == want
        assert groups[1].quota == pod, "asking changes nothing"


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    ("standing", "burst", "knob", "new", "want"),
    [
        (quota(10_000), 0, BURST, 10_000, 0),
        (quota(10_000), 0, BURST, 10_001, errno.EINVAL),
        (NO_QUOTA, 0, BURST, LARGEST_QUOTA, 0),
        (quota(10_000), 5_000, QUOTA, quota(5_000), 0),
        (quota(10_000), 5_000, QUOTA, quota(4_999), errno.EINVAL),
        (quota(10_000), 5_000, QUOTA, NO_QUOTA, 0),
        (quota(LARGEST_QUOTA - 3), 0, BURST, 3, 0),
        (quota(LARGEST_QUOTA - 3), 0, BURST, 4, errno.EINVAL),
    ],
)
def test_a_burst_fits_its_quota(
    version: CgroupVersion,
    standing: Bandwidth,
    burst: int,
    knob: Knob,
    new: KnobValue,
    want: int,
) -> None:
    group = chain(version)[0]
    group.take(QUOTA, standing)
    group.take(BURST, burst)
    assert check_value(group, knob, new) == want


@pytest.mark.parametrize(
    ("tier", "pod", "box", "new", "v1", "v2"),
    [
        ([0, 1], [0, 1], [], [0], 0, 0),
        ([0, 1], [0, 1], [], [2], errno.EACCES, 0),
        ([0, 1], [0, 1], [0], [1], errno.EBUSY, 0),
        ([0, 1], [0, 1], [0], [], errno.EBUSY, 0),
        ([0, 1], [0, 1], [], [], 0, 0),
        ([0, 1], [0, 1], [], [4], errno.EINVAL, errno.EINVAL),
    ],
)
def test_cpusets_nest_on_v1(
    tier: list[int], pod: list[int], box: list[int], new: list[int], v1: int, v2: int
) -> None:
    for version, want in ((V1, v1), (V2, v2)):
        groups = chain(version)
        for group, cpus in zip(groups, (tier, pod, box), strict=True):
            group.cpus = CpuSet.of(cpus)
        assert check_value(groups[1], CPUS, CpuSet.of(new)) == want


@pytest.mark.parametrize("version", [V1, V2])
def test_a_populated_cpuset_is_not_emptied(version: CgroupVersion) -> None:
    tier, _, box = chain(version)
    box.tasks["w"] = SimulatedTask("w", Steady(MilliCpu(1)))
    assert check_value(box, CPUS, CpuSet()) == errno.ENOSPC
    above = errno.EBUSY if version is V1 else errno.ENOSPC
    assert check_value(tier, CPUS, CpuSet()) == above
    box.tasks.clear()
    assert check_value(box, CPUS, CpuSet()) == 0


@pytest.mark.parametrize("version", [V1, V2])
def test_an_idle_group_takes_no_weight(version: CgroupVersion) -> None:
    tier = chain(version)[0]
    assert check_value(tier, WEIGHT, 50) == 0
    tier.take(IDLE, True)
    assert check_value(tier, WEIGHT, 50) == errno.EINVAL
    assert check_value(tier, IDLE, False) == 0


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    ("knob", "value"), [(WEIGHT, 50), (QUOTA, quota(10_000)), (CPUS, CpuSet.of([0])), (IDLE, True)]
)
def test_the_root_takes_nothing(version: CgroupVersion, knob: Knob, value: KnobValue) -> None:
    root = chain(version)[0].parent
    assert root is not None
    assert check_value(root, knob, value) == errno.EINVAL


@pytest.mark.parametrize(
    ("old", "new", "lower", "higher"),
    [
        (quota(50_000), quota(120_000, 200_000), quota(50_000, 200_000), quota(120_000)),
        (quota(120_000, 200_000), quota(50_000), quota(50_000, 200_000), quota(120_000)),
        (quota(50_000), quota(25_000, 20_000), quota(25_000), quota(50_000, 20_000)),
        (NO_QUOTA, quota(25_000, 50_000), quota(25_000), NO_QUOTA_50),
        (quota(25_000, 50_000), NO_QUOTA, quota(25_000), NO_QUOTA_50),
    ],
)
def test_a_v1_bandwidth_goes_by_the_lower_mixture_or_by_the_higher(
    old: Bandwidth, new: Bandwidth, lower: Bandwidth, higher: Bandwidth
) -> None:
    group = chain(V1)[0]
    group.quota = old
    assert write_sequences(group, new) == ((lower, new), (higher, new))
    group.version = V2
    assert write_sequences(group, new) == ((new,),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (quota(50_000), quota(60_000)),
        (quota(50_000), quota(50_000, 50_000)),
        (NO_QUOTA, quota(50_000)),
        (NO_QUOTA, NO_QUOTA_50),
    ],
)
def test_one_file_is_one_write(old: Bandwidth, new: Bandwidth) -> None:
    group = chain(V1)[0]
    group.quota = old
    assert write_sequences(group, new) == ((new,),)
    assert write_sequences(group, 50) == ((50,),)
