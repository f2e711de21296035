"""Values of files and texts of flags against annotations: what is taken, and what is said."""

import enum
import math
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, inspect

from slackwater.contract.decoding import (
    check_struct,
    check_text,
    check_value,
    decode_struct,
    read_struct,
    with_stated,
)
from slackwater.contract.document import Field, Spelling
from slackwater.contract.schema import (
    BOUND,
    EMPTY,
    HIDDEN,
    INLINE,
    LARGEST,
    UNIT,
    Count,
    Duration,
    Percentage,
    Permillage,
    ResourceName,
    SettingsStruct,
    Unit,
    annotation_of,
    describe_bound,
    describe_type,
)
from slackwater.model.problem import InvalidError, Problem, ProblemCode, quoted
from slackwater.model.units import Micros, Percent
from tests.unit.contract.documents import ANYTHING


class Word(enum.Enum):
    USAGE = "usage"
    REQUEST = "request"
    BOTH = "both"


def info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


SHARE = info(Annotated[Percentage, Meta(ge=1, le=100)])
COUNT = info(Annotated[Count, Meta(ge=2)])
DEADBAND = info(Annotated[Permillage, Meta(le=2)])
ANY = info(int)
PERIOD = info(Annotated[Duration, Meta(ge=100_000, le=60_000_000)])
WORD = info(Word)
SWITCH = info(bool)
TOLERANCE = info(Annotated[float, Meta(ge=1.0)])
IMPROVEMENT = info(Annotated[float, Meta(ge=0.0, le=100.0, extra={UNIT: Unit.PERCENT})])
NAME = info(ResourceName)
_BROKER = Annotated[str, Meta(pattern=r"^[a-z]+:[0-9]+\Z", extra={BOUND: "brokers such as a:1"})]
BROKERS = info(tuple[_BROKER, ...])
_HEADER = Annotated[str, Meta(pattern=r"^[A-Z-]+\Z", extra={BOUND: "a header's name"})]
_SECRET = Annotated[str, Meta(pattern=r"^[ -~]*\Z", extra={BOUND: "its value", HIDDEN: ""})]
HEADERS = info(Annotated[tuple[tuple[_HEADER, _SECRET], ...], Meta(max_length=2)])
PREFIX = info(Annotated[str, Meta(pattern=r"^[a-z-]*\Z", extra={BOUND: "a prefix", EMPTY: "none"})])
ADDRESS = info(Annotated[str, Meta(pattern=r"^[a-z]+\Z", extra={BOUND: "a host", HIDDEN: "@"})])


def taken(kind: inspect.Type, value: object) -> object:
    problems: list[Problem] = []
    found = check_value(Field("x", "", value), kind, problems)
    assert not problems
    return found


def said(kind: inspect.Type, value: object) -> str:
    problems: list[Problem] = []
    check_value(Field("x", "", value), kind, problems)
    return str(InvalidError(*problems))


def taken_text(kind: inspect.Type, text: str) -> object:
    problems: list[Problem] = []
    found = check_text(kind, text, "--x", problems)
    assert not problems
    return found


