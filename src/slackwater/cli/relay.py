"""`slackwater relay`: what --node runs in the agent's pod."""

import sys

import click

from slackwater.cli.agent_client import find_agent, socket_options


@click.command(short_help="Requests from stdin to the agent's socket, for --node.")
@socket_options
def relay(agent: str, state: str) -> None:
    """Pass requests from standard input to a running agent, and its answers to standard output.

    This is what --node runs in the agent's pod. A request is a line with a path; an answer is a
    line of JSON with its status and its length in bytes, and the body after it. Nothing can be
    changed this way.

    \b
    Example:
      echo /v1/top | slackwater relay

    \b
    Exit codes: 0 the requests have ended; 2 wrong usage.
    """
    from slackwater.agent.relay import relay_requests

    def write(answer: bytes) -> None:
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()

    relay_requests(find_agent(agent, state), sys.stdin.buffer, write)
