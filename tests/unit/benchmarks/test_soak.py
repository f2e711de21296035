"""What the soak makes of its samples: the growth that it names, and when it fails."""

import argparse
import math

import pytest

from benchmarks import soak
from benchmarks.soak import (
    BAR_JOURNAL,
    BAR_LEDGER,
    DAY,
    HOUR,
    Sample,
    SoakResult,
    growth_of,
    result_of,
    seconds_in,
)


def sample(hour: int, resident: float = 40.0, **more: int) -> Sample:
    return Sample(hour * HOUR, resident, **{"descriptors": 90, "ledger": 40_000, **more})


def test_growth_is_by_the_line_through_the_samples() -> None:
    steady = [sample(hour) for hour in range(25)]
    assert growth_of(steady) == 0
    assert growth_of([sample(hour, 40 + hour / 24) for hour in range(49)]) == pytest.approx(1.0)
    assert growth_of([sample(hour, 40 - hour / 12) for hour in range(49)]) == pytest.approx(-2.0)


def test_one_peak_is_no_growth() -> None:
    listed = [sample(hour, 45.0 if hour == 20 else 40.0) for hour in range(168)]
    assert abs(growth_of(listed)) < 0.05


@pytest.mark.parametrize("count", [0, 1])
def test_without_samples_nothing_is_held(count: int) -> None:
    assert growth_of([sample(1)] * count) == math.inf
    assert not result_of([sample(1)] * count, 0).held()


def test_the_warm_up_does_not_count() -> None:
    early = [sample(1, 10.0, descriptors=5, ledger=10**9), sample(2, 20.0, descriptors=6)]
    found = result_of([*early, *(sample(hour) for hour in range(3, 30))], 3 * HOUR)
    assert found == SoakResult(29 * HOUR, 0.0, 0, 40_000, 0)
    assert found.held()


@pytest.mark.parametrize(
    ("last", "held"),
    [
        (sample(26), True),
        (sample(26, 41.0), True),
        (sample(26, 60.0), False),
        (sample(26, descriptors=91), False),
        (sample(26, descriptors=89), True),
        (sample(26, ledger=BAR_LEDGER), True),
        (sample(26, ledger=BAR_LEDGER + 1), False),
        (sample(26, journal=BAR_JOURNAL), True),
        (sample(26, journal=BAR_JOURNAL + 1), False),
    ],
)
def test_each_bar(last: Sample, held: bool) -> None:
    found = result_of([*(sample(hour) for hour in range(26)), last], 0)
    assert found.held() is held
    assert found.line().endswith("held" if held else "MISSED")


def test_the_line_has_every_figure_and_its_bar() -> None:
    line = SoakResult(7 * DAY, 0.25, 0, 50 << 10, 57).line()
    assert line == (
        "soak: 7.00 days, a pod a second: RSS +0.25 MiB a day (at most 1), descriptors +0 "
        "(at most +0), ledger 50 KiB (at most 192), journal 57 ticks (at most 60): held"
    )


@pytest.mark.parametrize(("text", "seconds"), [("1800s", 1800), ("30m", 1800), ("2h", 7200)])
def test_durations(text: str, seconds: int) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "90s", "29m", "2", "h", "-2h", "1.5h", "2d", "2h "])
def test_no_durations(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration of half an hour or more"):
        seconds_in(text)


@pytest.mark.parametrize("text", ["0", "0.25", "-1", "nan", "x", "366"])
def test_no_days(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no number of days"):
        soak._days(text)