def said_of_text(kind: inspect.Type, text: str) -> str:
    problems: list[Problem] = []
    assert check_text(kind, text, "--x", problems) is msgspec.UNSET
    [problem] = problems
    return problem.sentence()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SHARE, 1),
        (SHARE, 100),
        (COUNT, 2),
        (COUNT, LARGEST),
        (DEADBAND, 2),
        (DEADBAND, -LARGEST),
        (ANY, 0),
    ],
)
def test_whole_numbers(kind: inspect.Type, value: int) -> None:
    assert taken(kind, value) == value
    assert taken_text(kind, str(value)) == value


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (SHARE, 0, "x is 0, but must be a whole number, 1 % to 100 %"),
        (SHARE, 101, "x is 101, but must be a whole number, 1 % to 100 %"),
        (SHARE, True, "x is true, but must be a whole number, 1 % to 100 %"),
        (SHARE, 80.0, "x is 80.0, but must be a whole number, 1 % to 100 %"),
        (SHARE, "80", "x is '80', but must be a whole number, 1 % to 100 %"),
        (SHARE, None, "x is missing, but must be a whole number, 1 % to 100 %"),
        (SHARE, [80], "x is a list, but must be a whole number, 1 % to 100 %"),
        (COUNT, 1, "x is 1, but must be a whole number, at least 2"),
        (COUNT, LARGEST + 1, f"x is {2**63}, but must be a whole number, 2 to {LARGEST}"),
        (
            DEADBAND,
            -LARGEST - 1,
            f"x is {-(2**63)}, but must be a whole number, -{LARGEST} ‰ to 2 ‰",
        ),
        (DEADBAND, 3, "x is 3, but must be a whole number, at most 2 ‰"),
        pytest.param(
            ANY,
            10**5000,
            "x is a number beyond 64 bits, but must be a whole number of 64 bits",
            id="5000 digits",
        ),
    ],
)
def test_refused_whole_numbers(kind: inspect.Type, value: object, sentence: str) -> None:
    assert said(kind, value) == sentence


@pytest.mark.parametrize("text", ["9" * 19, "9" * 40, "+" + "9" * 5000])
def test_a_number_beyond_64_bits_is_told_both_bounds(text: str) -> None:
    assert said_of_text(COUNT, text).endswith(f"but must be a whole number, 2 to {LARGEST}")


@pytest.mark.parametrize("text", ["", "x", "8 0", "80.0", "0x50", "1_0", "٣", "9" * 19, "80\n"])
def test_refused_texts_for_whole_numbers(text: str) -> None:
    assert said_of_text(SHARE, text).endswith("a whole number, 1 % to 100 %")


@pytest.mark.parametrize(
    ("value", "micros"), [("1s", 1_000_000), ("100ms", 100_000), ("1m", 60_000_000)]
)
def test_durations(value: str, micros: int) -> None:
    assert taken(PERIOD, value) == micros
    assert taken_text(PERIOD, value) == micros


@pytest.mark.parametrize("value", ["99ms", "61s", "1", 1, 1_000_000, 1.0, True, None, "", {}])
def test_refused_durations(value: object) -> None:
    told = said(PERIOD, value)
    assert told.endswith("but must be a duration such as 500ms, 1s or 1m30s, 100ms to 1m")


def test_a_refused_duration_of_a_flag() -> None:
    assert said_of_text(PERIOD, "1").startswith("--x is '1', but must be a duration")


@pytest.mark.parametrize(
    ("kind", "number", "shown"),
    [
        (SHARE, 80, "80 %"),
        (DEADBAND, 1, "1 ‰"),
        (COUNT, 5, "5"),
        (PERIOD, Micros(90_000_000), "1m30s"),
        (TOLERANCE, 1.5, "1.5"),
        (IMPROVEMENT, 10.0, "10 %"),
    ],
)
def test_numbers_are_shown_with_their_unit(kind: inspect.Type, number: float, shown: str) -> None:
    assert annotation_of(kind).show_number(number) == shown


@pytest.mark.parametrize("word", ["usage", "request", "both"])
def test_words(word: str) -> None:
    assert taken(WORD, word) == taken_text(WORD, word) == word


@pytest.mark.parametrize("value", ["Usage", "", "usage ", 1, None, True, ["usage"]])
def test_other_words(value: object) -> None:
    assert said(WORD, value).endswith("but must be one of usage, request, both")


@pytest.mark.parametrize("value", [True, False])
def test_switches(value: bool) -> None:
    assert taken(SWITCH, value) is value


@pytest.mark.parametrize("value", [1, 0, "true", "yes", None, []])
def test_refused_switches(value: object) -> None:
    assert said(SWITCH, value).endswith("but must be true or false")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("1", "t", "T", "true", "TRUE", "True")),
        *((text, False) for text in ("0", "f", "F", "false", "FALSE", "False")),
    ],
)
def test_switches_as_texts(text: str, value: bool) -> None:
    assert taken_text(SWITCH, text) is value


