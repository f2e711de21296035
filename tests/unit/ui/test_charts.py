"""Lines: where they are drawn, where they are interrupted, and what is said of them."""

import pytest

from slackwater.ui.amounts import (
    format_cores,
    format_milli,
    format_percent,
    format_resource,
    share,
)
from slackwater.ui.charts import HEIGHT, WIDTH, ChartSeries, make_chart, thin


def line(*values: float | None) -> ChartSeries:
    return ChartSeries("a", "node", tuple((float(at), value) for at, value in enumerate(values)))


def test_a_line_goes_from_edge_to_edge() -> None:
    chart = make_chart("what", (line(0, 50, 100),))
    assert chart is not None
    assert f"M0.0 {HEIGHT}.0h1 L{WIDTH / 2} {HEIGHT / 2} L{WIDTH}.0 0.0" in chart.draw()


def test_a_gap_interrupts_the_line() -> None:
    chart = make_chart("what", (line(10, None, 10),))
    assert chart is not None
    assert str(chart.draw()).count("M") == 2


def test_the_upper_edge_is_the_machine_or_what_is_above_it() -> None:
    low, high = make_chart("w", (line(1, 2),), 10.0), make_chart("w", (line(1, 20),), 10.0)
    assert low is not None
    assert high is not None
    assert (low.top, high.top) == (10.0, 20.0)


@pytest.mark.parametrize("series", [(), (line(),), (line(None, None),), (line(5),)])
def test_nothing_to_draw_is_no_chart(series: tuple[ChartSeries, ...]) -> None:
    assert make_chart("what", series) is None


def test_titles_are_escaped() -> None:
    chart = make_chart('a "<b>', (line(1, 2),))
    assert chart is not None
    assert "<b>" not in chart.draw()


def test_fewer_points_keep_the_peaks() -> None:
    points = [(float(k), 100.0 if k == 37 else 1.0) for k in range(1000)]
    found = thin(points, 50)
    assert len(found) == 50
    assert max(value or 0 for _, value in found) == 100.0
    assert thin(points[:3], 50) == tuple(points[:3])


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (format_milli(600), "600m"),
        (format_milli(12_500), "12.5"),
        (format_milli(None), "–"),
        (format_milli("unlimited"), "unlimited"),
        (format_percent(None), "–"),
        (format_percent(0.0), "0 %"),
        (format_percent(3.14), "3.1 %"),
        (format_percent(31.0), "31 %"),
        (format_cores(None), "–"),
        (format_cores(1.2), "1.20"),
        (format_cores(0.012), "0.012"),
        (format_resource("memory", 3 * 2**30), "3.0 GiB"),
        (format_resource("cpu", 1.5), "1.50 cores"),
        (format_resource("kubernetes.io/batch-cpu", 1500), "1500m"),
        (format_resource("cpu", None), "–"),
    ],
)
def test_amounts(written: str, wanted: str) -> None:
    assert written == wanted


@pytest.mark.parametrize(
    ("part", "whole", "wanted"),
    [(1, 4, 25.0), (8, 4, 100.0), (None, 4, None), (1, None, None), (1, 0, None)],
)
def test_shares(part: int | None, whole: int | None, wanted: float | None) -> None:
    assert share(part, whole) == wanted
