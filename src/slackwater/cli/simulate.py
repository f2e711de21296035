"""`slackwater simulate`: runs a scenario; prints a timeline and a summary, draws a picture."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slackwater.agent.dependencies import (
    CommandLineOverrides,
)
from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.settings import settings_options, texts_of
from slackwater.cli.terminal import TableColumn, make_table
from slackwater.model.cpus import CpuPolicy
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.policies.catalog import POLICIES
from slackwater.record.journal import TickRecord
from slackwater.record.recording import encode_lines
from slackwater.simulation.meter import UsageMeter
from slackwater.simulation.object_files import read_object_files
from slackwater.simulation.oversold_comparison import (
    ComparedRun,
    OversoldComparison,
    compare_run,
)
from slackwater.simulation.oversold_picture import draw_comparison
from slackwater.simulation.scenario import Scenario
from slackwater.simulation.scenario_file import read_scenario
from slackwater.simulation.scenario_picture import draw_scenario
from slackwater.simulation.scenario_report import (
    ScenarioReport,
    ScenarioSummary,
    format_clock,
    make_report,
)
from slackwater.simulation.simulation_run import Simulation, SimulationError
from slackwater.simulation.timeline import FEW, MANY, SCENARIO, TimelineRow

_MEMORY = "/dev/shm"  # noqa: S108 - a fresh folder is made in it
#: Updates of the progress bar.
_BAR_STEPS = 200
#: Wide enough for a table whatever the terminal: lines are folded, not cut.
_WIDTH = 110
_ENABLED = "oversold.enabled"
_TREE = "kubepods/"
_TIMELINE = (
    TableColumn("TIME"),
    TableColumn("WHAT"),
    TableColumn("FROM", right=True),
    TableColumn("TO", right=True),
    TableColumn("BECAUSE", wrap=True),
)
#: The line feed is the blank line above the table.
_TIERS = (
    TableColumn("\nTIER"),
    *(TableColumn(f"\n{head}", right=True) for head in ("WANTED", "GOT", "LOST", "LOST %")),
)
_COMPARED = (
    TableColumn(""),
    TableColumn("WITHOUT", right=True),
    TableColumn("WITH OVERSELLING", right=True),
)
_PLACEMENTS = tuple(TableColumn(f"\n{head}") for head in ("POD", "POLICY", "CPUS"))


@click.command()
@click.argument("scenario", metavar="SCENARIO.yaml", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--svg",
    metavar="FILE",
    default="",
    help="Draw a picture too, into this file.",
)
@click.option(
    "--record", metavar="FILE", default="", help="Keep every tick, for `slackwater replay`."
)
@click.option(
    "--objects",
    metavar="PATH",
    multiple=True,
    type=click.Path(exists=True),
    help="A file or folder with manifests of QoS ensurance to try; they win over those of "
    "SCENARIO. May be repeated.",
)
@click.option(
    "--compare-oversold",
    is_flag=True,
    help="Run SCENARIO twice, without and with overselling, and compare what became of its jobs.",
)
@output_options
@settings_options
def simulate(
    scenario: str,
    objects: tuple[str, ...],
    svg: str,
    record: str,
    compare_oversold: bool,
    output: Output,
    no_color: bool,
    **settings: str | None,
) -> None:
    """Run SCENARIO on a simulated node, with the agent's own code.

    Hours pass in seconds. Prints what changed, when and why, and who got how much CPU; with --svg
    it draws a picture too. Settings given as flags or variables override the scenario's.

    \b
    Examples:
      slackwater simulate examples/scenarios/spikes.yaml --svg spikes.svg
      slackwater simulate day.yaml --objects nodeqos.yaml --objects actions/
      slackwater simulate day.yaml --best-effort-share-threshold 60 --svg sixty.svg
      slackwater simulate day.yaml -o json | jq .online
      slackwater simulate day.yaml --record day.jsonl && slackwater replay day.jsonl
      slackwater simulate examples/scenarios/sold-idle-cpu.yaml --compare-oversold

    \b
    Exit codes: 0 done, 1 a value not restored or a file not written, 2 wrong usage,
    scenario or settings.
    """
    read = _read_scenario(scenario, objects)
    if compare_oversold:
        if record:
            raise click.UsageError("--record keeps one run, --compare-oversold makes two.")
        _compare_oversold(read, texts_of(settings), svg, output)
    kept: list[TickRecord] = []
    with _open_simulation(read, CommandLineOverrides(settings=texts_of(settings))) as simulation:
        _run_with_progress(simulation, kept if record else None)
        every = simulation.timeline.rows(MANY)
        shown = simulation.timeline.rows(FEW)
        report = make_report(simulation, every, simulation.release())
        if svg:
            _write_file(svg, [draw_scenario(report, simulation.meter, every).encode()])
    if record:
        _write_file(record, encode_lines(kept))
    rows = every if output is Output.WIDE else shown
    _print_result(report, rows, output, wants_colour(no_color))
    sys.exit(1 if report.left else 0)


def _compare_oversold(
    scenario: Scenario, settings: Mapping[str, str], svg: str, output: Output
) -> NoReturn:
    if _ENABLED in settings:
        raise click.UsageError(
            f"{_ENABLED} is set to {settings[_ENABLED]}, and --compare-oversold tries both."
        )
    if not scenario.jobs:
        raise WrongSettings(
            f"{scenario.name}: spec.jobs is empty, must name jobs for --compare-oversold"
        )
    before, without, about = _run_compared(scenario, {**settings, _ENABLED: "false"})
    after, oversold, _ = _run_compared(scenario, {**settings, _ENABLED: "true"})
    found = OversoldComparison(about, before, after)
    if svg:
        _write_file(svg, [draw_comparison(found, without, oversold).encode()])
    if output in (Output.JSON, Output.YAML):
        print_data(found, output)
    else:
        print_comparison(found)
    sys.exit(1 if before.left or after.left else 0)


def _run_compared(
    scenario: Scenario, settings: Mapping[str, str]
) -> tuple[ComparedRun, UsageMeter, ScenarioSummary]:
    with _open_simulation(scenario, CommandLineOverrides(settings=settings)) as simulation:
        _run_with_progress(simulation, None)
        report = make_report(simulation, [], simulation.release())
        return compare_run(simulation, report), simulation.meter, report.scenario


def print_comparison(found: OversoldComparison) -> None:
    runs, seconds = (found.without, found.oversold), found.scenario.seconds
    rows = (
        ("CPUs in use, of all", *(f"{100 * run.busy:.1f} %" for run in runs)),
        ("elastic CPU offered", *(f"{run.offered / seconds:.2f}" for run in runs)),
        ("elastic CPU bought", *(f"{run.bought / seconds:.2f}" for run in runs)),
        ("used by best effort", *(f"{run.best_effort_used / seconds:.2f}" for run in runs)),
        ("lost by online pods", *(f"{run.online_lost / seconds:.2f}" for run in runs)),
        ("jobs finished", *(f"{run.jobs.finished} of {run.jobs.total}" for run in runs)),
        ("mean wait of a job", *(format_clock(run.jobs.mean_wait_seconds) for run in runs)),
    )
    Console(no_color=True, width=_WIDTH, highlight=False).print(make_table(_COMPARED, rows))
    click.echo("(CPUs on average)\n")
    for sentence in found.sentences():
        click.echo(sentence)


def _print_result(
    report: ScenarioReport, rows: list[TimelineRow], output: Output, colour: bool
) -> None:
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
        return
    print_simulation(report, rows, colour)


def _read_scenario(path: str, objects: tuple[str, ...]) -> Scenario:
    try:
        scenario = read_scenario(path, read_object_files(objects))
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    for warning in scenario.objects.warnings:
        click.echo(f"slackwater: {warning}", err=True)
    return scenario


@contextlib.contextmanager
def _open_simulation(scenario: Scenario, orders: CommandLineOverrides) -> Iterator[Simulation]:
    """A simulation with its ledger in memory, if there is such a folder, until the end."""
    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="slackwater-", dir=folder) as state:
        try:
            simulation = Simulation(scenario, state, orders)
        except SimulationError as error:
            raise WrongSettings(str(error)) from None
        try:
            yield simulation
        finally:
            simulation.close()


def _run_with_progress(simulation: Simulation, kept: list[TickRecord] | None) -> None:
    """With a progress bar on a terminal."""
    length = simulation.scenario.duration
    step, shown = max(length // _BAR_STEPS, 1), 0
    with click.progressbar(
        length=length,
        label=simulation.scenario.name,
        width=0,
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:

        def watch(at: Micros, done: TickRecord | Gap) -> None:
            nonlocal shown
            if kept is not None and isinstance(done, TickRecord):
                kept.append(done)
            if at - shown >= step:
                bar.update(at - shown)
                shown = at

        simulation.run(watch)
        bar.update(length - shown)


def _write_file(path: str, parts: Iterable[bytes]) -> None:
    try:
        with open(path, "wb") as file:
            file.writelines(parts)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"slackwater: wrote {path}", err=True)


def print_simulation(report: ScenarioReport, rows: Iterable[TimelineRow], colour: bool) -> None:
    console = Console(
        no_color=not colour,
        force_terminal=colour,
        width=None if colour else _WIDTH,
        highlight=False,
        markup=False,  # a reason may hold [brackets]
    )
    console.print(_timeline_table(rows))
    console.print(_tier_table(report))
    bound = [each for each in report.placements if each.policy != CpuPolicy.NONE.value]
    if bound:
        cells = ((each.pod, each.policy, each.cpus) for each in bound)
        console.print(make_table(_PLACEMENTS, cells))
    for sentence in summary_lines(report):
        console.print(sentence, soft_wrap=True)


def _timeline_table(rows: Iterable[TimelineRow]) -> Table:
    table = make_table(_TIMELINE)
    for row in rows:
        style = "cyan" if row.by == SCENARIO else ""
        what = row.what.replace(_TREE, "")
        ends = (row.before, row.after) if row.changes else ("", "")
        cells = (_format_times(row), what, *ends, _format_reason(row))
        table.add_row(*map(Text, cells), style=style)
    return table


def _format_times(row: TimelineRow) -> str:
    return (
        format_clock(row.at)
        if row.at == row.until
        else f"{format_clock(row.at)}-{format_clock(row.until)}"
    )


def _format_reason(row: TimelineRow) -> str:
    """The reason without the policy's name where there is one; how a fold went; what went wrong."""
    parts = [_without_name(row.because)]
    if row.after and not row.changes:
        parts.insert(0, f"{row.before} -> {row.after}:")
    if row.changes > 1:
        parts.insert(0, f"{row.changes} writes, {row.lowest} to {row.highest}; last")
    if row.times > 1:
        parts.append(f"({row.times} times)")
    if row.result:
        parts.append(f"({row.result})")
    return " ".join(parts)