@pytest.mark.parametrize("text", ["", "yes", "tRUE", "on"])
def test_refused_texts_for_switches(text: str) -> None:
    assert said_of_text(SWITCH, text) == f"--x is '{text}', but must be true or false"


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1.0), ("1.0", 1.0), ("1.5", 1.5), ("+2.25", 2.25), ("1000000", 1e6), ("01.5", 1.5)],
)
def test_numbers_as_texts(text: str, number: float) -> None:
    assert taken_text(TOLERANCE, text) == number


@pytest.mark.parametrize(
    "text",
    ["", "0.99", "-1.5", "NaN", "nan", "inf", "-inf", "Infinity", "1e", "0x10", "1_000", " 2",
     "2 ", "1,5", "1.", ".5", "abc", "1.5x", "9" * 40, "١"],
)  # fmt: skip
def test_refused_texts_for_numbers(text: str) -> None:
    assert said_of_text(TOLERANCE, text) == f"--x is {text!r}, but must be a number, at least 1"


@pytest.mark.parametrize(("value", "number"), [(0, 0.0), (100, 100.0), (12.5, 12.5)])
def test_numbers(value: object, number: float) -> None:
    assert taken(IMPROVEMENT, value) == number


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), ("10", "'10'"), (None, "missing"), (-0.1, "-0.1"), (100.1, "100.1"),
     (math.nan, "nan"), (math.inf, "inf"), ([], "a list"), (10**400, "a number beyond 64 bits")],
)  # fmt: skip
def test_refused_numbers(value: object, shown: str) -> None:
    assert said(IMPROVEMENT, value) == f"x is {shown}, but must be a number, 0 % to 100 %"


@pytest.mark.parametrize(
    "value",
    [
        "kubernetes.io/batch-cpu",
        "gocrane.io/cpu",
        "example/x",
        "a.b-c.d0/Some_Name.1",
        f"{'a' * 253}/x",
        f"a/{'x' * 63}",
    ],
)
def test_resource_names(value: str) -> None:
    assert taken(NAME, value) == taken_text(NAME, value) == value


@pytest.mark.parametrize(
    "value",
    ["cpu", "", "/", "/cpu", "example.com/", "a/b/c", "Example.com/cpu", "example..com/cpu",
     "-a/cpu", "a/-cpu", "a/cpu ", "a/cpu\n", "a/ü", 5, True, None, ["a/b"]],
)  # fmt: skip
def test_refused_resource_names(value: object) -> None:
    bound = "a domain, a slash and a name, such as example.com/batch-cpu"
    assert said(NAME, value) == f"x is {quoted(value)}, but must be {bound}"


@pytest.mark.parametrize("value", [f"{'a' * 254}/x", f"a/{'x' * 64}"])
def test_resource_names_that_are_too_long(value: str) -> None:
    assert ", but must be a domain, a slash" in said_of_text(NAME, value)


@pytest.mark.parametrize(("text", "read"), [("none", ""), ("", ""), ("x-", "x-")])
def test_a_word_for_the_empty_text(text: str, read: str) -> None:
    assert taken(PREFIX, text) == taken_text(PREFIX, text) == read


def test_a_text_that_may_hold_a_secret_is_not_shown() -> None:
    assert said(ADDRESS, "me:secret@host") == "x is a text that is not shown, but must be a host"
    assert said(ADDRESS, "HOST") == "x is 'HOST', but must be a host"


@pytest.mark.parametrize(
    ("text", "found"), [("", []), ("a:1", ["a:1"]), ("a:1, b:2", ["a:1", "b:2"])]
)
def test_lists(text: str, found: list[str]) -> None:
    assert taken(BROKERS, found) == taken_text(BROKERS, text) == found


