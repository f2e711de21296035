"""`slackwater top`: a running agent's view of its node, live or once.

The live view survives an agent that is away for a while.
"""

import contextlib
import datetime as dt
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import click
import msgspec
from rich.console import Console
from rich.live import Live

from slackwater.cli.agent_client import AgentSource, NoAnswer, ask_overview
from slackwater.cli.agent_source import agent_options
from slackwater.cli.output import (
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.terminal import print_blocks, text_width
from slackwater.cli.top_view import ConnectionLoss, Screen, plain_blocks, sort_pods
from slackwater.model.units import DurationError, parse_duration
from slackwater.record.overview import Overview

#: The agent reads single pods only on request, and a rate needs two readings.
_LOOKS = 2
_PATIENCE = 5.0
_BETWEEN_LOOKS = 0.2
_SHORTEST, _LONGEST = 100_000, 60_000_000
#: Seconds. An agent that takes longer counts as lost, and the keyboard must not wait.
_ANSWER_TIMEOUT = 2.0
_QUIT = ("q", "Q", "\x03", "\x04")
_SORTS = {"u": "usage", "t": "throttled", "n": "name"}


def _interval(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    try:
        found = parse_duration(text, "--interval")
    except DurationError as error:
        raise WrongSettings(str(error)) from None
    if not _SHORTEST <= found <= _LONGEST:
        raise WrongSettings(f"--interval is {text}; it must lie in 100ms to 1m")
    return found / 1_000_000


@click.command(short_help="Live view of a node: usage, quotas, throttling, pressure.")
@click.option("--once", is_flag=True, help="One table, then exit; the default without a terminal.")
@click.option(
    "--sort",
    type=click.Choice(["usage", "throttled", "name"]),
    default="usage",
    show_default=True,
    envvar="SLACKWATER_SORT",
    show_envvar=True,
    help="The order of the pods.",
)
@click.option(
    "--interval",
    default="1s",
    metavar="DURATION",
    callback=_interval,
    show_default=True,
    envvar="SLACKWATER_INTERVAL",
    show_envvar=True,
    help="How often to ask the agent; 100ms to 1m.",
)
@agent_options
@output_options
def top(
    once: bool,
    sort: str,
    interval: float,
    agent: AgentSource,
    output: Output,
    no_color: bool,
) -> None:
    """Live view of a node: usage, quotas, throttling and pressure of tiers and pods.

    Ends with q or Ctrl-C.

    \b
    Examples:
      slackwater top                         live
      slackwater top --node node-a           another node, through the API server
      slackwater top --once                  one table
      slackwater top --once -o wide          with containers
      slackwater top -o json | jq '.pods[] | {name, usage, quota}'

    \b
    Exit codes: 0 shown, 1 no agent answers, 2 wrong usage.
    """
    live = output in (Output.TABLE, Output.WIDE) and not once and sys.stdout.isatty()
    if live:
        with contextlib.suppress(KeyboardInterrupt):
            show_live(agent, sort, interval, wants_colour(no_color))
        return
    _print_once(_ask_until_measured(agent), sort, output, wants_colour(no_color))


def _ask_until_measured(agent: AgentSource) -> Overview:
    """The node once pods were read twice; what is known by then, if the agent is slow."""
    first = ask_overview(agent)
    found, deadline = first, time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and not _is_measured(first, found):
        time.sleep(_BETWEEN_LOOKS)
        with contextlib.suppress(NoAnswer):
            found = ask_overview(agent)
    return found


def _is_measured(first: Overview, found: Overview) -> bool:
    if found.state in ("blind", "starting"):
        return found.state == "blind"
    return found.tick >= first.tick + _LOOKS or any(pod.usage is not None for pod in found.pods)


def _print_once(overview: Overview, sort: str, output: Output, colour: bool) -> None:
    shown = sort_pods(overview, sort)
    if output in (Output.JSON, Output.YAML):
        print_data(shown, output)
        return

    print_blocks(plain_blocks(shown, text_width(), wide=output is Output.WIDE), colour)


class Keyboard:
    """Keys as they are pressed, without Enter. Nothing is ever pressed without a terminal."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._fd is not None and self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """What was pressed within this time; empty if nothing was."""
        watched = [] if self._fd is None else [self._fd]
        ready, _, _ = select.select(watched, [], [], max(seconds, 0))
        if not ready or self._fd is None:
            return ""
        pressed = os.read(self._fd, 32)
        if not pressed:
            self._fd = None  # the terminal hung up
        return pressed.decode("ascii", "replace")


def show_live(agent: AgentSource, sort: str, interval: float, colour: bool) -> None:
    """Until q is pressed. The first request must succeed, so a wrong socket fails at once."""
    screen = Screen(ask_overview(agent, _ANSWER_TIMEOUT), _now())
    console = Console(highlight=False, color_system="auto" if colour else None)
    with (
        Keyboard() as keyboard,
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while True:
            live.update(sort_screen(screen, sort), refresh=True)
            key = keyboard.wait(interval)
            if any(letter in _QUIT for letter in key):
                return
            sort = _SORTS.get(key, sort)
            screen = next_screen(screen, lambda: ask_overview(agent, _ANSWER_TIMEOUT), _now())


def next_screen(before: Screen, look: Callable[[], Overview], now: dt.datetime) -> Screen:
    """The next screen; without an answer the last one stays, and says so."""
    try:
        return Screen(look(), now)
    except NoAnswer as error:
        lost = before.lost or ConnectionLoss("", _format_time(now), _format_time(before.now))
        return Screen(before.overview, now, msgspec.structs.replace(lost, why=error.message))


def sort_screen(screen: Screen, sort: str) -> Screen:
    if screen.overview is None:
        return screen
    return msgspec.structs.replace(screen, overview=sort_pods(screen.overview, sort))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _format_time(at: dt.datetime) -> str:
    return at.isoformat(timespec="milliseconds")
