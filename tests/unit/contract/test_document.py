"""Reading plain values: types, paths, spellings, JSON."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.document import (
    LARGEST_NUMBER,
    SMALLEST_NUMBER,
    Field,
    Spelling,
    elements,
    flag,
    member,
    members,
    parse_json,
    text,
    texts,
    whole,
)
from slackwater.model.problem import InvalidError, Problem
from tests.unit.contract.documents import ANYTHING


def at(value: object, path: str = "a.b") -> Field:
    return Field("x.yaml", path, value)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (text, ""),
        (text, "abc"),
        (whole, 0),
        (whole, LARGEST_NUMBER),
        (whole, SMALLEST_NUMBER),
        (flag, True),
        (flag, False),
        (texts, {}),
        (texts, {"a": "b"}),
    ],
)
def test_right_types(read: Callable[[Field], object], value: object) -> None:
    assert read(at(value)) == value


@pytest.mark.parametrize(
    ("read", "value", "end"),
    [
        (text, 5, "a.b is 5, but must be a text"),
        (text, None, "a.b is missing, but must be a text"),
        (text, True, "a.b is true, but must be a text"),
        (whole, "5", "a.b is '5', but must be a whole number"),
        (whole, True, "a.b is true, but must be a whole number"),
        (whole, 5.0, "a.b is 5.0, but must be a whole number"),
        (whole, 2**63, f"a.b is {2**63}, but must be a whole number of 64 bits"),
        (flag, 1, "a.b is 1, but must be true or false"),
        (flag, "true", "a.b is 'true', but must be true or false"),
        (texts, [], "a.b is a list, but must be a mapping"),
        (texts, {"k": 5}, "a.b.k is 5, but must be a text"),
        (texts, {"x/k": True}, "a.b['x/k'] is true, but must be a text"),
        (texts, {5: "k"}, "a key of x.yaml: a.b is 5, but must be a text"),
        (members, "m", "a.b is 'm', but must be a mapping"),
        (elements, {}, "a.b is a mapping, but must be a list"),
        (elements, "abc", "a.b is 'abc', but must be a list"),
    ],
)
def test_wrong_types(read: Callable[[Field], object], value: object, end: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(at(value))
    assert str(caught.value).removeprefix("x.yaml: ") == end


def test_an_empty_label_may_be_null() -> None:
    assert texts(at({"a": None})) == {"a": ""}


def test_the_top_of_a_document_is_called_by_its_source() -> None:
    with pytest.raises(InvalidError, match=r"^x\.yaml is a list, but must be a mapping$"):
        members(at([], path=""))


def test_paths_of_elements() -> None:
    assert [each.where() for each in elements(at([1, 2]))] == ["x.yaml: a.b[0]", "x.yaml: a.b[1]"]


@pytest.mark.parametrize(
    ("document", "spelling", "found"),
    [
        ({"enable": 1}, Spelling.EXACT, 1),
        ({"Enable": 1}, Spelling.EXACT, None),
        ({"Enable": 1}, Spelling.ANY_CASE, 1),
        ({"ENABLE": 1, "enable": 2}, Spelling.ANY_CASE, 2),
        ({"enable": 2, "ENABLE": 1}, Spelling.ANY_CASE, 2),
        ({"ENABLE": 1, "Enable": 2}, Spelling.ANY_CASE, 1),
        ({"enable": None}, Spelling.ANY_CASE, None),
        ({"enable": None, "ENABLE": 1}, Spelling.ANY_CASE, None),
        ({}, Spelling.ANY_CASE, None),
    ],
)
def test_spellings(document: object, spelling: Spelling, found: object) -> None:
    chosen = member(Field("x", "", document, spelling), "enable")
    assert (None if chosen is None else chosen.value) == found


def test_children_inherit_the_spelling() -> None:
    top = Field("x", "", {"A": [{"B": 1}]}, Spelling.ANY_CASE)
    outer = member(top, "a")
    assert outer is not None
    inner = member(elements(outer)[0], "b")
    assert inner is not None
    assert inner.path == "A[0].B"


def test_an_error_tells_every_problem() -> None:
    error = InvalidError(Problem("a", "1", "2"), Problem("b", "3", "4"))
    assert str(error) == "a is 1, but must be 2; b is 3, but must be 4"
    assert len(error.problems) == 2


@pytest.mark.parametrize(
    ("content", "value"),
    [('{"a": 1, "a": 2}', {"a": 2}), ("null", None), (" [1] ", [1]), ('"x"', "x")],
)
def test_json(content: str, value: object) -> None:
    assert parse_json(content, "x") == value


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "{'a': 1}",
        "a: 1",
        "\ud800",
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"a":' * 100_000, id="deep mapping"),
        "NaN",
        "{} {}",
    ],
)
def test_what_is_no_json(content: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_json(content, "data.colocation-config")
    assert str(caught.value).startswith("data.colocation-config is ")
    assert "but must be JSON (" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.text())
def test_any_text_is_json_or_refused(content: str) -> None:
    try:
        parse_json(content, "x")
    except InvalidError as error:
        assert str(error).isprintable()


@given(ANYTHING, st.sampled_from([text, whole, flag, texts, members, elements]))
def test_any_value_reads_or_is_refused(value: object, read: Callable[[Field], object]) -> None:
    try:
        read(at(value))
    except InvalidError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 300
