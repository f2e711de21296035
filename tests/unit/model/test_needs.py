"""What has to be read: the union of what everybody needs."""

from slackwater.model.cgroup import Level
from slackwater.model.needs import EVERYTHING, PODS, TIERS, Needs, ReadingField, merge_needs


def test_nobody_needs_nothing() -> None:
    assert merge_needs(()) == Needs()
    assert Needs().at(Level.NODE) == frozenset()


def test_a_union_by_level() -> None:
    weights = Needs(
        {Level.TIER: frozenset({ReadingField.WEIGHT}), Level.POD: frozenset({ReadingField.BURST})}
    )
    found = merge_needs((TIERS, weights))
    assert found.at(Level.TIER) == TIERS.at(Level.TIER) | {ReadingField.WEIGHT}
    assert found.at(Level.POD) == {ReadingField.BURST}
    assert found.at(Level.CONTAINER) == frozenset()


def test_deeper_needs_include_the_shallow_ones() -> None:
    for level in Level:
        assert TIERS.at(level) <= PODS.at(level) <= EVERYTHING.at(level)
