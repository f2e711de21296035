"""The kernel's order: what comes before what, and that no rule is ever broken on the way."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    KNOBS,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Change
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, Unlimited
from slackwater.resolution.ordering import ChangePhase, order_for_kernel, phase_of

TIER, POD, BOX = "kubepods/burstable", "kubepods/burstable/pod1", "kubepods/burstable/pod1/c1"


def ref(path: str) -> CgroupRef:
    return CgroupRef(path, 1 + len(path), Level.POD)


def quota(limit: int, period: int = 100_000) -> Bandwidth:
    return Bandwidth(Micros(limit), Micros(period))


NONE = Bandwidth(UNLIMITED)


@pytest.mark.parametrize(
    ("knob", "old", "new", "phase"),
    [
        (IDLE, True, False, ChangePhase.SHARE),
        (IDLE, False, True, ChangePhase.IDLE_ON),
        (IDLE, True, True, ChangePhase.IDLE_ON),
        (WEIGHT, 1, 100, ChangePhase.SHARE),
        (WEIGHT, 100, 1, ChangePhase.SHARE),
        (CPU_QOS_LEVEL, 0, -1, ChangePhase.SHARE),
        (BURST, 10, 5, ChangePhase.LOWER_BURST),
        (BURST, 5, 5, ChangePhase.LOWER_BURST),
        (BURST, 5, 10, ChangePhase.RAISE_BURST),
        (QUOTA, quota(10_000), quota(20_000), ChangePhase.WIDEN),
        (QUOTA, quota(10_000), NONE, ChangePhase.WIDEN),
        (QUOTA, NONE, NONE, ChangePhase.WIDEN),
        (QUOTA, quota(10_000), quota(10_000, 50_000), ChangePhase.WIDEN),
        (QUOTA, quota(10_000), quota(5_000, 50_000), ChangePhase.WIDEN),
        (QUOTA, quota(20_000), quota(10_000), ChangePhase.NARROW),
        (QUOTA, NONE, quota(10_000), ChangePhase.NARROW),
        (QUOTA, quota(20_000), quota(30_000, 200_000), ChangePhase.NARROW),
        (CPUS, CpuSet.of([0]), CpuSet.of([0, 1]), ChangePhase.WIDEN),
        (CPUS, CpuSet.of([0, 1]), CpuSet.of([0]), ChangePhase.NARROW),
        (MEMORY_MAX, 1, 2, ChangePhase.WIDEN),
        (MEMORY_MAX, 1, UNLIMITED, ChangePhase.WIDEN),
        (MEMORY_MAX, 2, 1, ChangePhase.NARROW),
        (MEMORY_MAX, UNLIMITED, 1, ChangePhase.NARROW),
    ],
)
def test_when_a_change_is_due(
    knob: Knob, old: KnobValue, new: KnobValue, phase: ChangePhase
) -> None:
    assert phase_of(Change(ref(POD), knob, old, new)) is phase


def paths(changes: list[Change]) -> list[str]:
    return [change.ref.path for change in changes]


def test_parents_widen_first_and_children_narrow_first() -> None:
    up = [Change(ref(p), QUOTA, quota(10_000), quota(20_000)) for p in (BOX, TIER, POD)]
    assert paths(order_for_kernel(up)) == [TIER, POD, BOX]
    down = [Change(ref(p), QUOTA, quota(20_000), quota(10_000)) for p in (TIER, BOX, POD)]
    assert paths(order_for_kernel(down)) == [BOX, POD, TIER]


def test_the_whole_order() -> None:
    changes = [
        Change(ref(BOX), IDLE, False, True),
        Change(ref(TIER), BURST, 0, 9),
        Change(ref(TIER), QUOTA, quota(20_000), quota(10_000)),
        Change(ref(POD), BURST, 9, 0),
        Change(ref(POD), QUOTA, quota(10_000), quota(20_000)),
        Change(ref(POD), WEIGHT, 0, 5),
        Change(ref(POD), IDLE, True, False),
    ]
    assert [(c.ref.path, c.knob.name) for c in order_for_kernel(changes)] == [
        (POD, "idle"),
        (POD, "weight"),
        (POD, "burst"),
        (POD, "quota"),
        (TIER, "quota"),
        (TIER, "burst"),
        (BOX, "idle"),
    ]


def test_a_cpuset_that_moves_is_split() -> None:
    left, right, both = CpuSet.of([0]), CpuSet.of([1]), CpuSet.of([0, 1])
    ordered = order_for_kernel(Change(ref(p), CPUS, left, right) for p in (BOX, POD))
    steps = [(c.ref.path, c.old, c.new) for c in ordered]
    assert steps == [
        (POD, left, both),
        (BOX, left, both),
        (BOX, both, right),
        (POD, both, right),
    ]


def test_every_knob_has_a_place() -> None:
    changes = [Change(ref(POD), knob, 1, 2) for knob in KNOBS if knob is not IDLE]
    assert {c.knob.name for c in order_for_kernel(changes)} == {c.knob.name for c in changes}


# A v1 kernel in small: a tree whose state is valid, and stays so with every write.

State = dict[str, tuple[Bandwidth, int, CpuSet, bool]]
TREE = (
    "kubepods",
    "kubepods/a",
    "kubepods/b",
    "kubepods/a/1",
    "kubepods/a/2",
    "kubepods/b/3",
    "kubepods/a/1/x",
    "kubepods/a/1/y",
)


def parent(path: str) -> str | None:
    return path.rsplit("/", 1)[0] if "/" in path else None


def effective(state: State, path: str | None) -> Bandwidth:
    """A group without a quota has its parent's (tg_cfs_schedulable_down)."""
    if path is None:
        return NONE
    own = state[path][0]
    return effective(state, parent(path)) if isinstance(own.limit, Unlimited) else own


