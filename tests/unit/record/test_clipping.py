"""Sentences that must be short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.record.clipping import clipped


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("operation", "operation"),
        ("no such file", "no such file"),
        ("it is not allowed", "it is not..."),
        ("it is not  allowed", "it is not..."),
        ("operations are", "operation..."),
        ("an operationally", "an operat..."),
    ],
)
def test_a_sentence_is_cut_where_a_word_ends(sentence: str, short: str) -> None:
    assert clipped(sentence, 12) == short


@given(st.text(), st.integers(4, 40))
def test_it_is_short_and_how_it_began(sentence: str, most: int) -> None:
    found = clipped(sentence, most)
    assert len(found) <= most
    assert found == sentence or sentence.startswith(found.removesuffix("..."))