@pytest.mark.parametrize("text", ["a", "a:1,", ",a:1", "a:1,,b:2", "a:1;b:2"])
def test_refused_lists_as_texts(text: str) -> None:
    bound = "a list of brokers such as a:1, with commas"
    assert said_of_text(BROKERS, text) == f"--x is {text!r}, but must be {bound}"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("a:1", "x is 'a:1', but must be a list of brokers such as a:1"),
        (["a:1", 2], "x: [1] is 2, but must be brokers such as a:1"),
        (["a"], "x: [0] is 'a', but must be brokers such as a:1"),
    ],
)
def test_refused_lists(value: object, sentence: str) -> None:
    assert said(BROKERS, value) == sentence


def test_pairs() -> None:
    found = (("X-A", "1"), ("X-B", "a=b"))
    assert taken(HEADERS, dict(found)) == taken_text(HEADERS, "X-A=1, X-B=a=b") == found
    assert taken_text(HEADERS, "") == taken(HEADERS, {}) == ()
    assert taken_text(HEADERS, "X-A=1,X-A=2") == (("X-A", "1"), ("X-A", "2"))


@pytest.mark.parametrize("text", ["X-A", "=secret", "X A=secret", "X-A=secret,", "X-A=se\ncret"])
def test_refused_pairs_as_texts_keep_their_secret(text: str) -> None:
    assert said_of_text(HEADERS, text) == (
        "--x is a text that is not shown, but must be at most 2 pairs of a header's name and its "
        "value, as NAME=VALUE with commas between them"
    )


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "x is a list, but must be a mapping, at most 2 pairs of a header's name and its"),
        ({"x a": "1"}, "a key of x is 'x a', but must be a header's name"),
        ({"X": 1}, "x: X is a value that is not shown, but must be its value"),
        ({"X": "se\ncret"}, "x: X is a text that is not shown, but must be its value"),
        ({"A": "", "B": "", "C": ""}, "x is 3 pairs, but must be at most 2 pairs of a header's"),
    ],
)
def test_refused_pairs(value: object, sentence: str) -> None:
    assert said(HEADERS, value).startswith(sentence)


def test_a_pair_too_many_as_a_text() -> None:
    assert said_of_text(HEADERS, "A=1,B=2,C=3").startswith("--x is 3 pairs, but must be at most 2")


@given(
    st.sampled_from(
        [SHARE, COUNT, DEADBAND, ANY, PERIOD, WORD, SWITCH, TOLERANCE, NAME, BROKERS, HEADERS]
    ),
    ANYTHING,
)
def test_whatever_is_refused_is_one_short_line(kind: inspect.Type, value: object) -> None:
    problems: list[Problem] = []
    found = check_value(Field("x", "", value), kind, problems)
    assert all(len(each.sentence()) < 250 for each in problems)
    assert all("\n" not in each.sentence() for each in problems)
    if found is msgspec.UNSET:
        assert problems


@given(st.sampled_from([SHARE, PERIOD, SWITCH, BROKERS, HEADERS, PREFIX]), st.text(max_size=80))
def test_any_text_is_taken_or_refused_in_one_line(kind: inspect.Type, text: str) -> None:
    problems: list[Problem] = []
    if check_text(kind, text, "--x", problems) is msgspec.UNSET:
        assert "\n" not in str(InvalidError(*problems))
    else:
        assert not problems


class Inner(SettingsStruct, frozen=True):
    """Its keys stand in Outer's mapping."""

    top_k: Annotated[Count, Meta(ge=1)] = 2
    age: Annotated[Duration, Meta(ge=0)] | None = None


class Outer(SettingsStruct, frozen=True):
    share: Annotated[Percentage, Meta(ge=1, le=100)] = Percent(80)
    word: Word = Word.USAGE
    inner: Annotated[Inner, Meta(extra={INLINE: True})] = Inner()
    headers: tuple[tuple[str, str], ...] = ()

    def conflicts(self) -> Iterator[Problem]:
        if self.share == self.inner.top_k:
            yield Problem("share", quoted(self.share), "another number than topK")


AT = Field("s.yaml", "spec", {})


def stated(value: object) -> dict[str, Any]:
    problems: list[Problem] = []
    found = check_struct(Field("s.yaml", "spec", value), Outer, problems)
    assert not problems
    return found


