"""The pure parts of the benchmark of CPU sets: who shares a CPU with whom, and for how long."""

from collections import Counter
from itertools import pairwise

from benchmarks._pinned import PinnedPod, SharedTimes, alone_among
from benchmarks.pinning import CHANGES
from slackwater.model.cpus import CpuPolicy, CpuSet

HOLDER, OTHER, THIRD = 10, 20, 30
ONE, BOTH, ZERO = CpuSet.of((1,)), CpuSet.of((0, 1)), CpuSet.of((0,))


def test_a_shared_cpu_counts_without_a_break_for_each_pair() -> None:
    shared = SharedTimes()
    for at, other, third in (
        (0.0, BOTH, ZERO),
        (0.5, BOTH, BOTH),
        (0.7, ZERO, BOTH),
        (0.9, BOTH, ZERO),
        (1.0, BOTH, ZERO),
    ):
        seen = {HOLDER: ONE, OTHER: other, THIRD: third}
        shared.look(at, {HOLDER: ONE}, seen)
    assert [round(each, 3) for each in shared.durations()] == [0.7, 0.4, 0.1]


def test_nobody_shares_what_nobody_holds() -> None:
    shared = SharedTimes()
    shared.look(0.0, {}, {OTHER: BOTH, THIRD: BOTH})
    shared.look(9.0, {HOLDER: ONE}, {HOLDER: ONE, OTHER: ZERO})
    assert shared.durations() == []


def test_a_holder_asks_and_has_as_many_as_it_asked_for() -> None:
    pods = [
        PinnedPod(1, "", 1, HOLDER),
        PinnedPod(2, "", 1, OTHER),
        PinnedPod(3, "", 2, THIRD),
    ]
    seen = {HOLDER: ONE, OTHER: ONE, THIRD: BOTH}
    assert alone_among(pods, seen, frozenset({1})) == {HOLDER: ONE}
    assert alone_among(pods, {HOLDER: BOTH}, frozenset({1})) == {}, "it waits for its own"
    assert alone_among(pods, {HOLDER: ZERO}, frozenset({1})) == {}, "the first CPU is reserved"
    assert alone_among(pods, {}, frozenset({1})) == {}


def test_every_direction_is_tried_as_often_as_any_other() -> None:
    steps = Counter(pairwise((CpuPolicy.EXCLUSIVE, *CHANGES)))
    assert len(steps) == 6
    assert set(steps.values()) == {1}
