"""Problems: one line, at most 80 characters of a foreign value, no matter what it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import (
    QUOTED,
    DocumentName,
    InvalidError,
    Problem,
    ProblemCode,
    below,
    quoted,
    sentences,
    shorten,
)


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


def test_a_problem_is_one_sentence() -> None:
    problem = Problem("a.yaml: spec.period", quoted("5ms"), "at least 100ms")
    assert problem.sentence() == "a.yaml: spec.period is '5ms', but must be at least 100ms"


def test_many_problems_are_one_line_and_the_rest_is_counted() -> None:
    bad = [Problem(f"f{place}", "1", "2") for place in range(13)]
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


def test_a_problem_names_the_object_it_is_about() -> None:
    pod = DocumentName("pods.yaml", "Pod", "shop", "web")
    found = Problem("spec.nodeName", "missing", "a text", ProblemCode.REQUIRED, pod)
    assert found.where == "pods.yaml: Pod shop/web: spec.nodeName"
    assert str(DocumentName("a.yaml", "Node", "", "n\n1")) == r"a.yaml: Node 'n\n1'"


def test_the_path_of_an_unknown_key_is_that_of_its_mapping() -> None:
    file = DocumentName("a.yaml")
    found = Problem("spec", "'perod'", "one of period", ProblemCode.UNKNOWN_KEY, file)
    assert found.sentence() == "a key of a.yaml: spec is 'perod', but must be one of period"


def test_the_error_carries_every_problem() -> None:
    bad = (Problem("a", "1", "2"), Problem("b", "3", "4"))
    assert InvalidError(*bad).problems == bad
    assert str(InvalidError(*bad)) == "a is 1, but must be 2; b is 3, but must be 4"


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
    assert shorten(sentence, 12) == short


@given(st.text(), st.integers(4, 40))
def test_it_is_short_and_how_it_began(sentence: str, most: int) -> None:
    found = shorten(sentence, most)
    assert len(found) <= most
    assert found == sentence or sentence.startswith(found.removesuffix("..."))
