"""Knobs that are kept: read again when due, asked for otherwise, or gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.model.cgroup import (
    CgroupController,
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuTimes,
)
from slackwater.model.gap import NOT_ASKED, VANISHED
from slackwater.model.needs import ReadingField
from slackwater.model.units import Bandwidth, Micros
from slackwater.observation.cgroups.tree import CgroupTree
from slackwater.observation.survey import SlowReadings, wanted
from tests.unit.observation.plain_tree import PlainTree, by_path, pods

QUOTA, TIMES, BURST = ReadingField.QUOTA, ReadingField.TIMES, ReadingField.BURST
AT, LATER = Micros(5), Micros(6)


class Kept:
    """One container's slow readings, and its files."""

    def __init__(self, plain: PlainTree) -> None:
        self.path = pods(plain)[-1]
        self.plain = plain
        self.tree = CgroupTree(plain.mounts, "kubepods")
        self.ref: CgroupRef = by_path(self.tree.scan())[self.path]
        self.slow = SlowReadings(self.tree)

    def write(self, name: str, text: str) -> None:
        self.plain.put(self.path, name, text)

    def read(self, *fields: ReadingField, at: Micros = AT, due: bool = False) -> CgroupReading:
        return self.slow.read(self.ref, wanted(frozenset(fields)), at, due)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(PlainTree(tmp_path, CgroupVersion.V2))
    yield made
    made.tree.close()


@pytest.mark.parametrize(("due", "seen", "at"), [(False, 50_000, AT), (True, 20_000, LATER)])
def test_a_knob_is_kept_until_it_is_due(kept: Kept, due: bool, seen: int, at: Micros) -> None:
    assert kept.read(QUOTA).quota == Bandwidth(Micros(50_000))
    kept.write("cpu.max", "20000 100000")
    found = kept.read(QUOTA, at=LATER, due=due)
    assert (found.quota, found.at) == (Bandwidth(Micros(seen)), at)


@pytest.mark.parametrize("fields", [(QUOTA,), (QUOTA, TIMES), (TIMES,)])
@pytest.mark.parametrize("due", [False, True])
def test_what_reads_as_before_is_the_same_object(
    kept: Kept, fields: tuple[ReadingField, ...], due: bool
) -> None:
    first = kept.read(*fields)
    assert kept.read(*fields, at=LATER, due=due) is first
    kept.write("cpu.max", "20000 100000")
    kept.write("cpu.stat", "usage_usec 9\nnr_periods 4\nnr_throttled 3\nthrottled_usec 2\n")
    assert (kept.read(*fields, at=LATER, due=True) is first) is False


def test_knobs_are_read_anew_after_counters_alone(kept: Kept) -> None:
    kept.read(QUOTA, TIMES)
    kept.read(TIMES)
    kept.write("cpu.max", "20000 100000")
    assert kept.read(QUOTA, TIMES).quota == Bandwidth(Micros(20_000))


def test_counters_are_of_now(kept: Kept) -> None:
    kept.read(QUOTA, TIMES)
    kept.write("cpu.stat", "usage_usec 9\nnr_periods 4\nnr_throttled 3\nthrottled_usec 2\n")
    kept.write("cpu.max", "20000 100000")
    found = kept.read(QUOTA, TIMES)
    assert isinstance(found.times, CpuTimes)
    assert (found.times.usage, found.quota) == (9, Bandwidth(Micros(50_000)))


def test_counters_alone_keep_nothing(kept: Kept) -> None:
    assert kept.read(TIMES).quota is NOT_ASKED
    kept.write("cpu.max", "20000 100000")
    assert kept.read(QUOTA).quota == Bandwidth(Micros(20_000))


def test_what_was_not_asked_for_before_is_read_now(kept: Kept) -> None:
    kept.read(QUOTA)
    kept.write("cpu.max", "20000 100000")
    found = kept.read(QUOTA, BURST)
    assert (found.quota, found.burst) == (Bandwidth(Micros(20_000)), 20_000)
    assert kept.read(BURST).burst == 20_000  # less is kept too


def test_memory_and_vendors_knobs_are_kept_alike(kept: Kept) -> None:
    kept.write("memory.max", "max\n")
    first = kept.read(ReadingField.MEMORY_MAX).others
    kept.write("memory.max", "4096\n")
    assert kept.read(ReadingField.MEMORY_MAX, TIMES).others == first
    assert kept.read(ReadingField.MEMORY_MAX, due=True).others == {"memory-max": 4096}


def test_a_group_that_went_shows_it_by_its_counters(kept: Kept) -> None:
    kept.read(QUOTA, TIMES)
    kept.tree._reader.close()
    kept.plain.remove(kept.path)
    assert kept.read(QUOTA, TIMES).times is VANISHED


def test_other_groups_are_forgotten(kept: Kept) -> None:
    kept.read(QUOTA)
    kept.slow.keep(frozenset({kept.ref.id}))
    assert len(kept.slow._last) == len(kept.slow._fields) == 1
    kept.slow.keep(frozenset())
    assert len(kept.slow._last) == len(kept.slow._fields) == 0


def test_on_v1_the_counters_of_a_group_without_quota_are_its_usage_alone(tmp_path: Path) -> None:
    kept = Kept(PlainTree(tmp_path, CgroupVersion.V1))
    kept.write("cpu.cfs_quota_us", "-1\n")
    kept.read(QUOTA, TIMES, due=True)
    kept.write("cpu.stat", "nr_periods 9\nnr_throttled 9\nthrottled_time 9000\n")
    kept.plain.put(kept.path, "cpuacct.usage", "9000\n", CgroupController.CPUACCT)
    found = kept.read(QUOTA, TIMES).times
    assert isinstance(found, CpuTimes)
    assert (found.usage, found.throttled_periods) == (9, 3)  # the kernel would not have moved it
    again = kept.read(QUOTA, TIMES, due=True).times
    assert isinstance(again, CpuTimes)
    assert again.throttled_periods == 9
    kept.tree.close()


def test_counters_that_nobody_asks_for_any_more_are_not_kept(kept: Kept) -> None:
    """They would read as those of a group at rest."""
    assert isinstance(kept.read(QUOTA, TIMES).times, CpuTimes)
    found = kept.read(QUOTA, at=LATER)
    assert (found.times, found.quota) == (NOT_ASKED, Bandwidth(Micros(50_000)))
    assert kept.read(QUOTA, at=LATER) is found
    assert isinstance(kept.read(QUOTA, TIMES).times, CpuTimes)
