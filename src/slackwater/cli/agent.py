"""`slackwater agent` and `slackwater release`: arguments into a program, entries into lines."""

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from slackwater.cli.output import WrongSettings
from slackwater.cli.place import path_option, place_options, roots_of
from slackwater.cli.settings import settings_options, texts_of
from slackwater.record.journal import Entry

if TYPE_CHECKING:
    from slackwater.agent.wiring import Built

#: A rate needs two readings.
_LOOKS = 2
_STATE = path_option("--state", "/var/lib/slackwater", "Where the ledger is kept.")


@click.command()
@click.option(
    "--standalone",
    required=True,
    metavar="DIR",
    envvar="SLACKWATER_STANDALONE",
    show_envvar=True,
    type=click.Path(exists=True, file_okay=False),
    help="Pods, Node, ConfigMaps and settings as YAML files; watched.",
)
@click.option(
    "--node",
    metavar="NAME",
    default="",
    envvar=["SLACKWATER_NODE", "NODE_NAME"],
    show_envvar=True,
    help="Whose Node object counts. Without it: the host's name if there is one, else the last.",
)
@click.option("--once", is_flag=True, help="Two looks and one decision, then exit.")
@click.option("--dry-run", is_flag=True, help="Plan and tell, write nothing. Needs no ledger.")
@click.option(
    "--on-exit",
    type=click.Choice(["keep", "release"]),
    default="keep",
    show_default=True,
    envvar="SLACKWATER_ON_EXIT",
    show_envvar=True,
    help="What becomes of the values that the agent set.",
)
@_STATE
@place_options
@settings_options
def agent(
    standalone: str,
    node: str,
    once: bool,
    dry_run: bool,
    on_exit: str,
    state: str,
    cgroup_root: str,
    proc_root: str,
    sys_root: str,
    host_root: str,
    kubepods: str,
    **settings: str | None,
) -> None:
    """The node agent, without a cluster: throttles best-effort work by what others leave.

    Prints one line of JSON for each effect, and for each reason why there is none.

    \b
    Examples:
      slackwater agent --standalone ./node             watch ./node, decide every second
      slackwater agent --standalone ./node --once      decide once, then exit
      slackwater agent --standalone ./node --dry-run   only say what would be done
      slackwater release                               put everything back

    \b
    Exit codes: 0 ended as asked, 1 it cannot work here, 2 wrong usage or settings.
    """
    from slackwater.agent.program import Orders
    from slackwater.agent.wiring import Job, Place, build_agent, now

    place = Place(roots_of(cgroup_root, proc_root, sys_root, host_root), kubepods, state)
    job = Job(standalone, Orders(node, os.uname().nodename, texts_of(settings)), dry_run)
    with _one_sentence():
        built = build_agent(place, job, os.environ, _print)
    built.waiter.stop_on(signal.SIGTERM, signal.SIGINT)
    left = 0
    try:
        problems = built.agent.start(now())
        if problems:
            raise WrongSettings("; ".join(problems))
        try:
            _go_round(built, range(_LOOKS) if once else itertools.count())
        finally:
            if on_exit == "release":
                left = built.agent.release(now(), "released at exit").left
    finally:
        built.agent.close()
    sys.exit(1 if left else 0)


def _go_round(built: "Built", rounds: Iterable[int]) -> None:
    """Round after round, until a signal asks for an end."""
    from slackwater.agent.waiting import Woken
    from slackwater.agent.wiring import now

    for _ in rounds:
        woken = built.waiter.wait(built.agent.pause(now()))
        if woken is Woken.STOP:
            return
        built.agent.once(now(), early=woken is not Woken.DUE)


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """What is missing here exits with 1, what is set wrongly with 2."""
    from slackwater.agent.wiring import CannotStart
    from slackwater.observation.detection import EnvironmentValueError

    try:
        yield
    except EnvironmentValueError as error:
        raise WrongSettings(str(error)) from None
    except CannotStart as error:
        raise click.ClickException(str(error)) from None


@click.command()
@_STATE
@place_options
def release(
    state: str, cgroup_root: str, proc_root: str, sys_root: str, host_root: str, kubepods: str
) -> None:
    """Put every touched value back, from the ledger alone. The agent must not be running.

    \b
    Example:
      slackwater release

    \b
    Exit codes: 0 all is back, or nothing was touched; 1 something could not be put back.
    """
    from slackwater.agent.wiring import Place, release_all

    if not os.path.isdir(state):
        click.echo(f"slackwater: there is no {state}, so nothing was noted there", err=True)
        return
    place = Place(roots_of(cgroup_root, proc_root, sys_root, host_root), kubepods, state)
    with _one_sentence():
        entries, left = release_all(place, os.environ)
    for entry in entries:
        _print(entry)
    sys.exit(1 if left else 0)


def _print(entry: Entry) -> None:
    """A log that cannot be written ends no control loop: stderr hears of it, once."""
    try:
        click.echo(msgspec.json.encode(entry))
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        with contextlib.suppress(OSError):
            click.echo(f"slackwater: no more entries on stdout: {error.strerror}", err=True)
