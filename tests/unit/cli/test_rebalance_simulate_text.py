"""The what-if for people: what stands where, at any width."""

import msgspec
import pytest
from rich.console import Console
from rich.text import Text

from slackwater.cli.rebalance_simulate import (
    LEGEND,
    MARGIN,
    BandColumn,
    RotationList,
    axis,
    band,
    blocks,
    columns_of,
    places,
    scale_of,
    ticks,
)
from slackwater.rebalancer.whatif.simulate_day import LoadSummary, SimulatedStep
from slackwater.rebalancer.whatif.simulation_report import SimulationReport, conclusions
from tests.unit.rebalancer.whatif.days import SIX, day_with, generated_day, reported

EVEN = dict.fromkeys("abcd", 0.5)
STICKY = reported(generated_day(skew=1.0), stickiness=0.9)


def text_of(
    report: SimulationReport, width: int = 110, listed: RotationList = RotationList.SOME
) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for block in blocks(report, width - MARGIN, listed):
            console.print(block)
    return capture.get()


def lines_of(report: SimulationReport) -> list[str]:
    return [line.rstrip() for line in text_of(report).splitlines()]


def words_of(report: SimulationReport) -> str:
    return " ".join(text_of(report).split())


@pytest.mark.parametrize(
    ("report", "headline"),
    [
        (
            reported(day_with([SIX] * 3)),
            (
                "A generated day (seed 0): 6 pods, 3 steps of 5m; HPA target 70 %, tolerance 1.5, "
                "stickiness 0"
            ),
        ),
        (
            reported(day_with([SIX, {}, {}, SIX]), recording="day.csv"),
            "day.csv: 6 pods, 2 steps of 5m, 2 more without a sample; HPA target 70 %",
        ),
        (
            reported(day_with([SIX], start=1_763_251_200.0), 0.5, recording="day.csv"),
            (
                "day.csv: 6 pods, 1 step of 5m since 2025-11-16T00:00:00Z; HPA target 70 %, "
                "tolerance 1.5, stickiness 0.5"
            ),
        ),
    ],
    ids=["generated", "with holes", "with a date"],
)
def test_the_headline(report: SimulationReport, headline: str) -> None:
    assert words_of(report).startswith(headline)


def test_two_bands_a_legend_two_tables_and_sentences_in_this_order() -> None:
    report = reported(day_with([SIX] * 3))
    text = words_of(report)
    parts = ["without rotation, in cores", "with rotation", "0:00", *LEGEND, "ROTATION SKEW",
             "TIME HOT", "Steps without a rotation:", conclusions(report)[0]]  # fmt: skip
    found = [text.index(" ".join(part.split())) for part in parts]
    assert found == sorted(found)


def test_the_sides() -> None:
    lines = lines_of(reported(day_with([SIX] * 3)))
    assert "without   1.64   1.64  33.3 %         1.8              7" in lines
    assert "with      1.27   1.64  11.1 %         1.8              7" in lines


def test_the_rotations() -> None:
    lines = lines_of(reported(day_with([SIX] * 3)))
    (row,) = [line for line in lines if line.startswith("0:00  1.15")]
    assert row.split()[:7] == ["0:00", "1.15", "0.75", "34.8", "%", "32.6", "%"]
    for pod in "abef":
        assert pod in row.partition("32.6 %")[2]


def test_what_was_not_judged_is_a_dash() -> None:
    lines = lines_of(reported(day_with([SIX])))
    (row,) = [line for line in lines if line.startswith("0:00  1.15")]
    assert row.split()[3:6] == ["34.8", "%", "-"]


def test_times_count_from_the_beginning() -> None:
    quiet = dict.fromkeys("abcdef", 0.5)
    report = reported(day_with([*[quiet] * 14, SIX, SIX], start=1.7e9))
    assert any(line.startswith("1:10  1.15") for line in lines_of(report))


