"""Bounds, choices and flags: what is let in, and the one sentence about what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.settings.bound import LARGEST, Bound, Unit, check, check_text
from slackwater.settings.choice import Choice, Flag, check_flag, check_flag_text, choose

SHARE = Bound("a.share", 80, 1, 100, Unit.PERCENT, "A part.")
COUNT = Bound("a.count", 5, 2, None, Unit.COUNT, "A number.")
DEADBAND = Bound("a.band", 1, None, 2, Unit.PERMILLE, "A band.")
ANY = Bound("a.any", 1, None, None, Unit.COUNT, "Anything.")
PERIOD = Bound("a.period", 1_000_000, 100_000, 60_000_000, Unit.DURATION, "A time.")
WORD = Choice("a.word", "usage", ("usage", "request", "both"), "A word.")
SWITCH = Flag("a.switch", False, "On or off.")

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("bound", "value"),
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
def test_inside(bound: Bound, value: int) -> None:
    assert check(bound, value, "x") == value
    assert check_text(bound, str(value), "x") == value


@pytest.mark.parametrize(
    ("bound", "value", "sentence"),
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
            "x is a number beyond 64 bits, but must be a whole number, any of 64 bits",
            id="5000 digits",
        ),
    ],
)
def test_outside(bound: Bound, value: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check(bound, value, "x")
    assert str(caught.value) == sentence
    assert caught.value.problems[0].where == "x"


@pytest.mark.parametrize("text", ["9" * 19, "9" * 40, "+" + "9" * 5000])
def test_a_number_beyond_64_bits_is_told_both_bounds(text: str) -> None:
    with pytest.raises(InvalidError, match=f"but must be a whole number, 2 to {LARGEST}$"):
        check_text(COUNT, text, "--count")


@pytest.mark.parametrize("text", ["", "x", "8 0", "80.0", "0x50", "1_0", "٣", "9" * 19, "80\n"])
def test_flag_texts_that_are_no_numbers(text: str) -> None:
    with pytest.raises(InvalidError, match="a whole number, 1 % to 100 %"):
        check_text(SHARE, text, "--share")


@pytest.mark.parametrize(
    ("value", "micros"), [("1s", 1_000_000), ("100ms", 100_000), ("1m", 60_000_000)]
)
def test_durations_inside(value: str, micros: int) -> None:
    assert check(PERIOD, value, "x") == micros
    assert check_text(PERIOD, value, "x") == micros


@pytest.mark.parametrize("value", ["99ms", "61s", "1", 1, 1_000_000, 1.0, True, None, "", {}])
def test_durations_outside(value: object) -> None:
    with pytest.raises(InvalidError) as caught:
        check(PERIOD, value, "s.yaml: a.period")
    assert str(caught.value).endswith(
        "but must be a duration such as 500ms, 1s or 1m30s, 100ms to 1m"
    )


def test_a_duration_flag_that_is_none() -> None:
    with pytest.raises(InvalidError, match=r"--period is '1', but must be a duration"):
        check_text(PERIOD, "1", "--period")


@pytest.mark.parametrize(
    ("bound", "number", "shown", "written"),
    [
        (SHARE, 80, "80 %", 80),
        (DEADBAND, 1, "1 ‰", 1),
        (COUNT, 5, "5", 5),
        (PERIOD, Micros(90_000_000), "1m30s", "1m30s"),
    ],
)
def test_shown_and_written(bound: Bound, number: int, shown: str, written: object) -> None:
    assert bound.shown(number) == shown
    assert bound.written(number) == written


@given(st.sampled_from([SHARE, COUNT, DEADBAND, ANY, PERIOD]), ANYTHING)
def test_only_whole_numbers_inside_come_through(bound: Bound, value: object) -> None:
    try:
        assert bound.holds(check(bound, value, "x"))
    except InvalidError as error:
        assert len(str(error)) < 250
        assert "\n" not in str(error)


@pytest.mark.parametrize("word", ["usage", "request", "both"])
def test_words(word: str) -> None:
    assert choose(WORD, word, "x") == word


@pytest.mark.parametrize("value", ["Usage", "", "usage ", 1, None, True, ["usage"]])
def test_other_words(value: object) -> None:
    with pytest.raises(InvalidError, match="but must be usage, request or both"):
        choose(WORD, value, "x")


@pytest.mark.parametrize("value", [True, False])
def test_flags(value: bool) -> None:
    assert check_flag(SWITCH, value, "x") is value


@pytest.mark.parametrize("value", [1, 0, "true", "yes", None, []])
def test_no_flags(value: object) -> None:
    with pytest.raises(InvalidError, match="but must be true or false"):
        check_flag(SWITCH, value, "x")


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("false", False), ("0", False)]
)
def test_flag_texts(text: str, value: bool) -> None:
    assert check_flag_text(SWITCH, text, "x") is value


@pytest.mark.parametrize("text", ["", "yes", "TRUE", "on"])
def test_other_flag_texts(text: str) -> None:
    with pytest.raises(InvalidError, match="but must be true or false"):
        check_flag_text(SWITCH, text, "SLACKWATER_SWITCH")
