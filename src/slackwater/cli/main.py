"""The console script: one click group, each command's machinery imported when it is used."""

import errno
import io
import os
import signal
import sys

import click

from slackwater import __version__
from slackwater.cli.agent import agent
from slackwater.cli.demo import demo
from slackwater.cli.doctor import doctor
from slackwater.cli.explain import explain
from slackwater.cli.install import install
from slackwater.cli.manager import manager
from slackwater.cli.rebalance import rebalance
from slackwater.cli.release import release
from slackwater.cli.replay import replay
from slackwater.cli.simulate import simulate
from slackwater.cli.status import status
from slackwater.cli.top import top

SHELLS = ("bash", "zsh", "fish")


@click.version_option(__version__, "-V", "--version", message="%(version)s")
@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def slackwater() -> None:
    """CPU quality of service for Kubernetes: batch work in the slack of latency-sensitive
    services.

    \b
    Start with:
      slackwater doctor          what this machine can do, what is wrong, what to do
      slackwater COMMAND --help  flags, environment variables, examples
    """


@slackwater.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


@slackwater.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a completion script for SHELL.

    \b
    Example:
      eval "$(slackwater completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click knows no completion for {shell}")
    click.echo(kind(slackwater, {}, "slackwater", "_SLACKWATER_COMPLETE").source())


for command in (
    demo, doctor, agent, manager, rebalance, status, explain, top, simulate, replay, release,
    install,
):  # fmt: skip
    slackwater.add_command(command)


def main() -> None:
    """Exit codes: 0 done, 1 it did not work or a problem was found, 2 wrong usage or settings."""
    if sys.stdout is None:
        click.echo("slackwater: the result cannot be written: standard output is closed", err=True)
        sys.exit(1)
    # What a terminal cannot spell is escaped, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # So that `finally` runs: a probe removes its scratch cgroup.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        slackwater(prog_name="slackwater")
    except OSError as error:
        # Only writing results is left to fail here: the reader has gone, the disk is full.
        _give_up_stdout()
        if error.errno != errno.EPIPE:
            click.echo(f"slackwater: the result cannot be written: {error.strerror}", err=True)
        sys.exit(1)


def _give_up_stdout() -> None:
    """Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
