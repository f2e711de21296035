"""What is read from real cgroups: counters that count, knobs as written, groups that are gone."""

import time
from collections.abc import Iterator

import pytest

from slackwater.model.cgroup import (
    CgroupController,
    CgroupReading,
    CgroupVersion,
    CpuPressure,
    CpuTimes,
    Level,
)
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import KNOBS
from slackwater.model.needs import ReadingField
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from slackwater.observation.cgroups.tree import CgroupTree
from tests.kernel.bed import Bed
from tests.kernel.hand import despite_neighbours
from tests.kernel.pods import (
    AT,
    EVERYTHING,
    limit,
    make_pod,
    open_descriptors,
    pod_path,
    ref_of,
    times_of,
)


@pytest.fixture
def tree(bed: Bed) -> Iterator[CgroupTree]:
    bed.make(bed.kubepods)
    made = CgroupTree(bed.mounts, bed.kubepods)
    yield made
    made.close()


def test_usage_is_the_quota(bed: Bed, tree: CgroupTree) -> None:
    path = make_pod(bed, 1)[0]
    ref = ref_of(tree.scan(), path)
    limit(bed, path, 30_000)
    bed.go_first()
    bed.burn(path, processes=2)
    before, start = times_of(tree, ref), time.monotonic()

    def judge() -> None:
        time.sleep(3)
        after, elapsed = times_of(tree, ref), time.monotonic() - start
        assert (after.usage - before.usage) / 1e6 / elapsed == pytest.approx(0.3, rel=0.05)
        assert after.periods - before.periods == pytest.approx(elapsed * 10, abs=2)

    despite_neighbours(judge)


def test_throttling_shows_where_the_quota_is(bed: Bed, tree: CgroupTree) -> None:
    container = make_pod(bed, 1)[0]
    found = tree.scan()
    pod = ref_of(found, pod_path(bed, 1))
    limit(bed, pod.path, 20_000)
    bed.go_first()
    bed.burn(container)
    time.sleep(1)
    times = times_of(tree, pod)
    assert times.throttled_periods > 3
    # 80 of each 100 ms; less on a machine that gives a busy loop no whole CPU.
    assert times.throttled > 100_000
    inner = times_of(tree, ref_of(found, container))
    assert (inner.throttled_periods, inner.throttled) == (0, 0)
    assert inner.usage > 100_000


def test_bursts_are_counted(bed: Bed, tree: CgroupTree) -> None:
    """Half a second idle fills the bucket; the next busy loop may draw on it."""
    path = make_pod(bed, 1)[0]
    ref = ref_of(tree.scan(), path)
    limit(bed, path, 20_000)
    bed.write(
        path, "cpu.cfs_burst_us" if bed.version is CgroupVersion.V1 else "cpu.max.burst", "20000"
    )
    times = times_of(tree, ref)
    for _ in range(6):
        pids = bed.burn(path)
        time.sleep(0.3)
        bed.stop(pids)
        time.sleep(0.5)
        times = times_of(tree, ref)
        if times.bursts:
            break
    assert times.bursts > 0
    assert times.burst_time > 0


def test_knobs_read_as_they_were_written(bed: Bed, tree: CgroupTree) -> None:
    path = make_pod(bed, 1)[0]
    ref = ref_of(tree.scan(), path)
    fresh = tree.read(ref, EVERYTHING, AT)
    assert fresh.quota == Bandwidth(UNLIMITED)
    assert (fresh.burst, fresh.idle) == (0, False)
    assert fresh.weight == (1024 if bed.version is CgroupVersion.V1 else 100)
    limit(bed, path, 45_000)
    bed.write(path, "cpuset.cpus", "0", CgroupController.CPUSET)
    if bed.version is CgroupVersion.V1:
        bed.write(path, "cpu.cfs_burst_us", "15000")
        bed.write(path, "cpu.shares", "333")
    else:
        bed.write(path, "cpu.max.burst", "15000")
        bed.write(path, "cpu.weight", "33")
    set_ = tree.read(ref, EVERYTHING, AT)
    assert set_.quota == Bandwidth(Micros(45_000))
    assert set_.burst == 15_000
    assert set_.weight == (333 if bed.version is CgroupVersion.V1 else 33)
    assert set_.cpus == CpuSet.of((0,))
    bed.write(path, "cpu.idle", "1")
    assert tree.read(ref, frozenset({ReadingField.IDLE}), AT).idle is True


