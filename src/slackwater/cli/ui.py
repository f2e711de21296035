"""`slackwater ui`: a local web page about a cluster or one agent. It reads and never writes."""

import os
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec
from click.core import ParameterSource

from slackwater.agent.agent_socket import socket_path
from slackwater.cli.agent_client import SocketAgent, find_agent, socket_options
from slackwater.cli.cluster_options import cluster_options, find_cluster_access
from slackwater.cli.output import Failed, WrongSettings
from slackwater.cli.replay import contents

if TYPE_CHECKING:
    from slackwater.kube.access import Access
    from slackwater.ui.sources import PageSources

_HIGHEST_PORT = 65535
_PACKAGES = ("starlette", "uvicorn", "jinja2", "markupsafe")


class PageOptions(msgspec.Struct, frozen=True):
    """What the command line says."""

    agent: str
    state: str
    kubeconfig: str
    context: str
    namespace: str
    recording: str
    prometheus_endpoint: str
    rebalance_file: str


@click.command(short_help="A local web page: the whole cluster, or one node live.")
@click.option(
    "--recording",
    metavar="FILE",
    default="",
    help="A recording (`slackwater record`) for the page What if. Default: the agent's last ticks.",
)
@click.option(
    "--prometheus-endpoint",
    metavar="URL",
    default="",
    envvar="SLACKWATER_PROMETHEUS_ENDPOINT",
    show_envvar=True,
    help="Where histories are, for forecasts and rotation plans. Without it forecasts have no "
    "history beside them, and plans go by metrics.k8s.io.",
)
@click.option(
    "--file",
    "rebalance_file",
    metavar="FILE",
    default="",
    envvar="SLACKWATER_REBALANCE_FILE",
    show_envvar=True,
    help="A RebalancerSettings document, for the page Rotation.",
)
@click.option(
    "--port",
    type=click.IntRange(0, _HIGHEST_PORT),
    default=0,
    envvar="SLACKWATER_UI_PORT",
    show_envvar=True,
    show_default=True,
    help="The port of 127.0.0.1; 0 is any free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in this machine's browser.")
@socket_options
@cluster_options
def ui(port: int, opens: bool, **said: str) -> None:
    """A local web page about a cluster, or about one agent: nodes at a glance, one node live with
    the reason of each value, policies, rotation plans, and what another threshold would change.

    Listens on 127.0.0.1 alone, at an address with a secret in it, until Ctrl-C. Reads with your own
    rights, and changes nothing. It is about the cluster of your kubeconfig; where there is none, or
    with --agent or --state, about the agent of this machine.

    \b
    Examples:
      slackwater ui --open                       the cluster of the kubeconfig
      slackwater ui --context staging            another one
      slackwater ui --state ./state              a standalone agent with this --state
      slackwater ui --recording node.jsonl       a recording, for the page What if

    \b
    Exit codes: 0 ended by Ctrl-C; 1 it cannot listen, or there is nothing to show; 2 wrong usage.
    """
    try:
        _serve(PageOptions(**said), port, opens)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise Failed(
            f"the page needs the package {error.name}: pip install '.[ui]' in Slackwater's source"
        ) from None


def _serve(options: PageOptions, port: int, opens: bool) -> None:
    from slackwater.ui.application import build_application
    from slackwater.ui.page_server import CannotOpenPageError, serve

    with _open_sources(options) as (sources, about):

        def ready(address: str) -> None:
            click.echo(f"{about}: {address}")
            click.echo("The address has a secret in it. Ctrl-C ends the page.", err=True)
            if opens and not webbrowser.open(address):
                click.echo("slackwater: no browser could be opened", err=True)

        try:
            serve(build_application(sources, about), port, ready)
        except CannotOpenPageError as error:
            raise Failed(str(error)) from None


@contextmanager
def _open_sources(options: PageOptions) -> "Iterator[tuple[PageSources, str]]":
    """What the page is about, and its name."""
    from slackwater.cli.ui_sources import (
        AskedAgent,
        ClusterChoices,
        KubeconfigCluster,
        read_recording,
    )
    from slackwater.ui.sources import NotAvailableError, PageSources

    recording = None
    if options.recording:
        try:
            recording = read_recording(contents(options.recording), options.recording)
        except NotAvailableError as error:
            raise WrongSettings(str(error)) from None
    shared = PageSources(recording=recording, recording_name=options.recording)
    access = None if _names_agent() else _find_cluster(options)
    if access is not None:
        cluster = KubeconfigCluster(
            access,
            ClusterChoices(options.namespace, options.prometheus_endpoint, options.rebalance_file),
        )
        cluster.start()
        try:
            found = msgspec.structs.replace(
                shared, cluster=cluster, rotation_file=bool(options.rebalance_file)
            )
            yield found, f"cluster {access.server}"
        finally:
            cluster.stop()
        return
    if recording is not None and not _names_agent() and not _has_socket(options):
        yield shared, f"recording {options.recording}"
        return
    socket = find_agent(options.agent, options.state)
    agent = AskedAgent(SocketAgent(socket), f"the agent at {socket}")
    yield msgspec.structs.replace(shared, agent=agent), f"agent {socket}"


def _find_cluster(options: PageOptions) -> "Access | None":
    """None where neither a flag nor a kubeconfig names one, and there is an agent or a recording to
    look at."""
    try:
        return find_cluster_access(options.kubeconfig, options.context)
    except Failed:
        named = options.kubeconfig or options.context or os.environ.get("KUBECONFIG")
        if named or not (_has_socket(options) or options.recording):
            raise
        return None


def _has_socket(options: PageOptions) -> bool:
    return os.path.exists(socket_path(options.state))


def _names_agent() -> bool:
    command = click.get_current_context()
    default = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)
    return any(command.get_parameter_source(name) not in default for name in ("agent", "state"))
