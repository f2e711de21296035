"""What the browser gets besides pages: from here alone, and what is from npm as npm has it."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from slackwater.ui.page import FOLDER

ROOT = Path(__file__).parents[3]
STATIC = FOLDER / "static"
#: Of idiomorph 0.8.0, dist/idiomorph.min.js.
IDIOMORPH = "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96"


def test_idiomorph_is_npms_with_its_licence() -> None:
    content = (STATIC / "vendor/idiomorph.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == IDIOMORPH
    assert "Zero-Clause BSD" in (STATIC / "vendor/idiomorph.LICENSE").read_text()
    lock = json.loads((ROOT / "tools/page_assets/package-lock.json").read_text())
    locked = lock["packages"]["node_modules/idiomorph"]
    assert locked["version"] == "0.8.0"
    assert locked["integrity"].startswith("sha512-")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("templates/*.html")), ids=lambda p: p.name)
def test_templates_have_nothing_inline_and_nothing_from_elsewhere(path: Path) -> None:
    """The Content-Security-Policy would block it in silence."""
    text = path.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?://", text)
    assert "| safe" not in text
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_both_colour_schemes_define_the_same_colours() -> None:
    text = (STATIC / "style.css").read_text()
    light, dark = (
        set(re.findall(r"(--[a-z-]+):", block))
        for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    )
    assert light == dark
    assert set(re.findall(r"var\((--[a-z-]+)\)", text)) <= light
    assert "url(" not in text
