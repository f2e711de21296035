"""The model of what a rotation does to the load: nothing lost, nothing made, nobody hotter."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.rebalancer.whatif.simulate_day import (
    LoadShares,
    carried_load,
    redistribute,
    remove_pod,
)

PODS = ("a", "b", "c", "d", "e", "f")
NOTHING: LoadShares = {}


def test_a_group_is_evened_and_the_others_stay() -> None:
    parts = redistribute(NOTHING, ("a", "d"), 0.0)
    loads = carried_load(parts, {"a": 1.2, "b": 0.9, "d": 0.2})
    assert loads == pytest.approx({"a": 0.7, "b": 0.9, "d": 0.7})


def test_what_is_sticky_stays_with_the_successor() -> None:
    parts = redistribute(NOTHING, ("a", "d"), 0.5)
    assert carried_load(parts, {"a": 1.2, "d": 0.2}) == pytest.approx({"a": 0.95, "d": 0.45})


def test_where_all_is_sticky_nothing_changes() -> None:
    loads = {"a": 1.2, "d": 0.2}
    assert carried_load(redistribute(NOTHING, ("a", "d"), 1.0), loads) == pytest.approx(loads)


def test_what_the_recording_says_later_is_said_of_all_who_carry_it() -> None:
    """The hot partitions of a are now half at d: when they cool down, both feel it."""
    parts = redistribute(NOTHING, ("a", "d"), 0.0)
    assert carried_load(parts, {"a": 0.2, "d": 0.2}) == pytest.approx({"a": 0.2, "d": 0.2})
    assert carried_load(parts, {"a": 0.0, "d": 1.0}) == pytest.approx({"a": 0.5, "d": 0.5})


def test_rotations_follow_each_other() -> None:
    parts = redistribute(redistribute(NOTHING, ("a", "b"), 0.0), ("b", "c"), 0.0)
    assert carried_load(parts, {"a": 1.0, "b": 0.0, "c": 0.0}) == pytest.approx(
        {"a": 0.5, "b": 0.25, "c": 0.25}
    )


def test_who_leaves_passes_its_part_on_to_those_who_carry_its_load() -> None:
    parts = remove_pod(redistribute(NOTHING, ("a", "b"), 0.0), "b")
    # Half of a's load would be at b, which is gone; a carries what was b's, so it has it again.
    assert carried_load(parts, {"a": 1.0, "c": 0.4}) == pytest.approx({"a": 1.0, "c": 0.4})


def test_who_leaves_three_leaves_two_who_share() -> None:
    parts = remove_pod(redistribute(NOTHING, ("a", "b", "c"), 0.0), "c")
    assert carried_load(parts, {"a": 0.9, "b": 0.1}) == pytest.approx({"a": 0.5, "b": 0.5})


@pytest.mark.parametrize(
    "parts",
    [NOTHING, redistribute(NOTHING, ("b", "c"), 0.0), redistribute(NOTHING, ("b", "c"), 1.0)],
    ids=["nobody was rotated", "others were", "others were, and all is sticky"],
)
def test_who_was_never_rotated_leaves_nothing_behind(parts: LoadShares) -> None:
    assert remove_pod(parts, "a") == parts


def test_who_was_rotated_in_vain_leaves_nothing_behind() -> None:
    parts = remove_pod(redistribute(NOTHING, ("a", "b"), 1.0), "a")
    assert carried_load(parts, {"b": 0.3}) == pytest.approx({"b": 0.3})


stickiness = st.floats(0, 1)
group = st.sets(st.sampled_from(PODS), min_size=1)
turns = st.lists(st.tuples(group, stickiness), max_size=8)
amounts = st.floats(0, 100)


def after(history: list[tuple[set[str], float]]) -> LoadShares:
    parts = NOTHING
    for pods, sticky in history:
        parts = redistribute(parts, sorted(pods), sticky)
    return parts


def matrix(parts: LoadShares, pods: tuple[str, ...]) -> list[list[float]]:
    return [[parts.get(one, {one: 1.0}).get(other, 0.0) for other in pods] for one in pods]


@given(turns, st.lists(st.sampled_from(PODS), unique=True, max_size=4))
def test_all_parts_of_one_sum_to_one_both_ways(
    history: list[tuple[set[str], float]], gone: list[str]
) -> None:
    parts = after(history)
    for pod in gone:
        parts = remove_pod(parts, pod)
    rows = matrix(parts, tuple(pod for pod in PODS if pod not in gone))
    for line in (*rows, *zip(*rows, strict=True)):
        assert math.fsum(line) == pytest.approx(1.0, abs=1e-6)
        assert min(line) >= 0


@given(turns, st.fixed_dictionaries(dict.fromkeys(PODS, amounts)))
def test_the_total_stays_and_the_hottest_is_never_hotter(
    history: list[tuple[set[str], float]], loads: dict[str, float]
) -> None:
    found = carried_load(after(history), loads)
    assert found.keys() == loads.keys()
    assert math.fsum(found.values()) == pytest.approx(math.fsum(loads.values()), abs=1e-6)
    assert max(found.values()) <= max(loads.values()) + 1e-9
    assert min(found.values()) >= min(loads.values()) - 1e-9


@given(turns, group, stickiness)
def test_the_order_of_a_group_does_not_matter(
    history: list[tuple[set[str], float]], pods: set[str], sticky: float
) -> None:
    parts = after(history)
    one, other = (
        redistribute(parts, sorted(pods), sticky),
        redistribute(parts, sorted(pods)[::-1], sticky),
    )
    for pod in pods:
        assert one[pod] == pytest.approx(other[pod])


def test_a_thousand_rotations_lose_nothing() -> None:
    """Rounding does not add up, however long the day is."""
    chance = random.Random(0)  # noqa: S311 - noise, not a secret
    pods = [f"pod-{n}" for n in range(40)]
    parts = NOTHING
    for _ in range(1000):
        parts = redistribute(parts, chance.sample(pods, 4), chance.random())
    loads = {pod: chance.random() for pod in pods}
    found = carried_load(parts, loads)
    assert math.fsum(found.values()) == pytest.approx(math.fsum(loads.values()), rel=1e-12)
    assert max(found.values()) - min(found.values()) < 1e-3, "all have been mixed with all"


def test_all_but_one_may_leave() -> None:
    parts = redistribute(redistribute(NOTHING, PODS, 0.3), PODS[:3], 0.0)
    for pod in PODS[1:]:
        parts = remove_pod(parts, pod)
    assert carried_load(parts, {"a": 0.7}) == pytest.approx({"a": 0.7})


def test_who_comes_back_carries_its_own() -> None:
    parts = remove_pod(redistribute(NOTHING, ("a", "b", "c"), 0.0), "c")
    found = carried_load(parts, {"a": 0.9, "b": 0.1, "c": 0.4})
    assert found == pytest.approx({"a": 0.5, "b": 0.5, "c": 0.4})


@given(turns, st.sampled_from(PODS))
def test_leaving_is_what_the_textbook_says(
    history: list[tuple[set[str], float]], gone: str
) -> None:
    """The stochastic complement: M' = A + b c / (1 - d), where d is what it carries of itself."""
    parts = after(history)
    own = parts.get(gone, {gone: 1.0}).get(gone, 0.0)
    rest = tuple(pod for pod in PODS if pod != gone)
    whole = matrix(parts, PODS)
    place = PODS.index(gone)
    for one, row in zip(rest, matrix(remove_pod(parts, gone), rest), strict=True):
        through = whole[PODS.index(one)][place]
        for other, part in zip(rest, row, strict=True):
            direct = whole[PODS.index(one)][PODS.index(other)]
            back = whole[place][PODS.index(other)]
            # Who shares with nobody else (d is 1, but for rounding) leaves nothing to pass on.
            around = through * back / (1 - own) if 1 - own > 1e-9 else 0.0
            assert part == pytest.approx(direct + around, abs=1e-6)


def test_a_chain_of_leavers_may_go_in_any_order() -> None:
    parts = redistribute(
        redistribute(redistribute(NOTHING, ("a", "b", "c"), 0.2), ("c", "d"), 0.5), ("b", "e"), 0.0
    )
    loads = {"a": 0.9, "d": 0.2, "f": 0.4}
    found = [
        carried_load(remove_pod(remove_pod(remove_pod(parts, one), two), three), loads)
        for one, two, three in itertools.permutations(("b", "c", "e"))
    ]
    for each in found:
        assert each == pytest.approx(found[0])
        assert math.fsum(each.values()) == pytest.approx(1.5)
