"""`slackwater cpus`: asks a running agent who runs on which CPU, and why."""

import enum
from collections.abc import Iterator, Mapping

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.cli.agent_client import AgentSource, ask
from slackwater.cli.agent_source import agent_options
from slackwater.cli.cpu_picture import (
    EVERYBODY,
    RESERVED,
    Code,
    codes_of,
    draw_machine,
    of_policy,
)
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.cli.terminal import TableColumn, make_table, picture_width, print_blocks
from slackwater.model.cpus import CpuPolicy, CpuSet
from slackwater.record.cpu_map import CpuMap

_PATH = "/v1/cpus"
#: The agent waits for a tick that read the machine.
_PATIENCE = 10.0
_COLUMNS = (
    TableColumn(""),
    TableColumn("CPUs"),
    TableColumn("policy"),
    TableColumn("container", wrap=True),
    TableColumn("because", wrap=True),
)
_MOVE_COLUMNS = (
    TableColumn("container", wrap=True),
    TableColumn("CPUs"),
    TableColumn("would be"),
)
_HOW = (
    "to bind containers: corePinning.enabled: true in the agent's settings, and "
    "qos.gocrane.io/cpu-manager: exclusive or share on a pod"
)


class Shown(enum.Enum):
    """What is asked for."""

    MACHINE = "machine"
    PLAN = "plan"


@click.command()
@click.option(
    "--plan-defragment",
    "shown",
    flag_value=Shown.PLAN,
    default=Shown.MACHINE,
    type=Shown,
    help="Show which containers would be on whole cores, or closer together, on other CPUs. "
    "Nothing is moved: corePinning.defragment allows that.",
)
@agent_options
@output_options
def cpus(shown: Shown, agent: AgentSource, output: Output, no_color: bool) -> None:
    """Who runs on which CPU, and why: the machine as a picture.

    Each CPU is a character, the threads of a core side by side: a capital letter for a container
    that holds it alone, a small one for a container that shares it, # for a reserved CPU, · for
    one that is everybody's.

    \b
    Examples:
      slackwater cpus                 the picture, and the containers with CPUs of their own
      slackwater cpus -o wide         all containers
      slackwater cpus --plan-defragment   what moving containers would bring
      slackwater cpus --node node-a   another node's
      slackwater cpus -o json | jq '.containers[] | select(.policy == "exclusive")'
    """
    found = ask(agent, _PATH, {}, CpuMap, _PATIENCE)
    if output in (Output.JSON, Output.YAML):
        print_data(found, output)
        return
    width = picture_width()
    blocks = describe_cpus(found, output, width) if shown is Shown.MACHINE else describe_plan(found)
    print_blocks(blocks, wants_colour(no_color), width=width)


def describe_plan(found: CpuMap) -> Iterator[RenderableType]:
    if not found.moves:
        yield Text("Nothing to defragment: no container would be better off on other CPUs.")
        return
    table = make_table(_MOVE_COLUMNS)
    for each in found.moves:
        table.add_row(*map(Text, (f"{each.pod}/{each.container}", each.before, each.after)))
    yield table
    yield Text()
    yield Text("Nothing is moved unless corePinning.defragment is true in the agent's settings.")


def describe_cpus(found: CpuMap, output: Output, width: int) -> Iterator[RenderableType]:
    codes = codes_of(found)
    yield Text(f"Machine  {_machine(found)}")
    yield Text(f"CPUs     {_counts(found)}")
    if found.off:
        yield Text(f"core_pinning is off: {found.off}; {_HOW}", "yellow")
    yield Text()
    yield from draw_machine(found, codes, width)
    yield Text()
    yield _legend(found, codes, output)
    if found.remarks:
        yield Text()
        yield from (Text(remark, "yellow") for remark in found.remarks)


def _machine(found: CpuMap) -> str:
    rows = found.cpus
    parts = (
        (len({row.socket for row in rows}), "socket"),
        (len({(row.socket, row.core) for row in rows}), "core"),
        (len(rows), "CPU"),
        (len({row.l3 for row in rows}), "L3 cache"),
        (len({row.numa for row in rows}), "NUMA node"),
    )
    kubelet = f"; the kubelet's CPU manager: {found.kubelet}" if found.kubelet else ""
    return ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in parts) + kubelet


def _counts(found: CpuMap) -> str:
    counts = found.counts
    return (
        f"{counts.exclusive} exclusive, {counts.shared} shared, {counts.reserved} reserved, "
        f"{counts.default} others"
    )


def _legend(found: CpuMap, codes: Mapping[str, Code], output: Output) -> Table:
    """The containers with CPUs of their own; of the others their number, or all where it is
    wide."""
    table = make_table(_COLUMNS)
    for policy in (CpuPolicy.EXCLUSIVE, CpuPolicy.SHARE):
        for each in of_policy(found, policy):
            code = codes[each.title()]
            cells = (each.cpus, each.policy, each.title(), each.because)
            table.add_row(Text(code.text, code.style), *map(Text, cells))
    reserved = CpuSet.of(row.cpu for row in found.cpus if row.reserved)
    if reserved:
        why = "held by no container alone"
        table.add_row(Text(RESERVED, "red"), Text(reserved.format()), Text("reserved"), "", why)
    others = of_policy(found, CpuPolicy.NONE)
    if output is Output.WIDE:
        for each in others:
            cells = (each.cpus, each.policy, each.title(), each.because)
            table.add_row(Text(EVERYBODY, "dim"), *map(Text, cells))
    else:
        number = f"{len(others)} container{'' if len(others) == 1 else 's'}"
        why = "every CPU that no container holds alone"
        cells = (found.common, CpuPolicy.NONE.value, number, why)
        table.add_row(Text(EVERYBODY, "dim"), *map(Text, cells))
    return table
