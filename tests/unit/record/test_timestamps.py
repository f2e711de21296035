"""How long ago, for people."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.record.timestamps import describe_age, format_timedelta, parse_timestamp, time_since

NOW = dt.datetime(2026, 11, 17, 10, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5, "0 s"), (0, "0 s"), (0.9, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"),
        (3600, "1 h"), (86_399, "23 h"), (86_400, "1 d"), (10 * 86_400, "10 d"),
    ],
)  # fmt: skip
def test_spans(seconds: float, told: str) -> None:
    assert format_timedelta(dt.timedelta(seconds=seconds)) == told


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2026-11-17T09:59:30Z", 30),
        ("2026-11-17T09:59:30.5Z", 29.5),
        ("2026-11-17T11:59:30+02:00", 30),
        ("2026-11-17T09:59:30", 30),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_ages(stamp: str | None, seconds: float | None) -> None:
    found = time_since(stamp, NOW)
    assert (None if found is None else found.total_seconds()) == seconds


def test_what_is_no_time_lasted_an_unknown_time() -> None:
    assert describe_age("soon", NOW) == "an unknown time"
    assert describe_age("2026-11-17T09:00:00Z", NOW) == "1 h"


@given(st.text(max_size=30))
def test_no_text_is_an_exception(text: str) -> None:
    found = parse_timestamp(text)
    assert found is None or found.tzinfo is not None
