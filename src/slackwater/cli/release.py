"""`slackwater release`: restores every value, by a running agent or from the ledger alone."""

import os
import sys
import time
from collections.abc import Iterable, Iterator

import click
import msgspec

from slackwater.agent.endpoint_client import ask_release
from slackwater.agent.node_writers import (
    CannotStartError,
    LedgerTakenError,
    NodePaths,
    release_all,
)
from slackwater.cli.agent import reporting_errors
from slackwater.cli.cluster_options import asking_cluster, cluster_options
from slackwater.cli.host_options import (
    folder_options,
    host_options,
    lasting_folder,
    make_roots,
)
from slackwater.cli.json_lines import clock_offset, encode_line
from slackwater.cli.output import Failed, Output, WrongSettings
from slackwater.model.gap import Gap
from slackwater.model.plan import Result
from slackwater.record.journal import JournalEntry

#: The exit code where nodes did not answer.
_SILENT = 3


@click.command()
@folder_options
@click.option(
    "--node",
    metavar="NAME",
    default="",
    help="Also remove what an agent which is gone left on this Node: its taint, its condition, the "
    "extended resources that it offered, and its NodeResourceTopology.",
)
@click.option(
    "--every-node",
    is_flag=True,
    help="Have the agents of the whole cluster restore everything, and wait until their Nodes say "
    "so. For uninstalling: nothing is noted on a node. `slackwater resume --every-node` ends it.",
)
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=60.0,
    show_default=True,
    help="With --every-node: how long. Who has not answered by then is named.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice([Output.TABLE.value, Output.JSON.value]),
    default=Output.TABLE.value,
    callback=lambda _context, _parameter, value: Output(value),
    show_default=True,
    envvar="SLACKWATER_OUTPUT",
    show_envvar=True,
    help="table for people; json is one line for each value, as in the agent's log.",
)
@cluster_options
@host_options
def release(
    state: str,
    lasting: str,
    node: str,
    every_node: bool,
    wait: float,
    output: Output,
    kubeconfig: str,
    context: str,
    namespace: str,
    cgroup_root: str,
    proc_root: str,
    sys_root: str,
    host_root: str,
    kubepods: str,
) -> None:
    """Restore every value that the agent changed.

    A running agent does it, asked over its socket, and is paused until `slackwater resume`, also
    over restarts. Without one it is done here, from the ledger alone; with --node the Node's taint
    interference.crane.io, its condition and extended resources and its NodeResourceTopology are
    removed too, if they are the agent's.

    \b
    Examples:
      slackwater release
      slackwater release -o json | jq -r .what
      slackwater release --node worker-1 --kubeconfig ~/.kube/config
      slackwater release --every-node                     before Slackwater is deleted

    \b
    Exit codes: 0 everything is restored, or nothing was changed; 1 a value could not be restored,
    or the cluster not be asked; 3 with --every-node: a node did not answer in time.
    """
    if every_node:
        if node:
            raise WrongSettings("--node and --every-node do not go together")
        _release_every_node(kubeconfig, context, namespace, wait)
        return
    entries: list[JournalEntry] = []
    left = 0
    lasting = lasting_folder(state, lasting)
    if os.path.isdir(state) or os.path.isdir(lasting):
        roots = make_roots(cgroup_root, proc_root, sys_root, host_root)
        paths = NodePaths(roots, kubepods, state, lasting)
        with reporting_errors():
            found, left = _release(paths)
            entries += found
    else:
        click.echo(f"slackwater: there is no {state}, so nothing was noted there", err=True)
    if output is Output.JSON:
        for entry in entries:
            click.echo(encode_line(entry, clock_offset()), nl=False)
    else:
        for line in describe_release(entries, left):
            click.echo(line)
    if node:
        _clear_node(node, kubeconfig, context)
    sys.exit(1 if left else 0)