def test_what_is_not_stated_keeps_what_the_base_says() -> None:
    base = Outer(Percent(50), Word.BOTH, Inner(5))
    assert with_stated(base, AT, stated({"share": None})) == base
    found = with_stated(base, AT, stated({"age": "1s", "headers": {"A": "b"}}))
    assert found == Outer(
        Percent(50), Word.BOTH, Inner(5, Micros(1_000_000)), headers=(("A", "b"),)
    )


def test_the_later_overrules_the_earlier() -> None:
    found = with_stated(Outer(), AT, stated({"topK": 3, "share": 1}), stated({"topK": 4}))
    assert found == Outer(Percent(1), inner=Inner(4))


def test_unknown_keys_and_everything_else_that_is_wrong_are_told_at_once() -> None:
    with pytest.raises(InvalidError) as caught:
        read_struct(Field("s.yaml", "spec", {"shar": 1, "topK": 0, "word": "x", "age": 5}), Outer)
    assert [each.code for each in caught.value.problems] == [
        ProblemCode.UNKNOWN_KEY, ProblemCode.INVALID, ProblemCode.INVALID, ProblemCode.INVALID
    ]  # fmt: skip
    assert [each.sentence().partition(", but")[0] for each in caught.value.problems] == [
        "a key of s.yaml: spec is 'shar'",
        "s.yaml: spec.word is 'x'",
        "s.yaml: spec.topK is 0",
        "s.yaml: spec.age is 5",
    ]
    assert "must be one of share, word, topK, age, headers" in str(caught.value)


def test_values_that_are_at_odds_with_each_other() -> None:
    with pytest.raises(InvalidError, match=r"^s\.yaml: spec\.share is 2, but must be another"):
        read_struct(Field("s.yaml", "spec", {"share": 2}), Outer)


@pytest.mark.parametrize(
    ("kind", "bound", "described"),
    [
        (SHARE, "1 % to 100 %", "a whole number, 1 % to 100 %"),
        (COUNT, "at least 2", "a whole number, at least 2"),
        (WORD, "usage, request or both", "one of usage, request, both"),
        (SWITCH, "true or false", "true or false"),
        (BROKERS, "a list of brokers such as a:1", "a list of brokers such as a:1"),
        (PREFIX, "a prefix", "a prefix"),
        (info(Inner), None, "a mapping"),
        (info(dict[str, int]), None, "a mapping"),
    ],
)
def test_descriptions(kind: inspect.Type, bound: str | None, described: str) -> None:
    assert describe_type(kind) == described
    if bound is not None:
        assert describe_bound(kind) == bound


class Spelled(msgspec.Struct, frozen=True):
    hold_for: int = 0


@pytest.mark.parametrize(
    ("document", "spelling", "expected"),
    [
        ({"holdfor": 1}, Spelling.EXACT, 0),
        ({"holdfor": 1}, Spelling.ANY_CASE, 1),
        ({5: 5, "holdfor": 1, "holdFor": 2}, Spelling.ANY_CASE, 2),
    ],
)
def test_spellings_of_a_key(document: object, spelling: Spelling, expected: int) -> None:
    assert read_struct(Field("x", "", document, spelling), Spelled).hold_for == expected


@pytest.mark.parametrize(
    "content",
    [
        b'{"holdFor": "x"',
        b'{"hold_for": "x", "b": "\xff"}',
        b'{"hold_for": "x", "b": ' + b"[" * 5000,
    ],
)
def test_json_that_breaks_behind_a_wrong_value(content: bytes) -> None:
    with pytest.raises(InvalidError, match=r"^a file is .* but must be JSON"):
        decode_struct(content, Spelled, "a file")


def test_a_problem_names_the_key_as_it_is_written() -> None:
    with pytest.raises(InvalidError, match=r"^x: HOLDFOR is true, but must be a whole number$"):
        read_struct(Field("x", "", {"HOLDFOR": True}, Spelling.ANY_CASE), Spelled)
