"""Equal values of two ticks are held once, and nothing else changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.decision import Because, share_equal

WORDS = st.lists(st.sampled_from("abc"), max_size=6)


def row(words: list[str]) -> tuple[Because, ...]:
    return tuple(Because(word, word, word) for word in words)


@given(WORDS, WORDS)
def test_the_values_are_those_of_now(before: list[str], now: list[str]) -> None:
    assert share_equal(row(before), row(now)) == row(now)


@given(WORDS, WORDS)
def test_equal_ones_are_the_old_objects(before: list[str], now: list[str]) -> None:
    old = row(before)
    found = share_equal(old, row(now))
    if len(before) == len(now):
        same = [one is other for one, other in zip(old, found, strict=True)]
        assert same == [one == other for one, other in zip(before, now, strict=True)]


@pytest.mark.parametrize("words", [[], ["a"], ["a", "b"]])
def test_where_nothing_moved_it_is_the_same_row(words: list[str]) -> None:
    old = row(words)
    assert share_equal(old, row(words)) is old
