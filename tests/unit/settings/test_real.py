"""Numbers with a fraction: inside their bound, finite, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.settings.real import Real, check_real, check_real_text

TOLERANCE = Real("tolerance", 1.5, 1.0, None, "Prose.")
MINIMUM = Real("minimumImprovement", 10.0, 0.0, 100.0, "Prose.", unit=" %")


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1.0), ("1.0", 1.0), ("1.5", 1.5), ("+2.25", 2.25), ("1000000", 1e6), ("01.5", 1.5)],
)
def test_texts(text: str, number: float) -> None:
    assert check_real_text(TOLERANCE, text, "--tolerance") == number


@pytest.mark.parametrize(
    "text",
    ["", "0.99", "-1.5", "NaN", "nan", "inf", "-inf", "Infinity", "1e3", "0x10", "1_000", " 2",
     "2 ", "1,5", "1.", ".5", "abc", "1.5x", "9" * 40, "١"],
)  # fmt: skip
def test_refused_texts_are_one_sentence_with_the_bound(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_real_text(TOLERANCE, text, "TOLERANCE_MULTIPLIER")
    assert str(caught.value).startswith(f"TOLERANCE_MULTIPLIER is {text!r}")
    assert str(caught.value).endswith(", but must be a number, at least 1")


@pytest.mark.parametrize(("value", "number"), [(0, 0.0), (100, 100.0), (12.5, 12.5)])
def test_values_of_a_file(value: object, number: float) -> None:
    assert check_real(MINIMUM, value, "x") == number


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), ("10", "'10'"), (None, "missing"), (-0.1, "-0.1"), (100.1, "100.1"),
     (math.nan, "nan"), (math.inf, "inf"), ([], "a list"), (10**400, "a number beyond 64 bits")],
)  # fmt: skip
def test_refused_values(value: object, shown: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_real(MINIMUM, value, "f.yaml: spec.x")
    expected = f"f.yaml: spec.x is {shown}, but must be a number, 0 % to 100 %"
    assert str(caught.value) == expected


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_what_passes_is_inside(number: float) -> None:
    try:
        assert 0 <= check_real(MINIMUM, number, "x") <= 100
    except InvalidError:
        assert not 0 <= number <= 100