def test_without_rotations_there_is_no_table_of_them() -> None:
    text = words_of(reported(day_with([EVEN] * 3)))
    assert "TIME HOT" not in text
    assert "Steps without a rotation: no_pods_above_tolerance 3" in text
    assert text.endswith("It would never have rotated; the usual reason: no pods above tolerance.")


def test_where_every_step_rotated_no_reason_is_told() -> None:
    assert "Steps without" not in words_of(reported(day_with([SIX])))


def test_idle_pods_have_no_skew() -> None:
    text = words_of(reported(day_with([dict.fromkeys("ab", 0.0)])))
    assert "without - - 0.0 %" in text


def test_a_few_rotations_are_listed_and_wide_lists_all() -> None:
    rotation = STICKY.rotations[0]
    many = msgspec.structs.replace(STICKY, rotations=(rotation,) * 20)
    usual, wide = text_of(many), text_of(many, listed=RotationList.ALL)
    assert "and 12 more: -o wide shows all" in usual
    assert usual.count(f"{rotation.average:.2f}  ") < wide.count(f"{rotation.average:.2f}  ")
    assert "more: -o wide" not in wide


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    for line in text_of(STICKY, width).splitlines():
        assert len(line.rstrip()) <= width


@pytest.mark.parametrize(("width", "lines"), [(60, 2), (80, 1), (110, 1)])
def test_the_legend_breaks_between_its_signs(width: int, lines: int) -> None:
    shown = [line.rstrip() for line in text_of(STICKY, width).splitlines()]
    first = next(n for n, line in enumerate(shown) if line.startswith(LEGEND[0]))
    legend = shown[first : first + lines]
    assert [part for line in legend for part in line.split("  ")] == list(LEGEND)
    assert shown[first + lines] == ""


def test_reasons_are_told_with_their_words() -> None:
    text = words_of(STICKY)
    assert f"cooldown {STICKY.skipped['cooldown']}" in text


EVEN_DAY = dict.fromkeys("abcd", 0.5)
ROWS = 8
GENERATED = reported(generated_day())


def without(line: SimulatedStep) -> LoadSummary:
    return line.without


def rotated(line: SimulatedStep) -> LoadSummary:
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
    report = reported(day_with([EVEN_DAY, {**EVEN_DAY, "a": 0.9}]))
    (column,) = columns_of(report, without, 1)
    assert column == BandColumn(0.9, pytest.approx(0.55), pytest.approx(1.05))  # type: ignore[arg-type]


def test_both_bands_have_one_scale() -> None:
    report = GENERATED
    assert scale_of(report) == max(line.without.hottest for line in report.steps)
    quiet = reported(day_with([EVEN_DAY]))
    assert scale_of(quiet) == pytest.approx(1.05), "the threshold is always to be seen"


def test_mean_hottest_and_what_is_above() -> None:
    """Rows of 0.15: mean 0.733 fills five by their middles, 1.05 is the lower edge of row 8."""
    report = reported(day_with([SIX]))
    assert [row.strip() for row in drawn(report)] == ["▓", "░", "░", "█", "█", "█", "█", "█"]


def test_the_threshold_shows_where_nothing_else_is() -> None:
    report = reported(day_with([{**EVEN_DAY, "a": 2.1}, EVEN_DAY]))
    rows = drawn(report)
    assert [row[0] for row in rows] == ["▓", "▓", "▓", "▓", "░", "█", "█", "█"]
    assert [row[1] for row in rows] == [" ", " ", " ", "┄", " ", " ", "█", "█"]


def test_the_margin_has_the_scale_and_the_threshold() -> None:
    assert margins(reported(day_with([{**EVEN_DAY, "a": 2.1}]))) == [
        "2.10",
        "",
        "",
        "1.05",
        *[""] * 4,
    ]
    assert margins(reported(day_with([EVEN_DAY])))[0] == "1.05"


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
        ([EVEN_DAY] * 4, 40, "    "),
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