def _without_name(because: str) -> str:
    """A reason without the policy's name, where only one policy gives one."""
    named = [prefix for each in POLICIES if (prefix := f"{each.name}: ") in because]
    return because.removeprefix(named[0]) if len(named) == 1 else because


def _tier_table(report: ScenarioReport) -> Table:
    seconds = report.scenario.seconds
    rows = []
    for tier in report.tiers:
        mean = [f"{each / seconds:.2f}" for each in (tier.wanted, tier.got, tier.lost)]
        part = f"{100 * tier.lost / tier.wanted:.2f}" if tier.wanted else "-"
        rows.append((tier.tier, *mean, part))
    return make_table(_TIERS, rows)


def summary_lines(report: ScenarioReport) -> list[str]:
    """The rest of the summary. CPUs are averages over the whole time."""
    seconds, best, agent = report.scenario.seconds, report.best_effort, report.agent
    online = (
        f"{report.online.mean_lost_milli:g}m on average, "
        f"{report.online.p99_lost_milli}m in the worst 1 % of the time"
    )
    share = (
        f"got {best.got / seconds:.2f} CPUs of {best.idle / seconds:.2f} that others left idle"
        f"{_describe_budget(best.budget, best.part, seconds)}"
    )
    rounds = (
        f"{agent.ticks} ticks ({agent.early} early), {agent.writes} writes, "
        f"{agent.refused} refused, {agent.repairs} repairs, {agent.yields} yields, "
        f"{agent.holds} ticks on hold"
    )
    left = f"{report.left} values could not be restored" if report.left else "every value restored"
    return [
        "(CPUs on average)",
        "",
        f"online lost   {online}",
        f"best effort   {share}",
        f"agent         {rounds}",
        f"release       {left}",
    ]


def _describe_budget(budget: float | None, part: float | None, seconds: float) -> str:
    if budget is None:
        return ", without a quota"
    share = "" if part is None else f": {100 * part:.1f} % of what it could have had"
    return f", {budget / seconds:.2f} of them within the threshold{share}"
