"""The picture in the terminal: where the characters stand."""

import pytest
from rich.text import Text

from slackwater.cli.rebalance_simulate_band import (
    LEGEND,
    MARGIN,
    Column,
    axis,
    band,
    columns_of,
    places,
    scale_of,
    ticks,
)
from slackwater.rebalancer.whatif.simulate_day import LoadSummary
from slackwater.rebalancer.whatif.simulation_report import Line, SimulationReport
from tests.unit.rebalancer.days import SIX, day_with, generated_day, reported

EVEN = dict.fromkeys("abcd", 0.5)
ROWS = 8
GENERATED = reported(generated_day())


def without(line: Line) -> LoadSummary:
    return line.without


def rotated(line: Line) -> LoadSummary:
    return line.rotated


def drawn(report: SimulationReport, width: int = 40) -> list[str]:
    return [row.plain[MARGIN:] for row in band(report, without, width)]


def margins(report: SimulationReport) -> list[str]:
    return [row.plain[:MARGIN].strip() for row in band(report, without, 40)]


def test_a_column_for_each_step_where_there_is_room() -> None:
    report = reported(day_with([SIX] * 5))
    assert places(report, 40) == [0, 1, 2, 3, 4]
    assert [len(row) for row in drawn(report)] == [5] * ROWS


def test_steps_share_columns_where_there_is_none() -> None:
    report = GENERATED
    found = places(report, 96)
    assert found == [n // 3 for n in range(288)]
    assert {len(row) for row in drawn(report, 96)} == {96}
    assert max(places(report, 50)) == 49


def test_a_column_is_the_highest_of_the_hottest_and_the_average_of_the_mean() -> None:
    report = reported(day_with([EVEN, {**EVEN, "a": 0.9}]))
    (column,) = columns_of(report, without, 1)
    assert column == Column(0.9, pytest.approx(0.55), pytest.approx(1.05))  # type: ignore[arg-type]


def test_both_bands_have_one_scale() -> None:
    report = GENERATED
    assert scale_of(report) == max(line.without.hottest for line in report.steps)
    quiet = reported(day_with([EVEN]))
    assert scale_of(quiet) == pytest.approx(1.05), "the threshold is always to be seen"


def test_mean_hottest_and_what_is_above() -> None:
    """Rows of 0.15: mean 0.733 fills five by their middles, 1.05 is the lower edge of row 8."""
    report = reported(day_with([SIX]))
    assert [row.strip() for row in drawn(report)] == ["▓", "░", "░", "█", "█", "█", "█", "█"]


def test_the_threshold_shows_where_nothing_else_is() -> None:
    report = reported(day_with([{**EVEN, "a": 2.1}, EVEN]))
    rows = drawn(report)
    assert [row[0] for row in rows] == ["▓", "▓", "▓", "▓", "░", "█", "█", "█"]
    assert [row[1] for row in rows] == [" ", " ", " ", "┄", " ", " ", "█", "█"]


def test_the_margin_has_the_scale_and_the_threshold() -> None:
    assert margins(reported(day_with([{**EVEN, "a": 2.1}]))) == ["2.10", "", "", "1.05", *[""] * 4]
    assert margins(reported(day_with([EVEN])))[0] == "1.05"


def test_what_was_not_recorded_is_blank() -> None:
    report = reported(day_with([SIX, {}, {}, SIX]))
    assert columns_of(report, without, 40)[1:3] == [None, None]
    assert [row[1:3] for row in drawn(report)] == ["  "] * ROWS


def test_with_rotation_nothing_is_above_any_more() -> None:
    report = reported(day_with([SIX] * 3))
    rows = [row.plain[MARGIN:] for row in band(report, rotated, 40)]
    assert rows[0][0] == "▓"
    assert "▓" not in "".join(row[1:] for row in rows)


@pytest.mark.parametrize(
    ("steps", "width", "marks"),
    [
        ([SIX] * 4, 40, "▲   "),
        ([EVEN] * 4, 40, "    "),
        ([dict.fromkeys("abcdef", 0.5), *[SIX] * 3], 2, "▲ "),
        ([dict.fromkeys("abcdef", 0.5), dict.fromkeys("abcdef", 0.5), SIX, SIX], 2, " ▲"),
    ],
)
def test_ticks_where_it_rotated(steps: list[dict[str, float]], width: int, marks: str) -> None:
    assert ticks(reported(day_with(steps)), width).plain == " " * MARGIN + marks


def test_the_axis_ends_with_the_last_column() -> None:
    report = GENERATED
    text = axis(report, 96).plain
    assert text.strip().split() == ["0:00", "24:00"]
    assert len(text) == MARGIN + 96
    short = axis(reported(day_with([SIX])), 96).plain
    assert short.strip() == "0:00 0:05", "never on each other"


def test_idle_pods_are_a_band_all_the_same() -> None:
    rows = drawn(reported(day_with([dict.fromkeys("ab", 0.0)] * 3)))
    assert rows == ["┄┄┄", *["   "] * (ROWS - 1)]


def test_every_sign_is_in_the_legend_and_has_a_colour() -> None:
    signs = {cell for row in drawn(GENERATED) for cell in row} - {" "}
    assert signs == set("█░▓┄")
    for sign in (*signs, "▲"):
        assert sign in "".join(LEGEND)
    row = band(GENERATED, without, 40)[-1]
    assert isinstance(row, Text)
    assert {span.style for span in row.spans} == {"blue"}
