"""The picture: valid, complete, inside its page; and as PNG where that can be had."""

import builtins
import itertools
import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.demo_picture import (
    RIGHT,
    LogScale,
    draw_cpu_panel,
    draw_demo,
    draw_latency_panel,
    draw_loss_panel,
    log_scale_for,
    phase_frames,
)
from slackwater.demo.demo_report import DemoReport, PhaseReport, make_report
from slackwater.demo.measurements import AgentEntry, Noise
from slackwater.drawing import png as drawing
from slackwater.drawing.page import LEFT, WIDTH
from slackwater.drawing.plot import Frame
from tests.unit.demo.examples import MACHINE, OBJECTIVE, real_report, simulated_report

SVG = "{http://www.w3.org/2000/svg}"


def root(report: DemoReport) -> ET.Element:
    return ET.fromstring(draw_demo(report))  # noqa: S314 - our own text


def words(report: DemoReport) -> list[str]:
    return [node.text or "" for node in root(report).iter(f"{SVG}text")]


@pytest.mark.parametrize("report", [real_report(), simulated_report()], ids=["real", "simulated"])
def test_everything_is_on_the_page(report: DemoReport) -> None:
    drawn = root(report)
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    for node in drawn.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("y", height)):
            assert 0 <= float(node.attrib.get(name, 0)) <= most
    assert drawn.attrib["role"] == "img"


def test_a_real_picture_says_what_matters() -> None:
    said = words(real_report())
    for phase in real_report().phases:
        assert phase.title in said
    for number in ("p90 5.0 ms", "p90 20.0 ms", "p90 5.5 ms"):
        assert number in said
    assert "batch 1.35 CPUs, node 92 % busy" in said
    assert "node 25 % busy" in said
    assert any("4.0× alone" in text for text in said)
    assert any("100 % of seconds above; slices 20.0–20.0 ms" in text
               for text in said)  # fmt: skip
    assert "the objective for the p90" in said
    assert "batch demoted to the lowest weight" in said
    assert any(text.startswith("Some CPU, 2 CPUs, Linux 6.12.0, cgroup v2") for text in said)


def test_the_sentences_are_all_there_however_they_are_folded() -> None:
    said = " ".join(words(real_report()))
    for sentence in real_report().meaning:
        assert sentence in said


def test_a_simulated_picture_says_so_twice() -> None:
    said = words(simulated_report())
    assert any("(simulated kernel)" in text for text in said)
    assert any("because only root can make cgroups" in text for text in said)
    assert "lost 0.60 CPUs" in said
    assert not any("p90" in text for text in said)


def test_what_the_agent_did_and_why() -> None:
    said = words(real_report())
    assert "What the agent did to the batch pods, in its own words:" in said
    assert any("quota unlimited → 700m" in text and "slow, 2" in text for text in said)
    # Both pods were changed in the same way at the same time.
    assert sum("idle 0 → 1" in text for text in said) == 1
    # What was said before the phase is not about it.
    assert not any("not answered yet" in text for text in said)


def test_only_the_first_changes_and_the_last_are_told() -> None:
    changes = tuple(
        AgentEntry(float(n), "quota of a", f"{1000 + n}m", f"{1000 + 2 * n}m", f"p: {n} seen")
        for n in range(20)
    )
    said = words(msgspec.structs.replace(real_report(), agent=changes))
    assert "What the agent did to the batch pods, in its own words (5 of 20 changes):" in said
    told = [text for text in said if "seen" in text]
    assert len(told) == 5
    assert "19 seen" in told[-1]


def test_an_agent_that_did_nothing_is_told_too() -> None:
    said = words(msgspec.structs.replace(real_report(), agent=()))
    assert "The agent changed nothing." in said


@pytest.mark.parametrize(
    ("report", "units"),
    [(real_report(), ["ms", "CPUs"]), (simulated_report(), ["CPUs", "CPUs"])],
)
def test_each_axis_says_what_it_counts(report: DemoReport, units: list[str]) -> None:
    assert [word for word in words(report) if word in ("ms", "CPUs")] == units


def test_nothing_follows_from_a_noisy_picture() -> None:
    drawn = draw_demo(real_report(Noise(0.0, 0.9)))
    assert "× alone" not in drawn
    assert 'class="big good"' not in drawn
    assert 'class="big good"' in draw_demo(real_report())


def test_a_noisy_machine_is_told_in_the_picture() -> None:
    assert any("was not quiet" in text for text in words(real_report(Noise(0.0, 0.9))))
    assert not any("was not quiet" in text for text in words(real_report()))


def test_strange_words_do_not_break_it() -> None:
    strange = AgentEntry(1.0, "quota of <&>", "<1>", "&2", 'x: "a" < b & c')
    said = words(msgspec.structs.replace(real_report(), agent=(strange,)))
    assert any('"a" < b & c' in text for text in said)


