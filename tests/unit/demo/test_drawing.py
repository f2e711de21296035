"""Scales and panels: every point is inside its frame."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.drawing import (
    LEFT,
    RIGHT,
    WIDTH,
    Scale,
    cpu_panel,
    frames,
    latency_panel,
    lost_panel,
    scale_of,
    whole_ticks,
)
from slackwater.demo.report import PhaseReport
from slackwater.simulation.svg import Frame
from tests.unit.demo.examples import real_report, simulated_report

REAL, LOST = real_report().phases, simulated_report().phases


@given(st.floats(0.01, 1e4), st.floats(1.1, 1e4), st.floats(0.001, 1e6))
def test_a_place_is_between_bottom_and_top(low: float, times: float, value: float) -> None:
    assert 0 <= Scale(low, low * times).place(value) <= 1


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(1, 10), [1, 2, 5, 10]),
        (Scale(2, 100), [2, 5, 10, 20, 50, 100]),
        (Scale(1, 1000), [1, 10, 100, 1000]),
    ],
)
def test_round_ticks_and_not_too_many(scale: Scale, ticks: list[float]) -> None:
    assert scale.ticks() == pytest.approx(ticks)
    assert [scale.place(tick) for tick in ticks] == sorted(scale.place(tick) for tick in ticks)


def test_the_scale_holds_every_point() -> None:
    scale = scale_of(REAL)
    points = [value for phase in REAL for b in phase.curve for value in (b.p50, b.p90)]
    assert scale.low <= min(points)
    assert max(points) <= scale.high
    assert scale.high >= 10 * scale.low


def test_the_scale_of_nothing() -> None:
    assert scale_of([]) == Scale(1.0, 10.0)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_frames_stand_side_by_side_on_the_page(count: int) -> None:
    found = frames(100, 50, REAL[:count], 2.0)
    assert len(found) == count
    assert found[0].left == LEFT
    assert found[-1].left + found[-1].width <= WIDTH - RIGHT
    for one, after in itertools.pairwise(found):
        assert one.left + one.width < after.left


@pytest.mark.parametrize(
    ("most", "ticks"),
    [(1.1, [0, 0.25, 0.5, 0.75, 1]), (2, [0, 0.5, 1, 1.5, 2]), (4, [0, 1, 2, 3, 4]),
     (64, [0, 20, 40, 60]), (256, [0, 100, 200])],
)  # fmt: skip
def test_ticks_of_cpus(most: float, ticks: list[float]) -> None:
    assert whole_ticks(most) == ticks


def points(svg: list[str]) -> list[tuple[float, float]]:
    found = re.findall(r"(-?[0-9.]+),(-?[0-9.]+)", " ".join(svg))
    return [(float(x), float(y)) for x, y in found]


def frame(phase: PhaseReport, most: float) -> Frame:
    return frames(100, 150, [phase], most)[0]


@pytest.mark.parametrize("phase", REAL, ids=lambda phase: phase.name)
def test_real_panels_stay_inside(phase: PhaseReport) -> None:
    place = frame(phase, 2.0)
    drawn = points(cpu_panel(place, phase)) + points(
        latency_panel(frame(phase, 1.0), scale_of(REAL), phase)
    )
    assert drawn
    assert all(place.left <= x <= place.left + place.width for x, _ in drawn)
    assert all(place.top <= y <= place.top + place.height for _, y in drawn)


def test_a_quota_is_drawn_where_there_is_one() -> None:
    drawn = ["quota" in "".join(cpu_panel(frame(phase, 2.0), phase)) for phase in REAL]
    assert drawn == [False, False, False, True]


def test_losses_are_drawn() -> None:
    place = frame(LOST[1], 1.0)
    assert min(y for _, y in points(lost_panel(place, LOST[1]))) == place.y(0.6)
    flat = points(lost_panel(place, LOST[0]))
    assert {y for _, y in flat} == {place.y(0)}
