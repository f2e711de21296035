"""`slackwater release`: restores every value, by a running agent or from the ledger alone."""

import os
import sys
from collections.abc import Iterable

import click

from slackwater.agent.endpoint_client import ask_release
from slackwater.agent.launch import CannotStartError, LedgerTakenError, NodePaths, release_all
from slackwater.cli.agent import reporting_errors
from slackwater.cli.host_options import STATE, host_options, make_roots, path_option
from slackwater.cli.json_lines import clock_offset, encode_line
from slackwater.model.gap import Gap
from slackwater.record.journal import JournalEntry


@click.command()
@path_option("--state", STATE, "Where the ledger is kept.")
@host_options
def release(
    state: str, cgroup_root: str, proc_root: str, sys_root: str, host_root: str, kubepods: str
) -> None:
    """Restore every value that the agent changed.

    A running agent does it, asked over its endpoint, and is paused until it is restarted. Without
    one it is done here, from the ledger alone.

    \b
    Example:
      slackwater release

    \b
    Exit codes: 0 everything is restored, or nothing was changed; 1 a value could not be restored.
    """
    if not os.path.isdir(state):
        click.echo(f"slackwater: there is no {state}, so nothing was noted there", err=True)
        return
    paths = NodePaths(make_roots(cgroup_root, proc_root, sys_root, host_root), kubepods, state)
    with reporting_errors():
        entries, left = _release(paths)
    for entry in entries:
        click.echo(encode_line(entry, clock_offset()), nl=False)
    sys.exit(1 if left else 0)


def _release(paths: NodePaths) -> tuple[Iterable[JournalEntry], int]:
    """By the agent that holds the ledger, or here if none does."""
    try:
        return release_all(paths, os.environ)
    except LedgerTakenError as taken:
        done = ask_release(paths.state)
        if isinstance(done, Gap):
            raise CannotStartError(f"{taken}; {done.reason}") from None
    click.echo("slackwater: the running agent did it and is paused until it is restarted", err=True)
    return done.entries, done.left
