"""The console script: a click group that imports a command's module only when that command runs."""

import errno
import importlib
import io
import os
import signal
import sys

import click

from slackwater import __version__

SHELLS = ("bash", "zsh", "fish")
#: Each is a function of the same name in a module of the same name. Importing them all would cost
#: the agent the memory of rich, which it never uses.
COMMANDS = (
    "demo", "doctor", "agent", "manager", "rebalance", "status", "explain", "top", "cpus",
    "simulate", "record", "replay", "release", "resume", "install", "forecast", "calibrate",
    "normalize", "relay", "report", "schema", "ui",
)  # fmt: skip


class LazyGroup(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        found = getattr(importlib.import_module(f"slackwater.cli.{cmd_name}"), cmd_name)
        return found if isinstance(found, click.Command) else None


@click.version_option(__version__, "-V", "--version", message="%(version)s")
@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
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


def main(program: str = "slackwater") -> None:
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
        slackwater(prog_name=program)
    except OSError as error:
        # Only writing results is left to fail here: the reader has gone, the disk is full.
        _give_up_stdout()
        if error.errno != errno.EPIPE:
            click.echo(f"slackwater: the result cannot be written: {error.strerror}", err=True)
        sys.exit(1)


def _give_up_stdout() -> None:
    """Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
