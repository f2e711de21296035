"""`slackwater agent` and `slackwater release`: arguments into a program, entries into lines."""

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from slackwater.cli.lines import Lines, encoded, offset
from slackwater.cli.output import WrongSettings
from slackwater.cli.place import LISTEN, STATE, path_option, place_options, roots_of
from slackwater.cli.settings import settings_options, texts_of
from slackwater.model.gap import Gap
from slackwater.record.journal import Entry

if TYPE_CHECKING:
    from slackwater.agent.endpoint_note import Address
    from slackwater.agent.voice import Tell
    from slackwater.agent.wiring import Built, Place

_LISTEN_VARIABLE = "SLACKWATER_LISTEN"
#: A rate needs two readings.
_LOOKS = 2
#: Seconds for a reader of stdout to take what is left at the end.
_LAST_WORDS = 2.0
_STATE = path_option("--state", STATE, "Where the ledger is kept.")


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
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    envvar=_LISTEN_VARIABLE,
    show_envvar=True,
    help="Where /metrics, /healthz, /readyz and /v1/... are asked for; port 0 is any free one, "
    f'"" is nowhere. {LISTEN}; with --once or --dry-run nowhere.',
)
@click.option(
    "--supported-features",
    metavar="LIST",
    default="*",
    show_default=True,
    envvar="SLACKWATER_SUPPORTED_FEATURES",
    show_envvar=True,
    help="Which of Volcano's features its ConfigMap may switch on: names, -names, or *.",
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
    listen: str | None,
    supported_features: str,
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
    Exit codes: 0 ended as asked; 1 it cannot work here, with --once also a value that could
    not be set; 2 wrong usage or settings.
    """
    from slackwater.agent.program import Orders
    from slackwater.agent.wiring import Job, Place, build_agent, now

    # A dry run may run beside an agent, which listens there.
    address = _address(listen, "" if once or dry_run else LISTEN)
    place = Place(roots_of(cgroup_root, proc_root, sys_root, host_root), kubepods, state)
    features = _features(supported_features)
    orders = Orders(node, os.uname().nodename, texts_of(settings), features)
    job = Job(standalone, orders, dry_run)
    lines = Lines(sys.stdout.fileno(), now)
    try:
        with _one_sentence():
            built = build_agent(place, job, os.environ, lines.tell)
        built.waiter.stop_on(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        with _started(built), _listening(built, address, "" if dry_run else state, lines.tell):
            left = _go_round(built, range(_LOOKS) if once else itertools.count(), on_exit)
    finally:
        lines.close(_LAST_WORDS)
    sys.exit(1 if left or (once and _failed(built)) else 0)


def _failed(built: "Built") -> bool:
    """Whether something that was to be done in the last round could not be."""
    from slackwater.model.plan import Result

    latest = built.board.journal.latest
    done = latest.outcomes if latest else ()
    return any(each.result in (Result.REFUSED, Result.UNSUPPORTED) for each in done)


def _features(listed: str) -> tuple[str, ...]:
    from slackwater.contract.document import ContractError
    from slackwater.contract.volcano_node import read_features

    try:
        return read_features(listed, "--supported-features")
    except ContractError as error:
        raise WrongSettings(str(error)) from None


def _address(said: str | None, default: str) -> "Address | None":
    """None where nobody is to ask. An empty variable, which click takes for none, says that too."""
    from slackwater.agent.endpoint_note import AddressError, parse_address

    text = os.environ.get(_LISTEN_VARIABLE, default) if said is None else said
    try:
        return parse_address(text) if text else None
    except AddressError as error:
        raise WrongSettings(str(error)) from None


@contextlib.contextmanager
def _started(built: "Built") -> Iterator[None]:
    from slackwater.agent.wiring import now

    try:
        problems = built.agent.start(now())
        if problems:
            raise WrongSettings("; ".join(problems))
        yield
    finally:
        built.agent.close()


@contextlib.contextmanager
def _listening(
    built: "Built", address: "Address | None", state: str, tell: "Tell"
) -> Iterator[None]:
    """Without a state folder, in a dry run, nothing is noted there."""
    from slackwater.agent.endpoint_note import remove_note
    from slackwater.agent.wiring import now

    def say(sentence: str) -> None:
        tell(Entry(0, now(), "endpoint", because=sentence))

    if state:
        remove_note(state)  # the ledger is ours, so this is a dead agent's
    if address is None:
        yield
        return
    from slackwater.agent.endpoint import Endpoint

    endpoint = Endpoint.open(address, state, built.board, now, say)
    if isinstance(endpoint, Gap):
        raise click.ClickException(endpoint.reason)
    say(f"listening on http://{endpoint.address}")
    try:
        yield
    finally:
        endpoint.close()


def _go_round(built: "Built", rounds: Iterable[int], on_exit: str) -> int:
    """Round after round, until a signal asks for an end; how many knobs could then not be put
    back."""
    from slackwater.agent.spare_memory import give_back_spare_memory
    from slackwater.agent.waiting import Woken
    from slackwater.agent.wiring import now

    give_back_spare_memory()
    left = 0
    try:
        for _ in rounds:
            woken = built.waiter.wait(built.agent.pause(now()))
            if woken is Woken.STOP:
                break
            built.agent.once(now(), early=woken is not Woken.DUE)
    finally:
        if on_exit == "release":
            left = built.agent.release(now(), "released at exit").left
    return left


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
    """Put every touched value back.

    A running agent is asked to do it over its endpoint, and rests until it is restarted. Without
    one it is done here, from the ledger alone.

    \b
    Example:
      slackwater release

    \b
    Exit codes: 0 all is back, or nothing was touched; 1 something could not be put back.
    """
    from slackwater.agent.wiring import Place

    if not os.path.isdir(state):
        click.echo(f"slackwater: there is no {state}, so nothing was noted there", err=True)
        return
    place = Place(roots_of(cgroup_root, proc_root, sys_root, host_root), kubepods, state)
    with _one_sentence():
        entries, left = _released(place)
    for entry in entries:
        click.echo(encoded(entry, offset()), nl=False)
    sys.exit(1 if left else 0)


def _released(place: "Place") -> tuple[Iterable[Entry], int]:
    """By whoever holds the ledger: an agent, or nobody and so we."""
    from slackwater.agent.endpoint_client import ask_release
    from slackwater.agent.wiring import CannotStart, Occupied, release_all

    try:
        return release_all(place, os.environ)
    except Occupied as occupied:
        done = ask_release(place.state)
        if isinstance(done, Gap):
            raise CannotStart(f"{occupied}; {done.reason}") from None
    click.echo("slackwater: the running agent did it, and rests until it is restarted", err=True)
    return done.entries, done.left
