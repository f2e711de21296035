"""`slackwater agent`: arguments into a program, entries into lines."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from slackwater.cli.cluster_options import NAMESPACE, access_options
from slackwater.cli.host_options import (
    LISTEN,
    folder_options,
    host_options,
    kubelet_config_option,
    lasting_folder,
    make_roots,
    path_option,
)
from slackwater.cli.json_lines import writing_entries
from slackwater.cli.listen import listen_address, listen_option
from slackwater.cli.output import Failed, WrongSettings
from slackwater.cli.settings import settings_options, texts_of
from slackwater.model.gap import Gap

if TYPE_CHECKING:
    from slackwater.agent.building import AgentOptions
    from slackwater.agent.cluster_connection import ClusterOptions
    from slackwater.agent.launch import (
        RunOptions,
    )
    from slackwater.agent.node_writers import (
        NodePaths,
    )


@click.command(short_help="The node agent: bounds batch work by what others leave.")
@click.option(
    "--standalone",
    default=None,
    metavar="DIR",
    envvar="SLACKWATER_STANDALONE",
    show_envvar=True,
    type=click.Path(exists=True, file_okay=False),
    help="Without a cluster: Pods, Node, ConfigMaps and settings as YAML files; watched.",
)
@click.option(
    "--node",
    metavar="NAME",
    default="",
    envvar=["SLACKWATER_NODE", "NODE_NAME", "KUBE_NODE_NAME"],
    show_envvar=True,
    help="Whose Node object counts. Without it: the host's name; in a folder, if there is no such "
    "Node, the last.",
)
@access_options
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default=NAMESPACE,
    show_default=True,
    envvar=["SLACKWATER_NAMESPACE", "POD_NAMESPACE", "KUBE_POD_NAMESPACE"],
    show_envvar=True,
    help="Where the ConfigMap slackwater-agent is: our settings.",
)
@click.option(
    "--volcano-namespace",
    metavar="NAME",
    default="",
    envvar=["SLACKWATER_VOLCANO_NAMESPACE", "KUBE_POD_NAMESPACE"],
    show_envvar=True,
    help="Where the ConfigMap volcano-agent-configuration is. Default: the same namespace.",
)
@listen_option(
    "/metrics, /healthz and /readyz", f"Default: {LISTEN}; none with --once or --dry-run."
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
@click.option("--dry-run", is_flag=True, help="Plan and log, write nothing. Needs no ledger.")
@click.option(
    "--on-exit",
    type=click.Choice(["keep", "release"]),
    default="keep",
    show_default=True,
    envvar="SLACKWATER_ON_EXIT",
    show_envvar=True,
    help="What becomes of the values that the agent set.",
)
@click.option(
    "--evict-by-signal",
    is_flag=True,
    envvar="SLACKWATER_EVICT_BY_SIGNAL",
    show_envvar=True,
    help="With --standalone: evict pods by SIGTERM, and SIGKILL after the grace period. Without "
    "it evictions are only logged.",
)
@folder_options
@path_option(
    "--nri-socket",
    "",
    "Where the container runtime asks plugins, for agent.interceptStarts. Default: "
    "var/run/nri/nri.sock below the host's /.",
)
@host_options
@kubelet_config_option
@settings_options
def agent(
    standalone: str | None,
    node: str,
    kubeconfig: str,
    context: str,
    namespace: str,
    volcano_namespace: str,
    listen: str | None,
    supported_features: str,
    once: bool,
    dry_run: bool,
    on_exit: str,
    evict_by_signal: bool,
    state: str,
    lasting: str,
    nri_socket: str,
    cgroup_root: str,
    proc_root: str,
    sys_root: str,
    host_root: str,
    kubepods: str,
    kubelet_config: str,
    **settings: str | None,
) -> None:
    """The node agent: throttles best-effort work by what others leave.

    Pods, its Node and the configuration come from the cluster, or with --standalone from a folder.
    Prints one line of JSON for each effect, and for each reason why there is none.

    \b
    Examples:
      slackwater agent                                 in a pod, or as ~/.kube/config says
      slackwater agent --standalone ./node             watch ./node, decide every second
      slackwater agent --once --dry-run                log once what would be done
      slackwater release                               restore everything

    \b
    Exit codes: 0 stopped on request; 1 it cannot run here, with --once also a value that could
    not be set; 2 wrong usage or settings.
    """
    from slackwater.agent.building import AgentOptions
    from slackwater.agent.dependencies import (
        CommandLineOverrides,
    )
    from slackwater.agent.launch import (
        RunOptions,
    )
    from slackwater.agent.node_writers import (
        NodePaths,
    )

    host, cluster = os.uname().nodename, None
    if evict_by_signal and standalone is None:
        raise WrongSettings(
            "--evict-by-signal needs --standalone: in a cluster pods are evicted by its API server"
        )
    if standalone is None:
        # The kubelet registers its host by the name in lower case.
        node = node or host.lower()
        cluster = _cluster(kubeconfig, context, node, namespace, volcano_namespace or namespace)
    orders = CommandLineOverrides(node, host, texts_of(settings), _features(supported_features))
    roots = make_roots(cgroup_root, proc_root, sys_root, host_root, kubelet_config)
    lasts = lasting_folder(state, lasting)
    paths = NodePaths(roots, kubepods, state, lasts, nri_socket)
    # A dry run may run beside an agent, which listens there.
    address = listen_address(listen, "" if once or dry_run else LISTEN)
    options = AgentOptions(standalone or "", orders, dry_run, cluster, evict_by_signal)
    sys.exit(_run(paths, options, RunOptions(address, once, on_exit)))


def _run(paths: "NodePaths", options: "AgentOptions", how: "RunOptions") -> int:
    from slackwater.agent.launch import run_agent, share_one_arena

    share_one_arena()  # before the first thread
    with writing_entries() as write, reporting_errors():
        return run_agent(paths, options, how, os.environ, write)


@contextlib.contextmanager
def reporting_errors() -> Iterator[None]:
    """What is missing here exits with 1, what is set wrongly with 2."""
    from slackwater.agent.launch import (
        SettingsProblemError,
    )
    from slackwater.agent.node_writers import (
        CannotStartError,
    )
    from slackwater.observation.detection import EnvironmentValueError
    from slackwater.runtime.http_exchange import CannotListenError

    try:
        yield
    except (EnvironmentValueError, SettingsProblemError) as error:
        raise WrongSettings(str(error)) from None
    except (CannotStartError, CannotListenError) as error:
        raise Failed(str(error)) from None


def _cluster(
    kubeconfig: str, context: str, node: str, namespace: str, volcano_namespace: str
) -> "ClusterOptions":
    from slackwater.agent.cluster_connection import ClusterOptions
    from slackwater.kube.credentials.discovery import find_access

    access = find_access(os.environ, kubeconfig, context)
    if isinstance(access, Gap):
        raise WrongSettings(f"{access.reason}; without a cluster use --standalone DIR")
    return ClusterOptions(access, node, namespace, volcano_namespace)


def _features(listed: str) -> tuple[str, ...]:
    from slackwater.contract.volcano.node import read_features
    from slackwater.model.problem import InvalidError

    try:
        return read_features(listed, "--supported-features")
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
