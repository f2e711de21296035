"""`slackwater normalize plan`: what CPU normalization would do, from a folder or from the cluster.

The data (`-o json`) is stable; its fields are documented in docs/reference/normalize.md.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from slackwater.cli.agent_client import NoAnswer
from slackwater.cli.cluster_options import (
    access_options,
    find_cluster_access,
    slo_config_options,
)
from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.terminal import TableColumn, aligned_lines, print_blocks, text_width
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.model.problem import InvalidError
from slackwater.status.normalization_plan import (
    UNLIMITED_QUOTA,
    PlannedNode,
    PlannedQuota,
    PlanObjects,
    plan_nodes,
)
from slackwater.status.plan_objects import objects_in_cluster, objects_in_folder

#: Without -o wide, so many containers of a node are shown.
_MOST_QUOTAS = 8
_INDENT = (0, 0, 0, 2)


@click.command("plan", short_help="Each node's ratio, why, and what it would change.")
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False))
@slo_config_options
@access_options
@output_options
def plan(
    folder: str | None,
    config_namespace: str,
    slo_config_name: str,
    kubeconfig: str,
    context: str,
    output: Output,
    no_color: bool,
) -> None:
    """Show each node's ratio, why, and what it would do to pods, before it is switched on.

    FOLDER has ordinary objects in YAML or JSON, as `kubectl get -o yaml` writes them: the ConfigMap
    slo-controller-config, Nodes, NodeResourceTopologies and Pods. Without it they are read from the
    cluster. Nothing is written.

    \b
    Examples:
      slackwater normalize plan
      slackwater normalize plan ./objects -o json

    \b
    Exit codes: 0 every ratio can be chosen; 1 one cannot, an entry of the model is for no node, or
    the cluster cannot be reached; 2 wrong usage, or a file that cannot be read.
    """
    source = SloConfigName(config_namespace, slo_config_name)
    if folder is not None:
        objects = _from_folder(folder, source)
    else:
        objects = _from_cluster(kubeconfig, context, source)
    planned = plan_nodes(objects)
    if output in (Output.JSON, Output.YAML):
        print_data(planned, output)
        for warning in objects.config.warnings:
            click.echo(f"slackwater: {warning}", err=True)
    else:
        wide = output is Output.WIDE
        print_blocks(_blocks(objects, planned, wide=wide), wants_colour(no_color))
    config = objects.config
    wrong = config.problems or config.warnings or any(each.problem for each in planned)
    sys.exit(1 if wrong else 0)


def _from_folder(folder: str, source: SloConfigName) -> PlanObjects:
    try:
        found = objects_in_folder(folder, source)
    except OSError as error:
        raise WrongSettings(f"the folder {folder} cannot be read: {error.strerror}") from None
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    if not found.nodes:
        raise WrongSettings(f"the folder {folder} has no Node")
    return found


def _from_cluster(kubeconfig: str, context: str, source: SloConfigName) -> PlanObjects:
    from slackwater import __version__
    from slackwater.http.errors import RequestError
    from slackwater.kube.client import Client

    client = Client(find_cluster_access(kubeconfig, context), f"slackwater-normalize/{__version__}")
    try:
        return objects_in_cluster(client, source)
    except RequestError as error:
        raise NoAnswer(str(error)) from None
    except InvalidError as error:
        raise Failed(str(error)) from None


def _blocks(
    objects: PlanObjects, planned: Sequence[PlannedNode], *, wide: bool
) -> Iterator[RenderableType]:
    config = objects.config
    state = "there is none" if config.absent else ("cannot be read" if config.problems else "read")
    yield Text.assemble(("model ", "bold"), f"{config.source}: {state}")
    for problem in config.problems.values():
        yield Padding(_printable(problem, "red"), _INDENT)
    for warning in config.warnings:
        yield Padding(_printable(warning, "yellow"), _INDENT)
    yield Text("")
    lines = aligned_lines(_COLUMNS, [_cells(each) for each in planned], text_width())
    head, *rows = lines
    yield head
    for node, line in zip(planned, rows, strict=True):
        yield line
        if node.problem and node.problem not in config.problems.values():
            yield Padding(_printable(node.problem, "red"), _INDENT)
        if wide:
            yield Padding(_printable(node.source, "dim"), _INDENT)
    quotas = [(node, each) for node in planned for each in _shown(node, wide=wide)]
    if quotas:
        yield Text("")
        yield from aligned_lines(_QUOTA_COLUMNS, [_quota_cells(*each) for each in quotas], 200)
    hidden = sum(len(each.pods) for each in planned) - len(quotas)
    if hidden:
        yield Text(f"and {hidden} containers more; -o wide shows them", "dim")


_COLUMNS = [
    TableColumn("node"),
    TableColumn("CPU model"),
    TableColumn("HT"),
    TableColumn("turbo"),
    TableColumn("on"),
    TableColumn("ratio", right=True),
    TableColumn("amplified by"),
    TableColumn("CPUs", right=True),
    TableColumn("become", right=True),
]
_QUOTA_COLUMNS = [
    TableColumn("node"),
    TableColumn("pod"),
    TableColumn("container"),
    TableColumn("quota", right=True),
    TableColumn("becomes", right=True),
    TableColumn("because"),
]
_UNKNOWN = "-"
_REPLACED = "\N{REPLACEMENT CHARACTER}"
_WORDS = {True: "yes", False: "no", None: _UNKNOWN}


def _cells(node: PlannedNode) -> tuple[Text, ...]:
    by = ", ".join(f"{name} {ratio:.2f}" for name, ratio in node.amplification.items())
    return (
        Text(node.node, "bold" if node.problem else ""),
        _printable(node.cpu_model or _UNKNOWN),
        Text(_WORDS[node.hyper_thread]),
        Text(_WORDS[node.turbo]),
        Text(_WORDS[node.enabled]),
        Text(node.ratio or _UNKNOWN, "green" if node.enabled else ""),
        Text(by or _UNKNOWN),
        Text(node.allocatable.raw.get("cpu", _UNKNOWN)),
        Text(node.allocatable.amplified.get("cpu", _UNKNOWN)),
    )


def _shown(node: PlannedNode, *, wide: bool) -> Iterable[PlannedQuota]:
    """What changes before what does not."""
    changing = sorted(node.pods, key=lambda each: each.before == each.after)
    return changing if wide else changing[:_MOST_QUOTAS]


def _quota_cells(node: PlannedNode, quota: PlannedQuota) -> tuple[Text, ...]:
    return (
        Text(node.node),
        Text(quota.pod),
        Text(quota.container),
        Text(_microseconds(quota.before)),
        Text(_microseconds(quota.after), "" if quota.before == quota.after else "bold"),
        _printable(quota.because),
    )


def _microseconds(quota: int) -> str:
    return "unlimited" if quota == UNLIMITED_QUOTA else f"{quota}"


def _printable(text: str, style: str = "") -> Text:
    """A CPU model is a machine's own word: it sends no control codes to the terminal."""
    shown = "".join(each if each.isprintable() else _REPLACED for each in text)
    return Text(shown, style)