def describe_release(entries: Iterable[JournalEntry], left: int) -> Iterator[str]:
    """What was done about each value, and how many there were."""
    restored = 0
    for entry in entries:
        done = entry.result in _RESTORED
        restored += done
        yield f"{entry.what}: {_describe_entry(entry)}"
    if left:
        many = "1 value" if left == 1 else f"{left} values"
        yield f"{many} could not be restored; run it again once the reason is gone"
    elif restored:
        yield f"{'1 value is' if restored == 1 else f'{restored} values are'} restored"
    else:
        yield "Nothing was changed by the agent, so nothing had to be restored"


_RESTORED = (Result.APPLIED.value, Result.UNCHANGED.value, Result.VANISHED.value)


def _describe_entry(entry: JournalEntry) -> str:
    match entry.result:
        case Result.APPLIED.value:
            return f"{entry.before} → {entry.after}"
        case Result.UNCHANGED.value:
            return f"is {entry.after} already"
        case Result.VANISHED.value:
            return "its cgroup is gone"
        case "":
            return entry.because
        case result:
            return f"{result}: {entry.because}"


def _release_every_node(kubeconfig: str, context: str, namespace: str, wait: float) -> None:
    from slackwater.manager.agent_release import release_every_node

    with asking_cluster(kubeconfig, context) as client:
        found = release_every_node(client, namespace, wait, time.monotonic, time.sleep)
    for name in found.released:
        click.echo(f"Node {name}: everything is restored")
    for name, why in found.silent.items():
        click.echo(f"Node {name}: {why}", err=True)
    for name in found.unattended:
        click.echo(
            f"Node {name}: no agent runs there, and its last report says that values of ours "
            "are in place: run `slackwater release` there, or reboot it",
            err=True,
        )
    if found.silent:
        count = len(found.silent)
        named = "1 node has" if count == 1 else f"{count} nodes have"
        click.echo(
            f"slackwater: {named} not answered within {wait:g} s; the others "
            f"({len(found.released)}) are released",
            err=True,
        )
        sys.exit(_SILENT)


def _clear_node(node: str, kubeconfig: str, context: str) -> None:
    """What is not ours stays. Raises Failed where it cannot be done."""
    from slackwater.contract.node_interference import NO_INTERFERENCE
    from slackwater.contract.node_offer import NO_OFFER
    from slackwater.execution.api_commands import ApiCommands
    from slackwater.execution.node_patch import FIELD_MANAGER
    from slackwater.execution.topology_writer import remove_own
    from slackwater.http.errors import RequestError
    from slackwater.kube.client import Client
    from slackwater.kube.credentials.discovery import find_access
    from slackwater.model.decision import Because
    from slackwater.model.plan import CommandState

    access = find_access(os.environ, kubeconfig, context)
    if isinstance(access, Gap):
        raise WrongSettings(access.reason)
    client = Client(access, FIELD_MANAGER)
    commands = ApiCommands(client, node, lambda: None, lambda: None)
    attempt = commands.mark_node(NO_INTERFERENCE, Because("released", "", ""))
    if attempt.state is not CommandState.DONE:
        raise Failed(f"taint and condition of node {node} stay: {attempt.detail}")
    attempt = commands.offer_resources(NO_OFFER)
    if attempt.state is not CommandState.DONE:
        raise Failed(f"the extended resources of node {node} stay: {attempt.detail}")
    try:
        remove_own(client, node)
    except (RequestError, msgspec.DecodeError) as error:
        raise Failed(f"the NodeResourceTopology of node {node} stays: {error}") from None


def _release(paths: NodePaths) -> tuple[Iterable[JournalEntry], int]:
    """By the agent that holds the ledger, or here if none does."""
    try:
        return release_all(paths, os.environ)
    except LedgerTakenError as taken:
        done = ask_release(paths.state)
        if isinstance(done, Gap):
            raise CannotStartError(f"{taken}; {done.reason}") from None
    said = "the running agent did it and is paused until `slackwater resume`"
    click.echo(f"slackwater: {said}", err=True)
    return done.entries, done.left
