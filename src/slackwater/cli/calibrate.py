"""`slackwater calibrate`: measures this machine's CPUs and prints the result."""

import sys

import click

from slackwater import __version__
from slackwater.calibration.measurement import measure
from slackwater.calibration.result import CalibrationResult, MeasuredMachine, Speed, summarize
from slackwater.cli.number_range import NumberRange
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.cli.terminal import TableColumn, make_table, on_or_off, print_blocks
from slackwater.model.gap import Gap
from slackwater.model.machine import MachineTicks
from slackwater.observation.host import Roots, read_machine, read_ticks


@click.command(short_help="Measure how fast this machine's CPUs are.")
@click.option(
    "--rounds",
    type=click.IntRange(3, 1000),
    default=10,
    show_default=True,
    envvar="SLACKWATER_ROUNDS",
    show_envvar=True,
    help="How often each kernel runs, on one CPU and on all.",
)
@click.option(
    "--slice",
    "slice_seconds",
    type=NumberRange(0.05, 60),
    default=0.25,
    show_default=True,
    envvar="SLACKWATER_SLICE",
    show_envvar=True,
    help="How long it runs each time, in seconds.",
)
@output_options
def calibrate(rounds: int, slice_seconds: float, output: Output, no_color: bool) -> None:
    """Measure how fast this machine's CPUs are: integers, floating point, memory, compression,
    cryptography and interpreted code, on one CPU and on all of them.

    It takes about half a minute and every CPU that this process may use. Run it on one quiet
    machine of each kind, and give the results to `slackwater normalize model`.

    \b
    Examples:
      slackwater calibrate                          a table
      slackwater calibrate -o json > $(hostname).json
      slackwater calibrate --rounds 40              longer, and surer
      taskset -c 2,3 slackwater calibrate           only these CPUs

    \b
    Exit codes: 0 measured, 1 something disturbed the measurement (it is printed all the same),
    2 wrong usage.
    """
    roots = Roots()
    before = read_ticks(roots)
    measured = measure(rounds, slice_seconds, _show_progress)
    stolen = _stolen_share(before, read_ticks(roots))
    machine = _describe(roots)
    result = summarize(__version__, machine, measured.single, measured.everywhere, stolen)
    if output in (Output.JSON, Output.YAML):
        print_data(result, output)
    else:
        _print_table(result, wants_colour(no_color))
    for sentence in result.disturbances:
        click.echo(f"slackwater: {sentence}", err=True)
    sys.exit(1 if result.disturbances else 0)


def _describe(roots: Roots) -> MeasuredMachine:
    machine = read_machine(roots)
    return MeasuredMachine(
        None if isinstance(machine.model, Gap) else machine.model,
        None if isinstance(machine.vendor, Gap) else machine.vendor,
        0 if isinstance(machine.cpus, Gap) else len(machine.cpus),
        None if isinstance(machine.smt, Gap) else machine.smt,
        None if isinstance(machine.turbo, Gap) else machine.turbo,
    )


def _stolen_share(before: MachineTicks | Gap, after: MachineTicks | Gap) -> float:
    if isinstance(before, Gap) or isinstance(after, Gap):
        return 0.0
    stolen = after.total.steal - before.total.steal
    busy = after.total.busy() - before.total.busy()
    return stolen / (stolen + busy) if stolen + busy > 0 else 0.0


def _show_progress(done: int, of: int) -> None:
    """On a terminal only: a line that is written over."""
    if sys.stderr.isatty():
        end = "\r" if done < of else "\r\x1b[K"
        click.echo(f"\rmeasuring: {done} of {of} slices{end}", err=True, nl=False)


def _print_table(result: CalibrationResult, colour: bool) -> None:
    machine = result.machine
    click.echo(
        f"{machine.cpu_model or 'CPU model unknown'}, {machine.cpus} CPUs, hyper-threads "
        f"{on_or_off(machine.hyper_thread)}, turbo {on_or_off(machine.turbo)}\n"
    )
    columns = [
        TableColumn("kernel"),
        *(TableColumn(name, right=True) for name in ("one CPU", "spread", "all CPUs", "spread")),
    ]
    rows = [(each.kernel, *_cells(each.single), *_cells(each.all)) for each in result.kernels]
    rows.append(("score", f"{result.score.single:.1f}", "", f"{result.score.all:.1f}", ""))
    print_blocks([make_table(columns, rows)], colour)
    click.echo("\nPieces of work per second of CPU time; the score is their geometric mean.")


def _cells(speed: Speed) -> tuple[str, str]:
    return f"{speed.median:.1f}", f"{speed.spread():.1%}"
