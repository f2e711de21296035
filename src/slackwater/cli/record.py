"""`slackwater record`: writes a running agent's last ticks as a recording."""

import sys

import click

from slackwater.cli.agent_client import AgentSource, fetch
from slackwater.cli.agent_source import agent_options

#: A journal may have 3600 ticks.
_PATIENCE = 60.0


@click.command(short_help="The last ticks of a running agent, for replay.")
@agent_options
def record(agent: AgentSource) -> None:
    """Write the last ticks of a running agent to standard output, for `slackwater replay`.

    \b
    Examples:
      slackwater record > node.jsonl
      slackwater record --node node-a > node.jsonl

    \b
    Exit codes: 0 written, 1 no agent answers, 2 wrong usage.
    """
    ticks = fetch(agent, "/v1/ticks", {}, _PATIENCE)
    # A broken pipe while flushing is main's to report.
    sys.stdout.buffer.write(ticks)
    sys.stdout.flush()
