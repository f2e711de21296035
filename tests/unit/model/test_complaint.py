"""Complaints: one line, at most 80 characters of a foreign value, no matter what it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.complaint import QUOTED, Complaint, below, quoted, sentences


class Odd:
    """Something that no JSON or YAML parser makes by itself."""

    def __repr__(self) -> str:
        raise AssertionError("a foreign object's repr must not run")


def cyclic() -> list[object]:
    knot: list[object] = []
    knot.append(knot)
    return knot


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "missing"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-5, "-5"),
        (2**63, "9223372036854775808"),
        pytest.param(10**5000, "a number beyond 64 bits", id="5000 digits"),
        (0.5, "0.5"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("abc", "'abc'"),
        ("", "''"),
        ("it's", '"it\'s"'),
        ("two\nlines", r"'two\nlines'"),
        ({}, "a mapping"),
        ({"a": 1}, "a mapping"),
        ([1, 2], "a list"),
        ((1,), "a list"),
        (cyclic(), "a list"),
        (b"abc", "a bytes"),
        (Odd(), "a Odd"),
    ],
)
def test_values_are_quoted(value: object, shown: str) -> None:
    assert quoted(value) == shown


@pytest.mark.parametrize(
    ("text", "end"),
    [("x" * 78, "x'"), ("x" * 79, "..."), ("x" * 10_000, "..."), ("\0" * 40, "...")],
)
def test_long_texts_are_clipped(text: str, end: str) -> None:
    assert quoted(text).endswith(end)
    assert len(quoted(text)) <= QUOTED


@given(st.text() | st.binary() | st.integers() | st.floats() | st.none())
def test_a_quote_is_one_short_printable_line(value: object) -> None:
    shown = quoted(value)
    assert 0 < len(shown) <= QUOTED
    assert shown.isprintable()


def test_a_complaint_is_one_sentence() -> None:
    complaint = Complaint("a.yaml: spec.period", quoted("5ms"), "at least 100ms")
    assert complaint.sentence() == "a.yaml: spec.period is '5ms', but must be at least 100ms"


def test_many_complaints_are_one_line_and_the_rest_is_counted() -> None:
    bad = [Complaint(f"f{place}", "1", "2") for place in range(13)]
    assert sentences(bad[:2]) == "f0 is 1, but must be 2; f1 is 1, but must be 2"
    assert sentences(bad).count(";") == 10
    assert sentences(bad).endswith("; and 3 more")
    assert "more" not in sentences(bad[:10])


@pytest.mark.parametrize(
    ("path", "key", "whole"),
    [
        ("", "spec", "spec"),
        ("spec", "nodeName", "spec.nodeName"),
        ("labels", "example.com/a", "labels['example.com/a']"),
        ("labels", "a\nb", r"labels['a\nb']"),
        ("labels", "", "labels['']"),
    ],
)
def test_paths(path: str, key: str, whole: str) -> None:
    assert below(path, key) == whole
