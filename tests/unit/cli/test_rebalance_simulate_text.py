"""The what-if for people: what stands where, at any width."""

import msgspec
import pytest
from rich.console import Console

from slackwater.cli.rebalance_simulate_band import LEGEND, MARGIN
from slackwater.cli.rebalance_simulate_text import Detail, blocks
from slackwater.rebalancer.whatif.simulation_report import SimulationReport, conclusions
from tests.unit.rebalancer.days import SIX, day_with, generated_day, reported

EVEN = dict.fromkeys("abcd", 0.5)
STICKY = reported(generated_day(skew=1.0), stickiness=0.9)


def text_of(report: SimulationReport, width: int = 110, detail: Detail = Detail.USUAL) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for block in blocks(report, width - MARGIN, detail):
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
    usual, wide = text_of(many), text_of(many, detail=Detail.WIDE)
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
