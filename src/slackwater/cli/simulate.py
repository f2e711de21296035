"""`slackwater simulate`: a scenario in, a timeline, a summary and a picture out."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.settings import settings_options, texts_of

if TYPE_CHECKING:
    from slackwater.agent.program import Orders
    from slackwater.model.gap import Gap
    from slackwater.model.units import Micros
    from slackwater.record.journal import TickRecord
    from slackwater.simulation.life import Life
    from slackwater.simulation.report import Report
    from slackwater.simulation.scenario import Scenario
    from slackwater.simulation.timeline import Row

_MEMORY = "/dev/shm"  # noqa: S108 - a fresh folder is made in it
#: The bar moves so often.
_BAR_STEPS = 200


@click.command()
@click.argument("scenario", metavar="SCENARIO.yaml", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--svg",
    metavar="FILE",
    default=None,
    help='Where the picture goes. Default: the file\'s name with .svg, here; "" for none.',
)
@click.option(
    "--record", metavar="FILE", default="", help="Keep every tick, for `slackwater replay`."
)
@output_options
@settings_options
def simulate(
    scenario: str,
    svg: str | None,
    record: str,
    output: Output,
    no_color: bool,
    **settings: str | None,
) -> None:
    """Live through SCENARIO on a node in memory, with the agent's own code.

    Hours pass in seconds. Prints what changed, when and why, and who got how much CPU; writes one
    picture. Settings given as flags or variables win over the scenario's.

    \b
    Examples:
      slackwater simulate examples/scenarios/spikes.yaml
      slackwater simulate day.yaml --best-effort-share-threshold 60 --svg sixty.svg
      slackwater simulate day.yaml -o json --svg "" | jq .online
      slackwater simulate day.yaml --record day.jsonl && slackwater replay day.jsonl

    \b
    Exit codes: 0 done, 1 a value could not be put back or a file not be written, 2 wrong usage,
    scenario or settings.
    """
    from slackwater.agent import program
    from slackwater.simulation.report import report_of
    from slackwater.simulation.timeline import FEW, MANY

    read = _read(scenario)
    kept: list[TickRecord] = []
    with _lived(read, program.Orders(settings=texts_of(settings))) as life:
        _run(life, kept if record else None)
        every = life.timeline.rows(MANY)
        shown = life.timeline.rows(FEW)
        report = report_of(life, every, life.release())
        if svg != "":
            from slackwater.simulation.picture import picture

            _write(
                svg or f"{Path(scenario).stem}.svg", [picture(report, life.meter, every).encode()]
            )
    if record:
        from slackwater.record.recording import lines

        _write(record, lines(kept))
    rows = every if output is Output.WIDE else shown
    _print(report, rows, output, wants_colour(no_color))
    sys.exit(1 if report.left else 0)


def _print(report: "Report", rows: "list[Row]", output: Output, colour: bool) -> None:
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
        return
    from slackwater.cli.simulate_text import print_simulation

    print_simulation(report, rows, colour)


def _read(path: str) -> "Scenario":
    from slackwater.model.problem import InvalidError
    from slackwater.simulation.scenario_file import read_scenario

    try:
        return read_scenario(path)
    except InvalidError as error:
        raise WrongSettings(str(error)) from None


@contextlib.contextmanager
def _lived(scenario: "Scenario", orders: "Orders") -> Iterator["Life"]:
    """A life whose ledger is in memory where there is such a folder, and goes with it."""
    import tempfile

    from slackwater.simulation.life import CannotSimulate, Life

    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="slackwater-", dir=folder) as state:
        try:
            life = Life(scenario, state, orders)
        except CannotSimulate as error:
            raise WrongSettings(str(error)) from None
        try:
            yield life
        finally:
            life.close()


def _run(life: "Life", kept: "list[TickRecord] | None") -> None:
    """With a bar where somebody looks at it."""
    from slackwater.record.journal import TickRecord

    length = life.scenario.duration
    step, shown = max(length // _BAR_STEPS, 1), 0
    with click.progressbar(
        length=length,
        label=life.scenario.name,
        width=0,
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:

        def watch(at: "Micros", done: "TickRecord | Gap") -> None:
            nonlocal shown
            if kept is not None and isinstance(done, TickRecord):
                kept.append(done)
            if at - shown >= step:
                bar.update(at - shown)
                shown = at

        life.run(watch)
        bar.update(length - shown)


def _write(path: str, parts: Iterable[bytes]) -> None:
    try:
        with open(path, "wb") as file:
            file.writelines(parts)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"slackwater: wrote {path}", err=True)
