"""When moving containers is worth it, and what it never does."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuPolicy, CpuSet, Topology
from slackwater.model.decision import Because, CpuClaim, CpuPlacement, PlacedClaim
from slackwater.resolution.defragmentation import find_moves, plan_defragmentation
from slackwater.resolution.packing import CpuLayout, FreeCpus
from tests.unit.resolution.machines import cpus, machine

#: Two NUMA nodes with two caches each, of two cores with two threads.
SMALL = machine(2, 4, 2, cache=2)
RESERVED = CpuSet.of([0])


def claim(number: int, count: int, *, movable: bool = True) -> CpuClaim:
    ref = CgroupRef(f"kubepods/pod{number}/c", 10 + number, Level.CONTAINER, owner=str(number))
    because = Because("a test", "asks", "so")
    return CpuClaim(
        ref, f"shop/p{number}", "c", count, CpuPolicy.EXCLUSIVE, because, "p", movable=movable
    )


def placed(*sets: str, still: tuple[int, ...] = ()) -> list[PlacedClaim]:
    return [
        PlacedClaim(claim(number, len(cpus(text)), movable=number not in still), cpus(text))
        for number, text in enumerate(sets)
    ]


def moves(topology: Topology, there: list[PlacedClaim]) -> dict[str, str]:
    grantable = topology.all() - RESERVED
    found = find_moves(CpuLayout(topology), there, grantable)
    return {each.claim.pod: each.after.format() for each in found}


@pytest.mark.parametrize(
    ("sets", "still", "want"),
    [
        # Whole cores of one cache: nothing to win.
        (("1,9", "2-3,10-11"), (), {}),
        # Two containers on a half of each of two cores.
        (("1,2", "9,10"), (), {"shop/p0": "1,9", "shop/p1": "2,10"}),
        # Only one of them may be moved, and then both have a core.
        (("1-2", "9-10"), (0,), {"shop/p1": "3,11"}),
        (("1-2", "9-10"), (0, 1), {}),
        # Spread over two NUMA nodes although one has room.
        (("3-4,11-12",), (), {"shop/p0": "2-3,10-11"}),
        # An odd one need not have a core of its own.
        (("1",), (), {}),
        ((), (), {}),
    ],
)
def test_moves(sets: tuple[str, ...], still: tuple[int, ...], want: dict[str, str]) -> None:
    assert moves(SMALL, placed(*sets, still=still)) == want


def test_a_refused_claim_is_nobodys_business() -> None:
    refused = PlacedClaim(claim(7, 20), refused="20 CPUs are more than there are")
    assert moves(SMALL, [refused, *placed("1,2")]) == {"shop/p0": "1,9"}


def test_a_plan_on_request_moves_whoever_is_better_off() -> None:
    there = tuple(placed("1,2", "9,10", still=(0, 1)))
    common = SMALL.all() - cpus("1-2,9-10")
    found = plan_defragmentation(SMALL, RESERVED, CpuPlacement(common, there))
    assert {each.claim.pod: each.after.format() for each in found} == {
        "shop/p0": "1,9",
        "shop/p1": "2,10",
    }


@given(st.data())
def test_laws(data: st.DataObject) -> None:
    """Moves stay within what may be had and apart from each other, keep each one's number, touch
    nobody who stays, and come to an end."""
    found = CpuLayout(SMALL)
    grantable = SMALL.all() - RESERVED
    free = FreeCpus(found, grantable.mask)
    there: list[PlacedClaim] = []
    for number, count in enumerate(data.draw(st.lists(st.integers(1, 4), max_size=5))):
        pool = [cpu for cpu in grantable if free.mask >> cpu & 1]
        if len(pool) < count:
            break
        chosen = data.draw(st.permutations(pool))[:count]
        one = claim(number, count, movable=data.draw(st.booleans()))
        there.append(PlacedClaim(one, CpuSet(free.take(CpuSet.of(chosen).mask))))
    for _ in range(len(there) + 1):
        made = find_moves(found, there, grantable)
        there = check_moved(there, {each.claim.target.id: each.after for each in made}, grantable)
        if not made:
            break
    assert find_moves(found, there, grantable) == ()


def check_moved(
    there: list[PlacedClaim], after: dict[int, CpuSet], grantable: CpuSet
) -> list[PlacedClaim]:
    moved = [
        msgspec.structs.replace(each, cpus=after.get(each.claim.target.id, each.cpus))
        for each in there
    ]
    taken = CpuSet()
    for before, now in zip(there, moved, strict=True):
        assert now.cpus.within(grantable)
        assert not now.cpus & taken
        assert len(now.cpus) == now.claim.count
        assert now.claim.movable or now.cpus == before.cpus
        taken |= now.cpus
    return moved
