"""`slackwater doctor`: runs the checks and prints the report, as text or as JSON."""

import os
import sys
from collections.abc import Iterable, Iterator

import click
import msgspec
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slackwater.cli.host_options import host_options, kubelet_config_option, make_roots
from slackwater.cli.output import (
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.terminal import (
    TableColumn,
    make_table,
    on_or_off,
    print_blocks,
    text_width,
)
from slackwater.doctor.checkup import run_checks, run_checks_with_probe
from slackwater.doctor.doctor_report import (
    CgroupSection,
    CpuManagerSection,
    DoctorProblem,
    DoctorReport,
    KnobRow,
    MachineSection,
    StartSection,
    TopologySection,
    WeightSection,
)
from slackwater.doctor.knobs import NOWHERE
from slackwater.observation.detection import EnvironmentValueError

_MARKS = {True: ("yes", "green"), False: ("no", "red"), None: ("?", "yellow")}
#: In fewer columns tables leave out what can be left out, and names stand above their values.
_WHOLE_FROM = 80
_MEBI = 1 << 20


@click.command(short_help="What this machine can do, what is wrong, what to do.")
@click.option("--probe", is_flag=True, help="Try each knob on a scratch cgroup (needs root).")
@host_options
@kubelet_config_option
@output_options
def doctor(
    probe: bool,
    cgroup_root: str,
    proc_root: str,
    sys_root: str,
    host_root: str,
    kubepods: str,
    kubelet_config: str,
    output: Output,
    no_color: bool,
) -> None:
    """What this machine can do, what is wrong, and what to do about it.

    \b
    Examples:
      slackwater doctor                  what can this machine do?
      sudo slackwater doctor --probe     try every knob on a scratch cgroup, then remove it
      slackwater doctor -o json | jq .problems
      slackwater doctor --host-root /host --cgroup-root /host/sys/fs/cgroup

    \b
    Environment:
      SLACKWATER_CGROUP_VERSION   v1, v2, 1 or 2: instead of looking (VOLCANO_TEST_CGROUP_VERSION)
      CGROUP_DRIVER               cgroupfs or systemd: instead of looking

    \b
    Exit codes: 0 no problem, 1 a problem was found, 2 wrong usage or a bad environment value.
    """
    roots = make_roots(cgroup_root, proc_root, sys_root, host_root, kubelet_config)
    check = run_checks_with_probe if probe else run_checks
    try:
        report = check(roots, os.environ, kubepods)
    except EnvironmentValueError as error:
        raise WrongSettings(str(error)) from None
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
    else:
        print_report(report, wants_colour(no_color), wide=output is Output.WIDE)
    sys.exit(1 if report.problems else 0)


def print_report(report: DoctorReport, colour: bool, wide: bool) -> None:
    """A screen of text; `wide` adds every finding and every level."""
    print_blocks(blocks(report, text_width(), wide), colour)


def blocks(report: DoctorReport, width: int, wide: bool) -> Iterator[RenderableType]:
    """As wide as the screen: `wide` is about what is shown."""
    whole = wide or width >= _WHOLE_FROM
    machine = _machine_lines(report.machine) | _cpu_manager_lines(report.cpu_manager)
    machine |= _topology_lines(report.topology)
    starts = {"Starts": _describe_starts(report.container_starts)}
    yield from _facts(machine | _cgroup_lines(report.cgroup) | starts, width)
    if wide:
        yield from _section("Findings", _findings_table(report.cgroup))
    if all(row.level == NOWHERE for row in report.knobs):
        yield Text("\nKnobs", style="bold")
        yield Text(f"  not looked at: {_why_not(report)}")
    else:
        rows = report.knobs if wide else _merge_levels(report.knobs)
        yield from _section("Knobs", _knobs_table(rows) if whole else _narrow_knobs_table(rows))
    yield from _section("Features", _features_table(report, whole))
    if report.notes:
        yield from _problem_lines("Notes", report.notes, "")
    yield from _problem_blocks(report)


def _facts(lines: dict[str, str], width: int) -> Iterator[RenderableType]:
    if width >= _WHOLE_FROM:
        yield _facts_table(lines)
        return
    for name, text in lines.items():
        yield Text(name, "bold")
        yield Padding(Text(text, overflow="fold"), (0, 0, 0, 2))


def _facts_table(lines: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines.items():
        table.add_row(name, Text(text))
    return table


def _machine_lines(machine: MachineSection) -> dict[str, str]:
    topology = machine.topology
    layout = (
        f" ({_count(topology.packages, 'package')}, "
        f"{_count(topology.caches, 'last-level cache')}, {_count(topology.cores, 'core')})"
        if topology
        else ""
    )
    parts = [
        f"{_count(machine.cpus, 'CPU')}{layout}",
        machine.model or "CPU model unknown",
        f"hyper-threads {on_or_off(machine.smt)}",
        f"turbo {on_or_off(machine.turbo)}",
        _count(machine.numa_nodes, "NUMA node"),
        {True: "PSI on", False: "no PSI", None: "PSI unknown"}[machine.psi],
    ]
    return {"Machine": ", ".join(parts)}


def _cpu_manager_lines(section: CpuManagerSection) -> dict[str, str]:
    given = f"; it gave {section.assigned} to containers" if section.assigned else ""
    policy = f"{section.policy}, by {section.source}{given}" if section.policy else section.source
    reserved = f"{section.reserved or 'unknown'} ({section.reserved_source})"
    return {"CPU manager": policy, "Reserved": reserved}


def _topology_lines(section: TopologySection) -> dict[str, str]:
    """As an agent in a cluster reports it."""
    if section.cpu_basic_info is None:
        return {"Topology": f"unknown: {section.problem}"}
    zones = (
        f"{zone.name} {_count(zone.cpus, 'CPU')}"
        f"{'' if zone.memory is None else f' {zone.memory // _MEBI} MiB'}"
        for zone in section.zones
    )
    policy = f"topology manager {section.policy}"
    return {"Topology": f"{section.cpu_basic_info}; {', '.join(zones)}; {policy}"}


def _cgroup_lines(cgroup: CgroupSection) -> dict[str, str]:
    return {
        "Cgroups": _describe_decision(cgroup, cgroup.version, cgroup.version_source),
        "Driver": _describe_decision(cgroup, cgroup.driver, cgroup.driver_source),
        "Kubepods": cgroup.kubepods or "no kubelet tree found",
        "Weights": _describe_weights(cgroup.weights),
    }


def _describe_decision(cgroup: CgroupSection, value: str | None, source: str) -> str:
    if value is None:
        return f"unknown: {source}"
    note = next(finding.note for finding in cgroup.findings if finding.source == source)
    return f"{value}, by {source}: {note}"


def _describe_starts(section: StartSection) -> str:
    if section.nri:
        return f"quotas can be set before a container starts (NRI): {section.socket}"
    known = "by the next tick alone" if section.nri is False else "not known"
    return f"{known}: {section.socket}: {section.because}"


def _describe_weights(weights: WeightSection) -> str:
    if weights.pods is None:
        return f"no formula: {weights.source}"
    return f"pods {weights.pods}, containers {weights.containers or 'unknown'}, by {weights.source}"


def _section(title: str, table: Table) -> Iterable[RenderableType]:
    yield Text(f"\n{title}", style="bold")
    yield Padding(table, (0, 0, 0, 2))


def _columns(*headers: str) -> list[TableColumn]:
    """The last one wraps."""
    return [*map(TableColumn, headers[:-1]), TableColumn(headers[-1], wrap=True)]


def _findings_table(cgroup: CgroupSection) -> Table:
    rows = ((each.source, each.found or "-", each.note) for each in cgroup.findings)
    return make_table(_columns("source", "found", "note"), rows)


def _knobs_table(rows: Iterable[KnobRow]) -> Table:
    cells = (
        (row.knob, row.level, row.file or "-", _yes_or_no(row.works), row.note) for row in rows
    )
    return make_table(_columns("knob", "level", "file", "works", "note"), cells)


def _narrow_knobs_table(rows: Iterable[KnobRow]) -> Table:
    """Without the file; the level is in the note, where it says which."""
    cells = ((row.knob, _yes_or_no(row.works), f"{row.level}: {row.note}") for row in rows)
    return make_table(_columns("knob", "works", "level and note"), cells)


def _why_not(report: DoctorReport) -> str:
    if not report.knobs:
        return "there are no cgroups"
    return "there is no kubelet tree; --probe tries them on a scratch cgroup"


def _merge_levels(rows: tuple[KnobRow, ...]) -> list[KnobRow]:
    """Levels that say the same of a knob become one row."""
    levels: dict[KnobRow, list[str]] = {}
    for row in rows:
        levels.setdefault(msgspec.structs.replace(row, level=""), []).append(row.level)
    return [msgspec.structs.replace(row, level=" ".join(names)) for row, names in levels.items()]


def _features_table(report: DoctorReport, whole: bool) -> Table:
    rows = (
        (row.feature, _built(row.built), _yes_or_no(row.possible), row.because)
        for row in report.features
    )
    if not whole:
        short = ((name, possible, because) for name, _, possible, because in rows)
        return make_table(_columns("feature", "possible", "because"), short)
    return make_table(_columns("feature", "built", "possible", "because"), rows)


def _built(built: bool) -> Text:
    return Text("yes") if built else Text("not yet", "dim")


def _problem_blocks(report: DoctorReport) -> Iterable[RenderableType]:
    if not report.problems:
        yield Text("\nNo problem found.", style="green")
        return
    yield from _problem_lines("Problems", report.problems, "red")


def _problem_lines(
    title: str, rows: Iterable[DoctorProblem], style: str
) -> Iterable[RenderableType]:
    yield Text(f"\n{title}", style=f"bold {style}".rstrip())
    for row in rows:
        yield Padding(Text(row.what, style=style), (0, 0, 0, 2))
        yield Padding(Text(f"→ {row.action}"), (0, 0, 0, 4))


def _yes_or_no(state: bool | None) -> Text:
    word, style = _MARKS[state]
    return Text(word, style=style)


def _count(number: int | None, noun: str) -> str:
    if number is None:
        return f"{noun}s unknown"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
