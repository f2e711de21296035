"""`slackwater top`: a running agent's view of its node, live or once."""

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import click

from slackwater.cli.agent_client import Address, NoAnswer, agent_options, ask_overview, find_agent
from slackwater.cli.output import (
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.settings.duration import DurationError, parse_duration

if TYPE_CHECKING:
    from slackwater.record.overview import Overview

#: The agent reads single pods only while somebody looks, and a rate needs two readings.
_LOOKS = 2
_PATIENCE = 5.0
_BETWEEN_LOOKS = 0.2
_SHORTEST, _LONGEST = 100_000, 60_000_000


def _interval(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    try:
        found = parse_duration(text, "--interval")
    except DurationError as error:
        raise WrongSettings(str(error)) from None
    if not _SHORTEST <= found <= _LONGEST:
        raise WrongSettings(f"--interval is {text}; it must lie in 100ms to 1m")
    return found / 1_000_000


@click.command()
@click.option("--once", is_flag=True, help="One table, then exit; so it is without a terminal.")
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
    help="How often the agent is asked; 100ms to 1m.",
)
@agent_options
@output_options
def top(
    once: bool,
    sort: str,
    interval: float,
    agent: str,
    state: str,
    output: Output,
    no_color: bool,
) -> None:
    """Live view of a node: usage, quotas, throttling and pressure of tiers and pods.

    Ends with q or Ctrl-C.

    \b
    Examples:
      slackwater top                         live
      slackwater top --once                  one table
      slackwater top --once -o wide          with containers
      slackwater top -o json | jq '.pods[] | {name, usage, quota}'

    \b
    Exit codes: 0 shown, 1 no agent answers, 2 wrong usage.
    """
    address = find_agent(agent, state)
    live = output in (Output.TABLE, Output.WIDE) and not once and sys.stdout.isatty()
    if live:
        from slackwater.cli.top_live import watch

        with contextlib.suppress(KeyboardInterrupt):
            watch(address, sort, interval, wants_colour(no_color))
        return
    _print_once(_settled(address), sort, output, wants_colour(no_color))


def _settled(address: Address) -> "Overview":
    """The node once pods were read twice; what is there by then, if the agent is slow."""
    first = ask_overview(address)
    found, deadline = first, time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and not _is_settled(first, found):
        time.sleep(_BETWEEN_LOOKS)
        with contextlib.suppress(NoAnswer):
            found = ask_overview(address)
    return found


def _is_settled(first: "Overview", found: "Overview") -> bool:
    if found.state in ("blind", "starting"):
        return found.state == "blind"
    return found.tick >= first.tick + _LOOKS or any(pod.usage is not None for pod in found.pods)


def _print_once(overview: "Overview", sort: str, output: Output, colour: bool) -> None:
    from slackwater.cli.top_table import sorted_pods

    shown = sorted_pods(overview, sort)
    if output in (Output.JSON, Output.YAML):
        print_data(shown, output)
        return
    from slackwater.cli.printing import print_blocks, text_width
    from slackwater.cli.top_view import plain_blocks

    print_blocks(plain_blocks(shown, text_width(), wide=output is Output.WIDE), colour)
