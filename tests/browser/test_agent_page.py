"""The page about one agent: every view, live, by keyboard, on narrow screens, and on bad days."""

import contextlib
import http.client
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import NARROW, Opened, PageProcess, Serve
from tests.unit.ui.simulated_agent import SimulatedAgent


def refusal(address: str, path: str, **headers: str) -> int:
    """The status of an answer to another program."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


VIEWS = {
    "": "Node",
    "pods": "Pods",
    "pod?target=batch/report": "batch/report",
    "cpus": "CPUs",
    "policies": "Policies",
    "whatif": "What if",
    "whatif?key=bestEffortShare.threshold&value=60": "What if",
}


@pytest.fixture
def shown(serve: Serve, agent: SimulatedAgent) -> PageProcess:
    return serve("--agent", agent.socket)


def test_every_view_is_whole_asks_nobody_else_and_fits_a_telephone(
    shown: PageProcess, opened: Opened
) -> None:
    narrow, wide = opened(shown.address, viewport=NARROW), opened(shown.address)
    for path, title in VIEWS.items():
        for one in (wide, narrow):
            page = one.go(path)
            expect(page.get_by_role("heading", level=1)).to_contain_text(title)
            assert not one.overflows(), (path, page.viewport_size)
    for one in (wide, narrow):
        assert (one.errors, one.asked_elsewhere()) == ([], [])
    assert shown.end()[0] == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_problem(shown: PageProcess, opened: Opened, scheme: str) -> None:
    one = opened(shown.address, color_scheme=scheme, bypass_csp=True)
    for path in VIEWS:
        found = Axe().run(one.go(path))
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_an_open_page_follows_the_agent(
    shown: PageProcess, opened: Opened, agent: SimulatedAgent
) -> None:
    page = opened(shown.address).go()
    expect(page.locator(".figures")).to_contain_text(f"tick{agent.tick}")
    page.get_by_role("button", name="Pause updates").click()
    paused = page.locator(".figures").inner_text()
    tick = agent.step()
    page.get_by_role("button", name="Continue updates").press("Enter")
    expect(page.locator(".figures")).to_contain_text(f"tick{tick}")
    assert page.locator(".figures").inner_text() != paused
    expect(page.get_by_role("button", name="Pause updates")).to_be_focused()


def test_what_a_person_has_open_and_typed_stays(
    shown: PageProcess, opened: Opened, agent: SimulatedAgent
) -> None:
    page = opened(shown.address).go("pods")
    search = page.get_by_role("searchbox", name="Name or namespace")
    search.press_sequentially("prod")
    expect(page.get_by_role("rowheader")).to_have_count(3)
    expect(page).to_have_url(f"{shown.address}pods?q=prod")
    middle = page.locator("#main")
    before = middle.get_attribute("data-updates") or "0"
    agent.step()
    expect(middle).not_to_have_attribute("data-updates", before)
    expect(search).to_be_focused()
    expect(search).to_have_value("prod")


def test_by_keyboard_alone(shown: PageProcess, opened: Opened) -> None:
    page = opened(shown.address).go()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    for _ in range(4):
        page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("link", name="Pods")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Pods")
    page.get_by_role("searchbox").focus()
    for name in ("Show", "Pods"):
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_accessible_name(name)
    page.keyboard.press("Tab")
    target = page.locator(":focus").inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(target)


def test_what_another_threshold_would_change(shown: PageProcess, opened: Opened) -> None:
    page = opened(shown.address).go("whatif")
    page.get_by_label("Setting").select_option("bestEffortShare.threshold")
    page.get_by_label("New value").fill("60")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#result")).to_contain_text("of 60 ticks would be decided differently")
    expect(page.get_by_role("rowheader", name="quota of kubepods/besteffort")).to_be_visible()

    page.get_by_label("Setting").select_option("rule:NodeQOS/busy/cpu")
    page.get_by_label("New value").fill("100k")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("rowheader", name="NodeQOS/busy/cpu rule")).to_be_visible()

    page.get_by_label("New value").fill("much")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#problem")).to_contain_text("'much', but must be a quantity above 0")
    expect(page.locator("#result")).to_have_count(0)


def test_an_agent_that_goes_leaves_its_last_answer_with_a_sentence(
    shown: PageProcess, opened: Opened, agent: SimulatedAgent
) -> None:
    page = opened(shown.address).go()
    agent.close_socket()
    expect(page.locator("#lost")).to_contain_text("No answer from the agent")
    expect(page.locator("#tier-besteffort")).to_be_visible()
    page.goto(f"{shown.address}cpus")
    expect(page.locator("#sentence")).to_contain_text("no agent answers at")


def test_a_page_whose_program_ended_says_so(shown: PageProcess, opened: Opened) -> None:
    page = opened(shown.address).go()
    assert shown.end()[0] == 0
    expect(page.locator("#connection")).to_contain_text("slackwater ui does not answer")
    expect(page.locator("#tier-besteffort")).to_be_visible()


def test_where_no_agent_is_the_page_says_so(serve: Serve, opened: Opened) -> None:
    page = opened(serve("--agent", "/nonexistent/agent.sock").address).go()
    expect(page.locator("#sentence")).to_contain_text("no agent answers at /nonexistent/agent.sock")


def test_another_page_of_the_browser_learns_nothing(shown: PageProcess, opened: Opened) -> None:
    """It neither embeds the page, nor reads it without the token, nor by another name."""
    outer = opened(shown.address)
    outer.page.set_content(f'<iframe src="{shown.address}"></iframe>')
    frame = outer.page.frames[1]
    expect(frame.locator("h1")).to_have_count(1)  # of the browser's own page about the refusal
    expect(frame.locator("#main")).to_have_count(0)
    assert refusal(shown.address, "/pods") == 403
    secret = shown.address.removesuffix("/").rpartition("/")[2]
    assert refusal(shown.address, f"/{secret}/", Host="evil.example") == 421
