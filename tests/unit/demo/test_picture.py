"""The picture: valid, complete, inside its page; and as PNG where that can be had."""

import builtins
import struct
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.demo import raster
from slackwater.demo.gauges import Noise
from slackwater.demo.measured import Line
from slackwater.demo.picture import picture
from slackwater.demo.report import Report, report_of
from tests.unit.demo.examples import MACHINE, real_report, simulated_report

SVG = "{http://www.w3.org/2000/svg}"


def root(report: Report) -> ET.Element:
    return ET.fromstring(picture(report))  # noqa: S314 - our own text


def words(report: Report) -> list[str]:
    return [node.text or "" for node in root(report).iter(f"{SVG}text")]


@pytest.mark.parametrize("report", [real_report(), simulated_report()], ids=["real", "simulated"])
def test_everything_is_on_the_page(report: Report) -> None:
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
    for number in ("p90 5.0 ms", "p90 20.0 ms", "p90 5.2 ms", "p90 5.5 ms"):
        assert number in said
    assert "batch 1.35 CPUs, node 92 % busy" in said
    assert "node 25 % busy" in said
    assert any("4.0× alone" in text for text in said)
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


def test_why_the_quota_moved() -> None:
    said = words(real_report())
    assert "Why the quota moved, in the agent's words:" in said
    assert any("1500m → 1200m" in text and "used, 2" in text for text in said)
    # What was said before the phase is not about it.
    assert not any("read only once" in text for text in said)


def test_only_the_largest_changes_are_told() -> None:
    changes = tuple(
        Line(float(n), "quota of a", f"{1000 + n}m", f"{1000 + 2 * n}m", f"p: {n} seen")
        for n in range(20)
    )
    said = words(msgspec.structs.replace(real_report(), agent=changes))
    assert "Why the quota moved, in the agent's words (5 of 20 moves):" in said
    told = [text for text in said if "seen" in text]
    assert len(told) == 5
    assert "19 seen" in told[-1]


def test_an_agent_that_did_nothing_is_told_too() -> None:
    said = words(msgspec.structs.replace(real_report(), agent=()))
    assert "The agent changed no quota." in said


@pytest.mark.parametrize(
    ("report", "units"),
    [(real_report(), ["ms", "CPUs"]), (simulated_report(), ["CPUs", "CPUs"])],
)
def test_each_axis_says_what_it_counts(report: Report, units: list[str]) -> None:
    assert [word for word in words(report) if word in ("ms", "CPUs")] == units


def test_nothing_follows_from_a_noisy_picture() -> None:
    drawn = picture(real_report(Noise(0.0, 0.9)))
    assert "× alone" not in drawn
    assert 'class="big good"' not in drawn
    assert 'class="big good"' in picture(real_report())


def test_a_noisy_machine_is_told_in_the_picture() -> None:
    assert any("was not quiet" in text for text in words(real_report(Noise(0.0, 0.9))))
    assert not any("was not quiet" in text for text in words(real_report()))


def test_strange_words_do_not_break_it() -> None:
    strange = Line(1.0, "quota of <&>", "<1>", "&2", 'x: "a" < b & c')
    said = words(msgspec.structs.replace(real_report(), agent=(strange,)))
    assert any('"a" < b & c' in text for text in said)


def test_a_report_without_phases_can_be_drawn() -> None:
    assert root(report_of(MACHINE, [])).tag == f"{SVG}svg"


def test_the_png_is_twice_the_size() -> None:
    svg = picture(real_report())
    drawn = ET.fromstring(svg)  # noqa: S314 - our own text
    png = raster.rendered(svg)
    if png == raster.NO_FONT:
        return
    assert isinstance(png, bytes)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", png[16:24]) == (
        2 * int(drawn.attrib["width"]),
        2 * int(drawn.attrib["height"]),
    )


def test_without_fonts_there_is_no_png(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("no font")
    assert raster.rendered("<svg/>", (str(tmp_path), str(tmp_path / "nothing"))) == raster.NO_FONT


def test_without_the_renderer_there_is_no_png(monkeypatch: pytest.MonkeyPatch) -> None:
    before = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "resvg_py":
            raise ImportError(name)
        return before(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert raster.rendered("<svg/>") == raster.NO_RENDERER
    assert "slackwater[demo]" in raster.NO_RENDERER.reason
