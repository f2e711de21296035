"""Pieces of a chart: places on the page, round ticks, stairs with holes."""

import pytest

from slackwater.drawing.plot import (
    Frame,
    area,
    arrow,
    band,
    bare_grid,
    cpu_ticks,
    curve,
    grid,
    labelled_grid,
    marks,
    spelled_time,
    steps,
    time_axis,
)

FRAME = Frame(100, 50, 200, 100, 10.0, 4.0)


def test_places() -> None:
    assert (FRAME.x(0), FRAME.x(10), FRAME.x(5)) == (100, 300, 200)
    assert (FRAME.y(0), FRAME.y(4), FRAME.y(1)) == (150, 50, 125)
    assert FRAME.y(99) == 50  # never outside


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (16, [0, 4, 8, 12, 16]),
        (8, [0, 2, 4, 6, 8]),
        (2, [0, 0.5, 1, 1.5, 2]),
        (1.1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.01, [0, 0.002, 0.004, 0.006, 0.008, 0.01]),
        (512, [0, 100, 200, 300, 400, 500]),
    ],
)
def test_ticks_are_round(most: float, ticks: list[float]) -> None:
    assert cpu_ticks(Frame(0, 0, 1, 1, 1, most)) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (
            10,
            [
                "0:00",
                "0:01",
                "0:02",
                "0:03",
                "0:04",
                "0:05",
                "0:06",
                "0:07",
                "0:08",
                "0:09",
                "0:10",
            ],
        ),
        (
            600,
            [
                "0:00",
                "0:01",
                "0:02",
                "0:03",
                "0:04",
                "0:05",
                "0:06",
                "0:07",
                "0:08",
                "0:09",
                "0:10",
            ],
        ),
        (86_400, [f"{2 * n}:00" for n in range(13)]),
    ],
)
def test_times_on_the_axis(seconds: float, labels: list[str]) -> None:
    parts = time_axis(Frame(0, 0, 100, 10, seconds, 1))
    shown = [part.split(">")[1].split("<")[0] for part in parts if part.startswith("<text")]
    assert shown[:-1] == labels
    assert shown[-1] == ("m:ss" if seconds == 10 else "h:mm")


def test_a_week_has_readable_times_too() -> None:
    assert len(time_axis(Frame(0, 0, 100, 10, 7 * 86_400, 1))) < 30
    assert spelled_time(26 * 3600, 3600) == "26:00"


def test_stairs_join_what_is_level() -> None:
    drawn = steps(FRAME, [0, 1, 2, 3], [1.0, 1.0, 2.0], "quota")
    assert drawn == '<path class="quota" d="M100.0,125.0H140.0V100.0H160.0"/>'


def test_no_value_is_a_hole() -> None:
    drawn = steps(FRAME, [0, 1, 2, 3, 4], [1.0, None, None, 2.0], "quota")
    assert drawn == '<path class="quota" d="M100.0,125.0H120.0M160.0,100.0H180.0"/>'
    assert steps(FRAME, [0, 1], [None], "quota") == ""


def test_an_area_goes_there_and_back() -> None:
    drawn = area(FRAME, [0, 1, 2], [0.0, 0.0], [1.0, 2.0], "web")
    assert drawn == '<path class="web" d="M100.0,125.0H120.0V100.0H140.0L140.0,150.0H100.0Z"/>'
    assert area(FRAME, [0], [], [], "web") == ""


def labels(parts: list[str]) -> list[str]:
    return [part.split(">")[1].split("<")[0] for part in parts if part.startswith("<text")]


def test_fewer_ticks_where_there_is_less_room() -> None:
    assert cpu_ticks(Frame(0, 0, 1, 1, 1, 64), 4) == [0, 20, 40, 60]
    assert cpu_ticks(Frame(0, 0, 1, 1, 1, 1e9), 4)[-1] == pytest.approx(1e9)


def test_a_grid_has_a_rule_and_a_label_for_each_tick() -> None:
    parts = grid(FRAME, [0, 2, 4])
    assert labels(parts) == ["0", "2", "4"]
    assert parts[0] == '<rect class="panel" x="100" y="50" width="200" height="100"/>'
    assert '<line class="rule" x1="100" y1="100.0" x2="300" y2="100.0"/>' in parts


def test_labels_may_say_something_else_than_the_place() -> None:
    parts = labelled_grid(FRAME, [(1, "10"), (2, "100")], "ms")
    assert labels(parts) == ["ms", "10", "100"]


def test_a_frame_beside_another_has_no_labels() -> None:
    parts = bare_grid(FRAME, [0, 2, 4])
    assert labels(parts) == []
    assert sum(part.startswith("<line") for part in parts) == 3


def test_a_curve_goes_from_point_to_point() -> None:
    drawn = curve(FRAME, [(0, 1), (5, 2)], "p90")
    assert drawn == '<polyline class="p90" points="100.0,125.0 200.0,100.0"/>'
    assert curve(FRAME, [], "p90") == ""


def test_a_band_lies_on_the_bottom_and_ends_with_the_frame() -> None:
    drawn = band(FRAME, 5, 99, 8, "demoted")
    assert drawn == '<rect class="demoted" x="200" y="142" width="100" height="8"/>'


def test_an_arrow_points_down() -> None:
    assert arrow(7, 9) == '<path class="arrow" d="M7,9l-5,-9h10Z"/>'


def test_marks_go_through_every_frame() -> None:
    parts = marks([1.0, 1.1], [FRAME, FRAME])
    assert sum(part.startswith("<line") for part in parts) == 4
    assert [part for part in parts if "badgetext" in part][1].endswith(">2</text>")
