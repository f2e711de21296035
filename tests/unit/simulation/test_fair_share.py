"""Dividing CPU time: weights, limits, cpusets, and that nothing is wasted or made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.simulation import fair_share
from slackwater.simulation.fair_share import Claim, divide, fill, pools_of

SECOND = 1_000_000_000


def task(wanted: int, weight: int = 1024, mask: int = 0b1111) -> Claim:
    claim = Claim(weight, mask)
    claim.wanted = claim.usable = wanted
    return claim


def group(*claims: Claim, limit: int = 10**15, weight: int = 1024) -> Claim:
    claim = Claim(weight, 0b1111, claims)
    claim.limit = limit
    return claim


def inner(root: Claim) -> list[Claim]:
    """The groups, parents first."""
    found = [root]
    for claim in found:
        found += [below for below in claim.claims if below.claims]
    return found


def tasks_of(root: Claim) -> list[Claim]:
    return [c for claim in inner(root) for c in claim.claims if not c.claims]


def shares(root: Claim, every: int = 0b1111, duration: int = SECOND) -> list[int]:
    tasks = tasks_of(root)
    divide(inner(root), pools_of(tasks, every), duration)
    return [one.got for one in tasks]


@pytest.mark.parametrize(
    ("amount", "claims", "got"),
    [
        (90, [(100, 1), (100, 2)], [30, 60]),
        (90, [(100, 2), (100, 1)], [60, 30]),
        (90, [(10, 2), (100, 1)], [10, 80]),
        (90, [(0, 1000), (100, 1)], [0, 90]),
        (90, [(20, 1), (20, 1), (100, 1)], [20, 20, 50]),
        (10, [(100, 1), (100, 1), (100, 1)], [3, 3, 4]),
        (0, [(100, 1), (100, 1)], [0, 0]),
        (200, [(50, 1), (50, 9)], [50, 50]),
        (1027, [(5000, 1024), (5000, 3)], [1024, 3]),
    ],
)
def test_fill(amount: int, claims: list[tuple[int, int]], got: list[int]) -> None:
    asked = [task(wanted, weight) for wanted, weight in claims]
    fill(amount, asked)
    assert [claim.got for claim in asked] == got


def test_everyone_gets_what_he_wants_where_there_is_enough() -> None:
    root = group(group(task(10), task(20)), group(task(30, 2)), limit=100)
    assert shares(root) == [10, 20, 30]
    assert root.got == root.wanted == 60


def test_weights_count_among_siblings_only() -> None:
    """A heavy task in a light group stays in its group's part."""
    light = group(task(1000, 900), task(1000, 100), weight=1)
    heavy = group(task(1000, 1), weight=3)
    assert shares(group(light, heavy, limit=400)) == [90, 10, 300]


def test_a_groups_limit_leaves_the_rest_to_others() -> None:
    held = group(task(1000), limit=50, weight=9)
    free = group(task(1000), weight=1)
    root = group(held, free, limit=400)
    assert shares(root) == [50, 350]
    assert (held.asked, held.usable, held.got) == (1000, 50, 50)


def test_a_groups_part_that_it_cannot_use_goes_to_its_siblings() -> None:
    small = group(task(10), task(20), weight=1000)
    large = group(task(1000), weight=1)
    assert shares(group(small, large, limit=400)) == [10, 20, 370]


@pytest.mark.parametrize(
    ("masks", "pools"),
    [
        ([0b11, 0b11], []),
        ([0b01, 0b11], [0b01, 0b11]),
        ([0b01, 0b10], [0b01, 0b10]),
        ([0b011, 0b110], [0b011, 0b110, 0b111]),
        ([0b0011, 0b0110, 0b1100], [0b0011, 0b0110, 0b0111, 0b1100, 0b1110, 0b1111]),
        ([0b0011, 0b0001], [0b0001, 0b0011]),
    ],
)
def test_pools(masks: list[int], pools: list[int]) -> None:
    """A pool for each cpuset and each union of crossing ones; none where nobody is pinned."""
    every = 0b11 if max(masks) <= 0b11 else 0b1111
    tasks = [task(1, mask=mask) for mask in masks]
    found = pools_of(tasks, every)
    assert [pool.cpus for pool in found] == [mask.bit_count() for mask in pools]
    for pool, mask in zip(found, pools, strict=True):
        assert list(pool.tasks) == [t for t in tasks if t.mask | mask == mask]


def test_pools_stay_few() -> None:
    """Cpusets that all cross each other have 2^n unions."""
    tasks = [task(1, mask=1 | 1 << n) for n in range(1, 40)]
    assert len(pools_of(tasks, 2**40 - 1)) <= 1024


