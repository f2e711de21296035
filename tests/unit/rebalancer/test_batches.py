"""Who goes together: never more than the others can carry."""

import math
from typing import Any

import pytest

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import Cores, PodUsage, WorkloadUsage
from slackwater.rebalancer.selection import (
    Capacity,
    Proposal,
    batch_size,
    interleave,
    measure_capacity,
    propose,
    split_into_batches,
)
from slackwater.settings.rebalancer import MoveSettings
from tests.unit.rebalancer.workloads import F6, NAN, all_with, measured, numbered, pod_usage

SEED = MoveSettings()
ROW7 = MoveSettings(top_k=3, tolerance=2.0, minimum_improvement=20.0)
HALF = numbered(1.2, 1.1, *[0.2] * 20)


def grouped(found: WorkloadUsage, settings: MoveSettings = SEED) -> list[str]:
    batches = split_into_batches(propose(found, settings), found, settings)
    return [" ".join(each.name for each in batch) for batch in batches]


@pytest.mark.parametrize(
    ("usages", "settings", "batches"),
    [
        # 4.4 cores: 1.10 each with two away, above 1.05, but no more than A uses now.
        (F6, SEED, ["A F", "B E"]),
        # 4.3 on four: the same. The third has no partner.
        ({**F6, "B": 1.0}, SEED, ["A F", "E"]),
        # 12 on seven are 1.71: far above 1.40, and below the 2.5 of the hottest.
        (
            numbered(2.5, 2.4, 2.3, 1.0, 1.0, 1.0, 0.7, 0.6, 0.5),
            ROW7,
            ["p1 p9", "p2 p8", "p3 p7"],
        ),
        # 3.7 on three are 1.23, more than the hottest's 1.2: one by one.
        (numbered(1.2, 1.0, 0.8, 0.4, 0.3), SEED, ["p1", "p5", "p4"]),
        # Plenty of room: all at once.
        (HALF, SEED, ["p1 p10 p2 p11"]),
        # Room for three of four: pairs are not torn apart.
        (numbered(1.2, 1.1, 0.3, 0.3, 0.3, 0.3, 0.3), SEED, ["p1 p3", "p2 p4"]),
        # The setting bounds it, and never widens it.
        (HALF, MoveSettings(batch=1), ["p1", "p10", "p2", "p11"]),
        (HALF, MoveSettings(batch=2), ["p1 p10", "p2 p11"]),
        (HALF, MoveSettings(batch=3), ["p1 p10", "p2 p11"]),
        (HALF, MoveSettings(batch=99), ["p1 p10 p2 p11"]),
        (F6, MoveSettings(batch=4), ["A F", "B E"]),
        # Nobody is to go.
        (numbered(0.9, 0.8), SEED, []),
    ],
)
def test_batches(usages: dict[str, float], settings: MoveSettings, batches: list[str]) -> None:
    assert grouped(measured(usages), settings) == batches


@pytest.mark.parametrize("most", [0, 3, 4])
def test_an_odd_number_goes_at_once_where_it_fits(most: int) -> None:
    found = measured(numbered(1.2, *[0.2] * 20))
    assert grouped(found, MoveSettings(batch=most)) == ["p1 p10 p11"]


@pytest.mark.parametrize(
    ("different", "batches"),
    [
        # A limit says what a pod can carry; the smallest counts.
        (all_with(limit=2.0), ["A F", "B E"]),
        (all_with(limit=1.0), ["A", "F", "B", "E"]),
        ({**all_with(limit=2.0), "C": {"limit": 0.9}}, ["A", "F", "B", "E"]),
        (all_with(limit=0.8), []),
        # Where one has none, nobody's counts.
        ({name: {"limit": 0.8} for name in "ABCDE"}, ["A F", "B E"]),
        # Who is not Ready carries nothing: 3.6 on three are 1.2.
        ({"C": {"ready": False}}, ["A F", "B E"]),
        ({"C": {"terminating": True}}, ["A F", "B E"]),
        # Its load must still be carried where it is to go itself: 4.4 on three are too much.
        ({"A": {"ready": False}}, ["A", "F", "B", "E"]),
        # Of a young pod nobody knows what it carries; 3.8 on three are more than 1.2.
        ({"D": {"age": 60.0}}, ["A", "F", "B", "E"]),
        # Who is held back carries like any other.
        ({"C": {"held_back": "an annotation"}}, ["A F", "B E"]),
    ],
)
def test_what_the_others_can_carry(different: dict[str, Any], batches: list[str]) -> None:
    assert grouped(measured(**different)) == batches


