"""The what-if's picture: valid, complete, inside its page, light and dark."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from slackwater.drawing.png import render_png
from slackwater.model.gap import Gap
from slackwater.rebalancer.whatif.simulation_report import SimulationReport, conclusions
from slackwater.simulation.rotation_picture import picture
from tests.unit.rebalancer.whatif.days import SIX, day_with, generated_day, reported

SVG = "{http://www.w3.org/2000/svg}"
EVEN = dict.fromkeys("abcd", 0.5)
DAYS = {
    "generated": reported(generated_day()),
    "very skewed": reported(generated_day(skew=3.0), stickiness=0.9),
    "one step": reported(day_with([SIX])),
    "never rotated": reported(day_with([EVEN] * 5)),
    "idle": reported(day_with([dict.fromkeys("ab", 0.0)] * 3)),
    "with holes": reported(
        day_with([SIX, {}, SIX, {}, {}, SIX], start=1.7e9), recording="a<b&.csv"
    ),
}
every_day = pytest.mark.parametrize("report", DAYS.values(), ids=DAYS)


def root(report: SimulationReport) -> ET.Element:
    return ET.fromstring(picture(report))  # noqa: S314 - our own text


def words(report: SimulationReport) -> list[str]:
    return [node.text or "" for node in root(report).iter(f"{SVG}text")]


def of_class(report: SimulationReport, kind: str) -> list[ET.Element]:
    return [node for node in root(report).iter() if node.attrib.get("class") == kind]


@every_day
def test_everything_is_on_the_page(report: SimulationReport) -> None:
    drawn = root(report)
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    assert drawn.attrib["role"] == "img"
    assert drawn.attrib["viewBox"] == f"0 0 {width:g} {height:g}"
    for node in drawn.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("y", height),
                           ("y1", height), ("y2", height)):  # fmt: skip
            assert 0 <= float(node.attrib.get(name, 0)) <= most
        for x, y in re.findall(r"[ML]([\d.]+),([\d.]+)", node.attrib.get("d", "")):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height
    assert "nan" not in picture(report)


@every_day
def test_it_says_what_it_comes_to(report: SimulationReport) -> None:
    said = words(report)
    for sentence in conclusions(report):
        assert sentence in said
    for title in ("Without rotation", "With rotation"):
        assert title in said
    assert f"{report.saved.percent:.1f} % saved" in said
    assert f"{report.without.above:.1f} %" in said


@every_day
def test_an_arrow_for_each_rotation_and_one_in_the_legend(report: SimulationReport) -> None:
    assert len(of_class(report, "arrow")) == len(report.rotations) + 1
    assert len(of_class(report, "tick")) == len(report.rotations)


@pytest.mark.parametrize(
    ("name", "skews"),
    [
        ("generated", ["2.30 ×", "1.54 ×"]),
        ("idle", ["-", "-"]),
    ],
)
def test_the_skews_are_beside_the_panels(name: str, skews: list[str]) -> None:
    said = words(DAYS[name])
    assert [text for text in said if text in skews] == skews


def test_good_is_green_and_bad_is_red() -> None:
    better, worse = DAYS["generated"], DAYS["very skewed"]
    kinds = [node.attrib.get("class", "") for node in root(better).iter(f"{SVG}text")]
    assert [kind for kind in kinds if "big" in kind] == ["big bad", "big good", "big good"]
    kinds = [node.attrib.get("class", "") for node in root(worse).iter(f"{SVG}text")]
    assert [kind for kind in kinds if "big" in kind][:2] == ["big bad", "big bad"]


def test_nothing_saved_is_nothing_to_cheer() -> None:
    kinds = [node.attrib.get("class", "") for node in root(DAYS["never rotated"]).iter()]
    assert [kind for kind in kinds if "big" in kind][2] == "big "


def test_a_hole_is_a_hole() -> None:
    """The line of the hottest pod begins anew after each."""
    (line,) = of_class(DAYS["with holes"], "hottest")[:1]
    assert line.attrib["d"].count("M") == 3


def test_what_is_foreign_is_escaped() -> None:
    assert any("recorded: a<b&.csv" in text for text in words(DAYS["with holes"]))


def test_where_it_comes_from_and_that_it_is_a_model() -> None:
    assert words(DAYS["generated"])[-1] == (
        "12 pods, 288 steps (generated, seed 0). HPA target 70 %, tolerance 1.5, stickiness 0. "
        "A model: load follows the pods."
    )


def test_every_light_colour_has_a_dark_one() -> None:
    style = root(DAYS["generated"]).findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    coloured = re.findall(r"\.(\w+) \{ [^}]*(?:fill|stroke): #", light)
    assert set(coloured) == set(re.findall(r"\.(\w+) \{ [^}]*(?:fill|stroke): #", dark))
    assert len(set(coloured)) > 10
    assert "var(" not in style, "simple renderers know no variables"


def test_the_renderer_takes_it() -> None:
    drawn = render_png(picture(DAYS["generated"]))
    assert isinstance(drawn, Gap) or drawn.startswith(b"\x89PNG")


def test_the_references_picture_is_of_today() -> None:
    """slackwater rebalance simulate --skew 1 --stickiness 0.3 --svg docs/images/…"""
    image = Path(__file__).parents[3] / "docs" / "images" / "rebalance-simulate.svg"
    drawn = ET.fromstring(image.read_text())  # noqa: S314 - our own text
    said = [node.text or "" for node in drawn.iter(f"{SVG}text")]
    assert said == words(reported(generated_day(skew=1.0), stickiness=0.3))