@pytest.mark.parametrize(
    ("pinned", "got"),
    [
        # two on one CPU share it by weight
        ([(9, 1, 0b01), (9, 2, 0b01)], [SECOND // 3, 2 * SECOND // 3]),
        # beside one that may run anywhere and has the other CPU
        ([(9, 1, 0b01), (9, 1, 0b01), (9, 1, 0b11)], [SECOND // 2, SECOND // 2, SECOND]),
        ([(9, 1, 0b01), (9, 1, 0b10)], [SECOND, SECOND]),
        ([(9, 1, 0b01), (0, 1, 0b10)], [SECOND, 0]),
    ],
)
def test_cpusets_bind(pinned: list[tuple[int, int, int]], got: list[int]) -> None:
    root = group(*(task(w * SECOND, weight, mask) for w, weight, mask in pinned))
    root.limit = 2 * SECOND
    assert shares(root, 0b11) == pytest.approx(got, abs=3)
    assert root.got == sum(one.got for one in root.claims)


def test_crossing_cpusets_share_their_union() -> None:
    """Three tasks on {0,1}, {1,2} and {1}: three CPUs for three."""
    root = group(
        task(2 * SECOND, mask=0b011), task(2 * SECOND, mask=0b110), task(SECOND, mask=0b010)
    )
    root.limit = 3 * SECOND
    assert shares(root, 0b111) == pytest.approx([SECOND] * 3, abs=3)


TASKS = st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 10_000), st.integers(1, 15))
GROUPS = st.lists(
    st.tuples(
        st.lists(TASKS, min_size=1, max_size=4), st.integers(0, 3 * SECOND), st.integers(2, 10_000)
    ),
    min_size=1,
    max_size=4,
)
Spec = list[tuple[list[tuple[int, int, int]], int, int]]


def built(spec: Spec, mask: int = 0) -> Claim:
    root = group(
        *(
            group(*(task(w, weight, m | mask) for w, weight, m in tasks), limit=limit, weight=heft)
            for tasks, limit, heft in spec
        )
    )
    root.limit = 4 * SECOND
    return root


def pinned_room(tasks: list[Claim], duration: int) -> None:
    """A task alone gets no more than its CPUs have."""
    for one in tasks:
        one.usable = min(one.usable, one.mask.bit_count() * duration)


@given(GROUPS)
def test_no_more_than_there_is_and_no_less_than_can_be_used(spec: Spec) -> None:
    root = built(spec, mask=0b1111)
    got = shares(root)
    assert root.got == sum(got) == min(root.asked, 4 * SECOND)
    for claim in inner(root):
        assert claim.got <= claim.usable
        assert claim.got == sum(below.got for below in claim.claims)
        assert all(0 <= below.got <= below.usable for below in claim.claims)


@given(GROUPS)
def test_nobody_is_ahead_of_one_who_wants_more(spec: Spec) -> None:
    """Max-min: among siblings, who could use more has at least what the others have by weight."""
    root = built(spec, mask=0b1111)
    shares(root)
    for claim in inner(root):
        for hungry in (c for c in claim.claims if c.got < c.usable):
            for other in claim.claims:
                # One unit of rounding for each sibling.
                assert (other.got - len(claim.claims)) * hungry.weight <= (
                    hungry.got + len(claim.claims)
                ) * other.weight


@given(GROUPS)
def test_cpusets_never_hold_more_than_their_cpus(spec: Spec) -> None:
    root = built(spec)
    tasks = tasks_of(root)
    pinned_room(tasks, SECOND)
    shares(root)
    for mask in range(1, 16):
        inside = sum(one.got for one in tasks if not one.mask & ~mask)
        assert inside <= mask.bit_count() * SECOND
    for claim in inner(root):
        assert claim.got == sum(below.got for below in claim.claims) <= claim.limit


@given(GROUPS)
def test_no_cpu_stands_still_that_somebody_could_use(spec: Spec) -> None:
    """Whoever is short is in some pool or group that is full, but for rounding."""
    root = built(spec)
    tasks = tasks_of(root)
    pinned_room(tasks, SECOND)
    shares(root)
    slack = 2 * len(tasks)
    above = {below: claim for claim in inner(root) for below in claim.claims}
    for short in (one for one in tasks if one.got + slack < one.usable):
        group_full = above[short].got + slack >= above[short].limit
        pool_full = any(
            sum(one.got for one in tasks if not one.mask & ~mask) + slack
            >= mask.bit_count() * SECOND
            for mask in range(1, 16)
            if not short.mask & ~mask
        )
        assert group_full or pool_full or root.got + slack >= root.limit


@given(GROUPS)
def test_both_ways_to_divide_agree(spec: Spec) -> None:
    """Where no cpuset binds, filling step by step is the same as dividing at once."""
    fast, slow = built(spec, mask=0b1111), built(spec, mask=0b1111)
    shares(fast)
    shares(slow)
    tasks = tasks_of(slow)
    fair_share._divide_by_pools(inner(slow), pools_of(tasks, 0), SECOND)
    for one, other in zip(tasks_of(fast), tasks, strict=True):
        assert abs(one.got - other.got) <= len(tasks) + 1