def test_unknown_use_is_not_taken_for_idle() -> None:
    """Section 6, row 15: 4.1 cores on three are too much; C to F do not hide it."""
    assert grouped(measured({**F6, "F": NAN})) == ["A", "E", "B", "D"]


@pytest.mark.parametrize(
    ("different", "carriers", "load"),
    [
        ({}, 6, 4.4),
        ({"held_back": "an annotation"}, 6, 4.4),
        ({"ready": False}, 5, 3.6),
        ({"terminating": True}, 5, 3.6),
        ({"running": False}, 5, 3.6),
        ({"age": 299.0}, 5, 3.6),
    ],
)
def test_who_carries(different: dict[str, object], carriers: int, load: float) -> None:
    found = measured(C=different)
    room = measure_capacity(propose(found, SEED), found, SEED)
    assert room.carriers == carriers
    assert room.load == pytest.approx(load)


def test_a_held_back_pod_of_unknown_use_is_no_carrier() -> None:
    found = measured({**F6, "C": NAN}, C={"held_back": "an annotation"})
    assert measure_capacity(propose(found, SEED), found, SEED).carriers == 5


@pytest.mark.parametrize(
    ("load", "carriers", "most", "bound", "size"),
    [
        (4.4, 6, 1.2, 1.05, 2),
        (4.4, 6, 1.05, 1.05, 1),
        (4.4, 6, 0.9, 0.9, 1),
        (4.4, 6, 0.8, 0.8, 0),
        (1.0, 10, 1.05, 1.05, 9),
        # 1.05 x 4 is as much as may be.
        (1.05 * 4, 6, 1.05, 1.05, 2),
        (1.0, 1, 9.0, 9.0, 0),
        (0.0, 0, 9.0, 9.0, 0),
        (0.0, 2, 0.0, 0.0, 1),
    ],
)
def test_the_size(load: float, carriers: int, most: float, bound: float, size: int) -> None:
    assert Capacity(Cores(load), carriers, Cores(most), Cores(bound), "").size() == size


def test_nobody_left_carries_nothing() -> None:
    room = Capacity(Cores(1.0), 2, Cores(9.0), Cores(9.0), "")
    assert (room.each(1), room.each(2), room.each(3)) == (1.0, math.inf, math.inf)


def test_a_limit_below_the_threshold_bounds_all_sizes() -> None:
    found = measured(HALF, **all_with(HALF, limit=0.35))
    room = measure_capacity(propose(found, SEED), found, SEED)
    assert (room.most, room.bound) == (0.35, 0.35)
    assert room.load == pytest.approx(6.3)
    assert room.size() == 4


def test_hot_ones_and_cold_ones_alternate() -> None:
    def of(names: str) -> list[PodUsage]:
        return [pod_usage(name, 1.0) for name in names]

    assert "".join(each.name for each in interleave(of("abc"), of("xy"))) == "axbyc"


def test_without_numbers_nobody_goes() -> None:
    nothing = Proposal((), None, "", {})
    found = measured(dict.fromkeys(F6, Gap("none")))
    room = measure_capacity(nothing, found, SEED)
    assert (room.load, room.carriers) == (0.0, 0)
    assert batch_size(room, nothing, SEED) == 0
    assert split_into_batches(nothing, found, SEED) == ()
