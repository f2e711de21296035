"""`slackwater agent`: arguments into a program, entries into lines."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

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
from slackwater.model.problem import quoted

if TYPE_CHECKING:
    from slackwater.agent.building import AgentOptions
    from slackwater.agent.cluster_connection import ClusterOptions
    from slackwater.agent.dependencies import CommandLineOverrides
    from slackwater.agent.launch import RunOptions
    from slackwater.agent.node_writers import NodePaths
    from slackwater.kube.access import Access
    from slackwater.observation.objects.object_set import Objects


@click.command(short_help="The node agent: bounds batch work by what others leave.")
@click.option(
    "--standalone",
    default=None,
    metavar="DIR",
    envvar="SLACKWATER_STANDALONE",
    show_envvar=True,
    help="Without a cluster: Pods, Node, ConfigMaps and settings as YAML files; watched.",
)
@click.option(
    "--scratch",
    is_flag=True,
    help="With --standalone: make cgroups for the pods of DIR, with a busy process in each of the "
    "first two, and remove it all at the end. For a machine without a kubelet.",
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
    scratch: bool,
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
      slackwater agent --standalone examples/node --scratch    the same without a kubelet, to try it
      slackwater agent --once --dry-run                log once what would be done
      slackwater release                               restore everything

    \b
    Exit codes: 0 stopped on request; 1 it cannot run here, with --once also a value that could
    not be set; 2 wrong usage or settings.
    """
    from slackwater.agent.building import AgentOptions
    from slackwater.agent.dependencies import CommandLineOverrides
    from slackwater.agent.launch import RunOptions
    from slackwater.agent.node_writers import NodePaths

    host, cluster = os.uname().nodename, None
    if evict_by_signal and standalone is None:
        raise WrongSettings(
            "--evict-by-signal needs --standalone: in a cluster pods are evicted by its API server"
        )
    if scratch and (standalone is None or kubepods):
        raise WrongSettings("--scratch needs --standalone, and makes the tree of --kubepods itself")
    access = _find_access(kubeconfig, context) if standalone is None else None
    if standalone is None:
        # The kubelet registers its host by the name in lower case.
        node = node or host.lower()
    orders = CommandLineOverrides(node, host, texts_of(settings), _features(supported_features))
    if problems := list(_wrong_settings(standalone or "", orders, access)):
        raise WrongSettings("\nslackwater: ".join(problems))
    if access is not None and not isinstance(access, Gap):
        cluster = _cluster(access, node, namespace, volcano_namespace or namespace)
    roots = make_roots(cgroup_root, proc_root, sys_root, host_root, kubelet_config)
    lasts = lasting_folder(state, lasting)
    paths = NodePaths(roots, kubepods, state, lasts, nri_socket)
    # A dry run may run beside an agent, which listens there.
    address = listen_address(listen, "" if once or dry_run else LISTEN)
    options = AgentOptions(standalone or "", orders, dry_run, cluster, evict_by_signal)
    how = RunOptions(address, once, on_exit)
    if scratch:
        _run_on_scratch_tree(paths, options, how)
    sys.exit(_run(paths, options, how))


def _run(paths: "NodePaths", options: "AgentOptions", how: "RunOptions") -> int:
    from slackwater.agent.launch import run_agent, share_one_arena

    share_one_arena()  # before the first thread
    with writing_entries() as write, reporting_errors():
        return run_agent(paths, options, how, os.environ, write)


def _run_on_scratch_tree(
    paths: "NodePaths", options: "AgentOptions", how: "RunOptions"
) -> NoReturn:
    """What is set there goes with the tree, so it is released."""
    import msgspec

    from slackwater.agent.node_writers import detect_cgroups
    from slackwater.demo.cgroup_tree import CannotBuildTreeError
    from slackwater.demo.scratch_tree import scratch_tree
    from slackwater.observation.host import read_online

    objects = _read_folder(options.folder, options.overrides)
    cpus = read_online(paths.roots)
    try:
        with (
            reporting_errors(),
            scratch_tree(
                detect_cgroups(paths.roots, os.environ)[0],
                1 if isinstance(cpus, Gap) else len(cpus),
                () if isinstance(objects, Gap) else objects.pods,
            ) as place,
        ):
            click.echo(
                f"slackwater: cgroups are made at {place.kubepods}, with a busy process in "
                f"{' and in '.join(place.busy)}; look with `slackwater explain` and `slackwater "
                "top`; Ctrl-C removes them",
                err=True,
            )
            here = msgspec.structs.replace(paths, kubepods=place.kubepods)
            code = _run(here, options, msgspec.structs.replace(how, on_exit="release"))
    except CannotBuildTreeError as error:
        raise Failed(f"--scratch: {error}") from None
    sys.exit(code)


def _wrong_settings(
    folder: str, orders: "CommandLineOverrides", access: "Access | Gap | None"
) -> Iterator[str]:
    """Everything that is set wrongly, before anything about this machine can hide it."""
    from slackwater.agent.effective_settings import (
        EffectiveSettings,
        resolve_settings,
        volcano_dialect,
    )
    from slackwater.observation.objects.object_set import Objects, own_node
    from slackwater.policies.catalog import POLICIES, SETTINGS

    if isinstance(access, Gap):
        yield f"{access.reason}; without a cluster use --standalone DIR"
    objects = _read_folder(folder, orders) if access is None else Objects()
    if isinstance(objects, Gap):
        yield f"--standalone is {quoted(folder)}: {objects.reason}"
        objects = Objects()
    node = own_node(objects.nodes, orders.node, orders.host)
    dialect = volcano_dialect(orders.features)
    before = EffectiveSettings()
    resolved = resolve_settings(objects, node, before, orders.settings, dialect, POLICIES, SETTINGS)
    yield from (each.sentence() for each in resolved.problems)


def _read_folder(path: str, orders: "CommandLineOverrides") -> "Objects | Gap":
    """Once, without a watch on it."""
    from slackwater.observation.objects.folder import Folder

    once = Folder(path, orders.node, orders.host, open_watch=lambda _: Gap("it is read once"))
    return once.read()


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


def _find_access(kubeconfig: str, context: str) -> "Access | Gap":
    from slackwater.kube.credentials.discovery import find_access

    return find_access(os.environ, kubeconfig, context)


def _cluster(
    access: "Access", node: str, namespace: str, volcano_namespace: str
) -> "ClusterOptions":
    """Imported late: an agent without a cluster needs none of it."""
    from slackwater.agent.cluster_connection import ClusterOptions

    return ClusterOptions(access, node, namespace, volcano_namespace)


def _features(listed: str) -> tuple[str, ...]:
    from slackwater.contract.volcano.node import read_features
    from slackwater.model.problem import InvalidError

    try:
        return read_features(listed, "--supported-features")
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
