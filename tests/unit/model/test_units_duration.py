"""Durations: Go's spelling, exact, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.units import DurationError, Micros, format_duration, parse_duration

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1s", 1_000_000),
        ("500ms", 500_000),
        ("1m", 60_000_000),
        ("1h", 3_600_000_000),
        ("1m30s", 90_000_000),
        ("250us", 250),
        ("0s", 0),
        ("1.5s", 1_500_000),
        ("0.5ms", 500),
        ("0.000001s", 1),
        ("1h0m0.001s", 3_600_001_000),
        ("30s1m", 90_000_000),
        ("007s", 7_000_000),
        (".5s", 500_000),
        ("1.s", 1_000_000),
        ("1.5h", 5_400_000_000),
        ("5m0s", 300_000_000),
        ("2000ns", 2),
        ("7\u00b5s", 7),
        ("7\u03bcs", 7),
        ("1h2m3s4ms5us6000ns", 3_723_004_011),
    ],
)
def test_durations(text: str, micros: int) -> None:
    assert parse_duration(text, "x") == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "s",
        "1 s",
        " 1s",
        "1s ",
        "1s\n",
        "-1s",
        "+1s",
        "1d",
        "1S",
        ".s",
        "5.5.5s",
        "1500ns",
        "1ss",
        "1e3s",
        "0.5us",
        "0.0000001s",
        "١s",
        "1s" * 40,
        "9" * 13 + "s",
        "inf",
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text, "--period")
    sentence = str(caught.value)
    assert sentence.startswith("--period is '")
    assert sentence.endswith("but must be a duration such as 500ms, 1s or 1m30s")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0s"),
        (1, "1us"),
        (1_000, "1ms"),
        (1_500, "1ms500us"),
        (1_000_000, "1s"),
        (60_000_000, "1m"),
        (90_000_000, "1m30s"),
        (DAY, "24h"),
    ],
)
def test_format(micros: int, text: str) -> None:
    assert format_duration(Micros(micros)) == text


@given(st.integers(0, 100 * DAY).map(Micros))
def test_what_is_formatted_parses_back(duration: Micros) -> None:
    assert parse_duration(format_duration(duration), "x") == duration


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        assert parse_duration(text, "x") >= 0
    except DurationError as error:
        assert len(str(error)) < 200
