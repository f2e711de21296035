"""A picture of each view, small and light. With SLACKWATER_PICTURES=1 they go to docs/images.

SLACKWATER_PICTURES=1 .venv/bin/python -m pytest tests/browser/test_pictures.py -n0
"""

import os
import struct
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Opened, Serve
from tests.unit.ui.simulated_agent import SimulatedAgent

DOCS = Path(__file__).parents[2] / "docs" / "images"
WINDOW = {"width": 1000, "height": 700}
#: Bytes; what one page of the docs shows.
LARGEST = 150_000
VIEWS = {
    "ui-node": ("", "light", "#tier-besteffort"),
    "ui-node-dark": ("", "dark", "#tier-besteffort"),
    "ui-pods": ("pods", "light", "#pod-batch-crawler"),
    "ui-cpus": ("cpus", "light", "#owner-1"),
    "ui-policies": ("policies", "light", "#policy-best_effort_share"),
    "ui-whatif": ("whatif?key=bestEffortShare.threshold&value=60", "light", "#result"),
}


def picture(page: Page, name: str, folder: Path) -> bytes:
    place = (DOCS if os.environ.get("SLACKWATER_PICTURES") else folder) / f"{name}.png"
    return page.screenshot(path=place)


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_has_a_picture(
    serve: Serve, agent: SimulatedAgent, opened: Opened, tmp_path: Path, name: str
) -> None:
    path, scheme, seen = VIEWS[name]
    shown = serve("--agent", agent.socket)
    page = opened(shown.address, viewport=WINDOW, color_scheme=scheme).go(path)
    page.locator(seen).first.wait_for()
    drawn = picture(page, name, tmp_path)
    assert struct.unpack(">II", drawn[16:24]) == (WINDOW["width"], WINDOW["height"])
    assert len(drawn) < LARGEST
    assert (DOCS / f"{name}.png").exists()