def test_a_report_without_phases_can_be_drawn() -> None:
    assert root(make_report(MACHINE, [])).tag == f"{SVG}svg"


def test_the_png_is_twice_the_size() -> None:
    svg = draw_demo(real_report())
    drawn = ET.fromstring(svg)  # noqa: S314 - our own text
    png = drawing.render_png(svg)
    if png == drawing.NO_FONT:
        return
    assert isinstance(png, bytes)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", png[16:24]) == (
        2 * int(drawn.attrib["width"]),
        2 * int(drawn.attrib["height"]),
    )


def test_without_fonts_there_is_no_png(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("no font")
    assert (
        drawing.render_png("<svg/>", (str(tmp_path), str(tmp_path / "nothing"))) == drawing.NO_FONT
    )


def test_without_the_renderer_there_is_no_png(monkeypatch: pytest.MonkeyPatch) -> None:
    before = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "resvg_py":
            raise ImportError(name)
        return before(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert drawing.render_png("<svg/>") == drawing.NO_RENDERER
    assert "'.[demo]'" in drawing.NO_RENDERER.reason


REAL, LOST = real_report().phases, simulated_report().phases


@given(st.floats(0.01, 1e4), st.floats(1.1, 1e4), st.floats(0.001, 1e6))
def test_a_place_is_between_bottom_and_top(low: float, times: float, value: float) -> None:
    assert 0 <= LogScale(low, low * times).place(value) <= 1


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (LogScale(1, 10), [1, 2, 5, 10]),
        (LogScale(2, 100), [2, 5, 10, 20, 50, 100]),
        (LogScale(1, 1000), [1, 10, 100, 1000]),
    ],
)
def test_round_ticks_and_not_too_many(scale: LogScale, ticks: list[float]) -> None:
    assert scale.ticks() == pytest.approx(ticks)
    assert [scale.place(tick) for tick in ticks] == sorted(scale.place(tick) for tick in ticks)


def test_the_scale_holds_every_point() -> None:
    scale = log_scale_for(REAL)
    points = [value for phase in REAL for b in phase.curve for value in (b.p50, b.p90)]
    assert scale.low <= min(points)
    assert max(points) <= scale.high
    assert scale.high >= 10 * scale.low


def test_the_scale_of_nothing() -> None:
    assert log_scale_for([]) == LogScale(1.0, 10.0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_frames_stand_side_by_side_on_the_page(count: int) -> None:
    found = phase_frames(100, 50, REAL[:count], 2.0)
    assert len(found) == count
    assert found[0].left == LEFT
    assert found[-1].left + found[-1].width <= WIDTH - RIGHT
    for one, after in itertools.pairwise(found):
        assert one.left + one.width < after.left


def points(svg: list[str]) -> list[tuple[float, float]]:
    found = re.findall(r"(-?[0-9.]+),(-?[0-9.]+)", " ".join(svg))
    return [(float(x), float(y)) for x, y in found]


def frame(phase: PhaseReport, most: float) -> Frame:
    return phase_frames(100, 150, [phase], most)[0]


@pytest.mark.parametrize("phase", REAL, ids=lambda phase: phase.name)
def test_real_panels_stay_inside(phase: PhaseReport) -> None:
    place = frame(phase, 2.0)
    drawn = points(draw_cpu_panel(place, phase)) + points(
        draw_latency_panel(frame(phase, 1.0), log_scale_for(REAL), phase, OBJECTIVE)
    )
    assert drawn
    assert all(place.left <= x <= place.left + place.width for x, _ in drawn)
    assert all(place.top <= y <= place.top + place.height for _, y in drawn)


def test_a_quota_is_drawn_where_there_is_one() -> None:
    drawn = ["quota" in "".join(draw_cpu_panel(frame(phase, 2.0), phase)) for phase in REAL]
    assert drawn == [False, False, True]


def test_a_band_says_when_batch_was_demoted() -> None:
    drawn = ["demoted" in "".join(draw_cpu_panel(frame(phase, 2.0), phase)) for phase in REAL]
    assert drawn == [False, False, True]


def test_no_line_joins_two_slices() -> None:
    drawn = "".join(draw_latency_panel(frame(REAL[0], 1.0), log_scale_for(REAL), REAL[0], None))
    assert drawn.count("<polyline") == 4


def test_losses_are_drawn() -> None:
    place = frame(LOST[1], 1.0)
    assert min(y for _, y in points(draw_loss_panel(place, LOST[1]))) == place.y(0.6)
    flat = points(draw_loss_panel(place, LOST[0]))
    assert {y for _, y in flat} == {place.y(0)}
