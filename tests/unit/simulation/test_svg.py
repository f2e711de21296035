"""Pieces of a chart: places on the page, round ticks, stairs with holes."""

import pytest

from slackwater.simulation.svg import (
    Frame,
    area,
    cpu_ticks,
    marks,
    spelled_time,
    steps,
    text,
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
        (2, [0, 0.4, 0.8, 1.2, 1.6, 2.0]),
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


def test_words_are_words() -> None:
    assert text(1, 2, "<b> & co") == '<text x="1" y="2">&lt;b&gt; &amp; co</text>'
    assert text(1, 2, "x", "faint") == '<text x="1" y="2" class="faint">x</text>'


def test_marks_go_through_every_frame() -> None:
    parts = marks([1.0, 1.1], [FRAME, FRAME])
    assert sum(part.startswith("<line") for part in parts) == 4
    assert [part for part in parts if "badgetext" in part][1].endswith(">2</text>")
