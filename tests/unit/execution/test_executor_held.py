"""What the ledger's entries say, read once for each of them."""

from typing import Any

import msgspec
import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.executor import HeldKnobs
from slackwater.execution.ownership import Routes
from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupRef,
    CgroupVersion,
    Level,
    Mount,
)
from slackwater.model.plan import FILE_ROUTE, LedgerEntry
from slackwater.model.units import Micros

MOUNTS = CgroupMounts({CgroupController.CPU: Mount(CgroupVersion.V2, "/nowhere")})


class Counting(Routes):
    """Real routes that count how often a text is read."""

    def __init__(self) -> None:
        super().__init__(CgroupWriter(MOUNTS, 4096, lambda: Micros(0)), None)
        self.read = 0

    def value(self, entry: LedgerEntry, text: str) -> Any:
        self.read += 1
        return super().value(entry, text)


def entry(number: int, ours: str = "20", route: str = FILE_ROUTE) -> LedgerEntry:
    ref = CgroupRef(f"kubepods/{number}", number, Level.POD)
    return LedgerEntry(ref, "weight", route, "1", "1", ours, Micros(0))


def test_only_what_is_new_is_read() -> None:
    routes = Counting()
    holdings = HeldKnobs(routes)
    first = tuple(entry(number) for number in range(10))
    assert [each.ours for each in holdings.of(first)] == [20] * 10
    assert routes.read == 20
    moved = (*first[:9], entry(9, "30"))
    assert [each.ours for each in holdings.of(moved)] == [20] * 9 + [30]
    assert routes.read == 22


def test_the_same_entries_are_the_same_object() -> None:
    holdings = HeldKnobs(Counting())
    entries = tuple(entry(number) for number in range(3))
    assert holdings.of(entries) is holdings.of(tuple(entries))
    assert holdings.of(()) == ()


@pytest.mark.parametrize("ours", ["garbage", ""])
def test_a_text_that_cannot_be_read_is_no_holding(ours: str) -> None:
    found = HeldKnobs(Counting()).of((entry(1), entry(2, ours)))
    assert [each.ref.id for each in found] == [1]


def test_what_a_unit_and_its_file_carry_is_the_units() -> None:
    unit = msgspec.structs.replace(
        entry(1, "CPUWeight=30", "unit:pod1.slice"), baseline="CPUWeight=10"
    )
    held = HeldKnobs(Counting()).of((unit, entry(1), entry(2)))
    assert [(each.ref.id, each.baseline, each.ours) for each in held] == [(1, 10, 30), (2, 1, 20)]


@pytest.mark.parametrize("ours", ["40", "garbage"])
def test_entries_that_change_give_what_they_give_when_read_anew(ours: str) -> None:
    unit = msgspec.structs.replace(
        entry(1, "CPUWeight=30", "unit:pod1.slice"), baseline="CPUWeight=10"
    )
    kept = HeldKnobs(Counting())
    kept.of((unit, entry(1), entry(2)))
    for entries in (
        (unit, entry(1, ours), entry(2)),
        (unit, entry(1, ours), entry(2, ours)),
        (msgspec.structs.replace(unit, ours="CPUWeight=50"), entry(1), entry(2)),
        (entry(3), entry(1), entry(2)),
    ):
        assert kept.of(entries) == HeldKnobs(Counting()).of(entries)
