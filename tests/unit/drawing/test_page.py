"""Pages: one style sheet for light and dark screens, and nobody else who writes SVG."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from slackwater.drawing.legend import area_key, legend_row, line_key
from slackwater.drawing.page import WIDTH, box, line, page, text
from slackwater.drawing.palette import FILLS, OUTLINES, STROKES, TEXTS, style_sheet
from slackwater.drawing.png import NO_FONT, render_png
from slackwater.model.gap import Gap

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
_CLASS = re.compile(r"\.([a-z0-9]+) \{")
#: The elements of a picture, as text.
_ELEMENT = re.compile(r"[\"']<(svg|rect|line|path|polyline|circle|text)\b[ >]")


def classes_of(sheet: str) -> set[str]:
    return set(_CLASS.findall(sheet))


def test_a_page_is_valid_and_says_what_it_is() -> None:
    drawn = ET.fromstring(page('A "title" & more', 80, [text(1, 2, "<b>")], 300))  # noqa: S314
    assert drawn.attrib["aria-label"] == 'A "title" & more'
    assert (drawn.attrib["viewBox"], drawn.attrib["role"]) == ("0 0 300 80", "img")
    assert [node.text for node in drawn.iter(f"{SVG}text")] == ["<b>"]
    assert f'width="{WIDTH}"' in page("x", 1, [])


def test_a_page_needs_no_other_file() -> None:
    drawn = page("x", 10, []).replace("http://www.w3.org/2000/svg", "")
    assert "http" not in drawn
    assert "url(" not in drawn


def test_words_are_words() -> None:
    assert text(1, 2, "<b> & co") == '<text x="1" y="2">&lt;b&gt; &amp; co</text>'
    assert text(1, 2, "x", "faint") == '<text x="1" y="2" class="faint">x</text>'


def test_boxes_and_lines() -> None:
    assert box(1.5, 2, 3, 4, "pure", 5) == (
        '<rect class="pure" x="1.5" y="2" width="3" height="4" rx="5"/>'
    )
    assert line(1, 2, 3, "rule") == '<line class="rule" x1="1" y1="2" x2="3" y2="2"/>'


def test_every_colour_has_one_for_dark_screens() -> None:
    light, dark = style_sheet().split("@media (prefers-color-scheme: dark)")
    coloured = set(re.findall(r"\.(\w+) \{ [^}]*(?:fill|stroke): #", light))
    assert coloured == set(re.findall(r"\.(\w+) \{ [^}]*(?:fill|stroke): #", dark))
    assert coloured >= FILLS.keys() | STROKES.keys()
    assert "var(" not in light + dark, "simple renderers know no variables"


def test_a_kind_is_one_thing() -> None:
    assert not FILLS.keys() & STROKES.keys()
    assert not TEXTS.keys() & (FILLS.keys() | STROKES.keys())
    assert OUTLINES.keys() <= FILLS.keys()


def test_keys_of_a_legend() -> None:
    assert 'class="quota"' in line_key(1, 20, "quota", "its quota")[0]
    assert area_key(1, 20, "mean", "mean")[0].startswith('<rect class="mean" x="1" y="9"')
    row = legend_row(10, 20, "CPUs:", (("hog", "batch"), ("quota", "quota")))
    drawn = ET.fromstring(page("x", 40, row))  # noqa: S314
    assert [node.text for node in drawn.iter(f"{SVG}text")] == ["CPUs:", "batch", "quota"]
    places = [float(node.attrib["x"]) for node in drawn.iter(f"{SVG}text")]
    assert places == sorted(places)
    assert legend_row(10, 20, "", (("hog", "batch"),)) == area_key(10, 20, "hog", "batch")


def test_a_renderer_takes_it() -> None:
    png = render_png(page("x", 20, [text(1, 12, "x")]))
    assert png == NO_FONT or (not isinstance(png, Gap) and png.startswith(b"\x89PNG"))


@pytest.mark.parametrize("folder", ["src/slackwater", "tools"])
def test_nobody_else_writes_svg(folder: str) -> None:
    """One kit: a picture is made of its pieces, and has its style sheet. The charts of the page of
    `slackwater ui` are elements of it, in the page's own colours (docs/adr/0057)."""
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        if not {"drawing", "ui"} & set(path.parts) and _ELEMENT.search(path.read_text())
    }
    assert found == set()


@pytest.mark.parametrize(
    "image", sorted((ROOT / "docs/images").glob("*.svg")), ids=lambda p: p.stem
)
def test_the_pictures_of_the_docs_have_todays_style_sheet(image: Path) -> None:
    drawn = ET.fromstring(image.read_text())  # noqa: S314 - our own text
    [sheet] = drawn.iter(f"{SVG}style")
    assert sheet.text == style_sheet(), "make it again by its command"
    used = {kind for node in drawn.iter() for kind in node.attrib.get("class", "").split()}
    assert used <= classes_of(style_sheet()) | TEXTS.keys()