def broken(state: State) -> list[str]:
    """The rules of v1 that this state breaks."""
    found = []
    for path, (own, burst, cpus, _) in state.items():
        above = parent(path)
        if not isinstance(own.limit, Unlimited):
            if own.exceeds(effective(state, above)):
                found.append(f"{path}: quota above its parent's")
            if burst > own.limit:
                found.append(f"{path}: burst above its quota")
        if above is not None and not cpus.within(state[above][2]):
            found.append(f"{path}: cpuset outside its parent's")
    return found


PERIODS = (50_000, 100_000, 200_000)


@st.composite
def states(draw: st.DrawFn) -> State:
    state: State = {}
    for path in TREE:
        above = parent(path)
        ceiling = effective(state, above)
        room = state[above][2] if above else CpuSet.of(range(6))
        mask = draw(st.integers(1, 63)) & room.mask or room.mask
        own = draw(bandwidths(ceiling))
        most = 10**6 if isinstance(own.limit, Unlimited) else int(own.limit)
        state[path] = (own, draw(st.integers(0, most)), CpuSet(mask), draw(st.booleans()))
    return state


@st.composite
def bandwidths(draw: st.DrawFn, ceiling: Bandwidth) -> Bandwidth:
    if draw(st.integers(0, 3)) == 0:
        return NONE
    period = draw(st.sampled_from(PERIODS))
    if isinstance(ceiling.limit, Unlimited):
        return quota(draw(st.integers(1_000, 400_000)), period)
    most = ceiling.limit * period // ceiling.period
    return quota(draw(st.integers(1, most)), period) if most else NONE


def difference(old: State, new: State) -> list[Change]:
    changes = []
    for path in TREE:
        for place, knob in enumerate((QUOTA, BURST, CPUS, IDLE)):
            was, will = old[path][place], new[path][place]
            if was != will:
                changes.append(Change(ref(path), knob, was, will))
    return changes


def written(state: State, change: Change) -> State:
    own, burst, cpus, idle = state[change.ref.path]
    match change.knob.name, change.new:
        case "quota", Bandwidth() as own:
            pass
        case "cpus", CpuSet() as cpus:
            pass
        case "idle", bool() as idle:
            pass
        case "burst", int() as burst:
            pass
        case _:
            raise AssertionError(change)
    return state | {change.ref.path: (own, burst, cpus, idle)}


@given(states(), states())
def test_no_step_from_any_state_to_any_other_breaks_a_rule(old: State, new: State) -> None:
    assert not broken(old)
    state = old
    for change in order_for_kernel(difference(old, new)):
        state = written(state, change)
        assert not broken(state), change
    assert state == new


@given(states(), states(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    old: State, new: State, chance: random.Random
) -> None:
    changes = difference(old, new)
    shuffled = list(changes)
    chance.shuffle(shuffled)
    assert order_for_kernel(shuffled) == order_for_kernel(changes)


@given(states(), states())
def test_nothing_is_lost_and_only_moved_cpusets_are_added(old: State, new: State) -> None:
    changes = difference(old, new)
    ordered = order_for_kernel(changes)
    moved = [
        c
        for c in changes
        if isinstance(c.old, CpuSet)
        and isinstance(c.new, CpuSet)
        and not c.old.within(c.new)
        and not c.new.within(c.old)
    ]
    assert len(ordered) == len(changes) + len(moved)
    assert {c for c in changes if c not in moved} <= set(ordered)
