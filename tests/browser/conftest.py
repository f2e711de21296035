"""A real Chromium for the session, and `slackwater ui` as a process of its own for each test."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cluster.conftest import (
    control_plane,
    fragile,
    make_control_plane,
    make_folder,
    own_server,
    programs,
)
from tests.unit.ui.simulated_agent import SimulatedAgent, simulated_agent

__all__ = [
    "control_plane", "fragile", "make_control_plane", "make_folder", "own_server", "programs",
]  # fmt: skip

#: Milliseconds; only a hang reaches it.
PATIENCE = 600_000.0
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


class PageProcess:
    """`slackwater ui`, and the address that it printed."""

    def __init__(self, *arguments: str, **environ: str) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SLACKWATER_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slackwater", "ui", *arguments],
            env=clean | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "http://127.0.0.1:" in line, self.process.communicate()
        self.address = line[line.index("http://") :].strip()

    def end(self) -> tuple[int, str]:
        """By Ctrl-C; the exit code, and what it said on stderr."""
        self.process.send_signal(2)
        _, said = self.process.communicate()
        return self.process.returncode, said


Serve = Callable[..., PageProcess]
#: A new page of a new window; keyword arguments are the window's.
Opened = Callable[..., "WatchedPage"]


class WatchedPage:
    """A page, and everything that must not happen on one: errors, and requests elsewhere."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.errors: list[str] = []
        self.asked: set[str] = set()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda line: self._note_line(line.type, line.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.asked.add(request.url))

    def _note_line(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.errors.append(text)

    def go(self, path: str = "") -> Page:
        self.page.goto(f"{self.address}{path}")
        return self.page

    def asked_elsewhere(self) -> list[str]:
        return [url for url in self.asked if not url.startswith(self.address)]

    def overflows(self) -> bool:
        """Whether the page is wider than the screen."""
        wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.page.evaluate(wider))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "Debian's package chromium is not installed"
    # Root may not use the sandbox; what is shown is our own page.
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=flags)
        yield made
        made.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    with ExitStack() as owned:

        def open_page(address: str, **window: Any) -> WatchedPage:
            context = browser.new_context(**{"viewport": WIDE, **window})
            owned.callback(context.close)
            return WatchedPage(context.new_page(), address)

        yield open_page


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[PageProcess] = []

    def start(*arguments: str, **environ: str) -> PageProcess:
        made.append(PageProcess(*arguments, **environ))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.end()


@pytest.fixture
def agent() -> Iterator[SimulatedAgent]:
    with simulated_agent() as made:
        yield made