def test_pressure_is_of_v2_groups(bed: Bed, tree: CgroupTree) -> None:
    ref = ref_of(tree.scan(), bed.kubepods)
    pressure = tree.read(ref, frozenset({ReadingField.PRESSURE}), AT).pressure
    if bed.version is CgroupVersion.V1:
        assert pressure == Gap("cgroup v1 has no pressure of single groups")
        return
    assert isinstance(pressure, CpuPressure)
    assert pressure.full is not None


@pytest.mark.v2
def test_a_pressure_file_that_is_switched_off_and_on(bed: Bed, tree: CgroupTree) -> None:
    """cgroup.pressure takes the file from a living group, and from our descriptor."""
    ref = ref_of(tree.scan(), bed.kubepods)
    wants = frozenset({ReadingField.PRESSURE, ReadingField.TIMES})
    assert isinstance(tree.read(ref, wants, AT).pressure, CpuPressure)
    bed.write(ref.path, "cgroup.pressure", "0")
    hidden = tree.read(ref, wants, AT)
    assert hidden.pressure == Gap("cpu.pressure does not exist here")
    assert isinstance(hidden.times, CpuTimes)
    bed.write(ref.path, "cgroup.pressure", "1")
    assert isinstance(tree.read(ref, wants, AT).pressure, CpuPressure)


@pytest.mark.v2
def test_a_controller_that_is_switched_off(bed: Bed, tree: CgroupTree) -> None:
    """Usage stays, for it belongs to the core; the knobs are missing from a living group."""
    path = make_pod(bed, 1)[0]
    ref = ref_of(tree.scan(), path)
    assert tree.read(ref, EVERYTHING, AT).weight == 100
    bed.write(pod_path(bed, 1), "cgroup.subtree_control", "-cpu -cpuset")
    reading = tree.read(ref, EVERYTHING, AT)
    assert isinstance(reading.times, CpuTimes)
    assert reading.weight == Gap("cpu.weight does not exist here")
    assert reading.cpus == Gap("cpuset.cpus does not exist here")


def assert_vanished(reading: CgroupReading, version: CgroupVersion) -> None:
    assert reading.times is VANISHED
    for knob in KNOBS:
        if not isinstance(knob.file(version), Gap):
            assert reading.value(knob.name) is VANISHED, (knob.name, reading.value(knob.name))


def test_a_removed_container_has_vanished(bed: Bed, tree: CgroupTree) -> None:
    first, second = make_pod(bed, 1)
    found = tree.scan()
    ref = ref_of(found, first)
    tree.read(ref, EVERYTHING, AT)
    bed.remove(first)
    assert_vanished(tree.read(ref, EVERYTHING, AT), bed.version)
    assert [ref.path for ref in tree.refresh().refs if ref.level is Level.CONTAINER] == [second]


def test_the_same_path_again_is_another_group(bed: Bed, tree: CgroupTree) -> None:
    path = make_pod(bed, 1)[0]
    old = ref_of(tree.scan(), path)
    times_of(tree, old)
    before = open_descriptors()
    bed.remove(path)
    bed.make(path)
    assert_vanished(tree.read(old, EVERYTHING, AT), bed.version)
    new = ref_of(tree.refresh(), path)
    assert new.id != old.id
    assert new.id == bed.id(path)
    assert times_of(tree, new).usage == 0
    assert_vanished(tree.read(old, EVERYTHING, AT), bed.version)
    assert open_descriptors() == before
