"""The live view's loop: ask, draw, wait for a key. Outlives an agent that is away for a while."""

import datetime as dt
from collections.abc import Callable

import msgspec
from rich.console import Console
from rich.live import Live

from slackwater.cli.agent_client import Address, NoAnswer, ask_overview
from slackwater.cli.keyboard import Keyboard
from slackwater.cli.top_table import sorted_pods
from slackwater.cli.top_view import Lost, Screen
from slackwater.record.overview import Overview

#: An agent that takes longer counts as lost, and the keyboard is not left waiting.
_PATIENCE = 2.0
_QUIT = ("q", "Q", "\x03", "\x04")
_SORTS = {"u": "usage", "t": "throttled", "n": "name"}


def watch(address: Address, sort: str, interval: float, colour: bool) -> None:
    """Until q is pressed. The first answer has to come: a wrong address is told at once."""
    screen = Screen(ask_overview(address, _PATIENCE), _now())
    console = Console(highlight=False, color_system="auto" if colour else None)
    with (
        Keyboard() as keyboard,
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while True:
            live.update(sorted_screen(screen, sort), refresh=True)
            key = keyboard.wait(interval)
            if any(letter in _QUIT for letter in key):
                return
            sort = _SORTS.get(key, sort)
            screen = next_screen(screen, lambda: ask_overview(address, _PATIENCE), _now())


def next_screen(before: Screen, look: Callable[[], Overview], now: dt.datetime) -> Screen:
    """The next picture; without an answer the last one stays, and says so."""
    try:
        return Screen(look(), now)
    except NoAnswer as error:
        lost = before.lost or Lost("", _stamp(now), _stamp(before.now))
        return Screen(before.overview, now, msgspec.structs.replace(lost, why=error.message))


def sorted_screen(screen: Screen, sort: str) -> Screen:
    if screen.overview is None:
        return screen
    return msgspec.structs.replace(screen, overview=sorted_pods(screen.overview, sort))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _stamp(at: dt.datetime) -> str:
    return at.isoformat(timespec="milliseconds")
