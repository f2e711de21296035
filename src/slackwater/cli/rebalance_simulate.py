"""`slackwater rebalance simulate`: a recorded or generated day in, what rotating brings out.

As text, two bands of characters show the mean and the hottest pod against the threshold, with a
column for each stretch of time. They are readable without colours.
"""

import enum
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence

import click
import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.rebalance_simulate_settings import (
    BY_KEY,
    Told,
    refuse_all,
    shape_of,
    simulate_options,
    step_of,
    terms_of,
    told_by,
)
from slackwater.cli.terminal import picture_width, print_blocks
from slackwater.kube.api_time import format_time
from slackwater.model.problem import InvalidError, Problem
from slackwater.model.units import Micros, format_duration
from slackwater.rebalancer.observed import Cores
from slackwater.rebalancer.reason import counted
from slackwater.rebalancer.whatif.day import (
    MOST_STEPS,
    Day,
    UsageSample,
    build_day,
    choose_step,
    count_steps,
    generate_day,
)
from slackwater.rebalancer.whatif.day_recording import read_recording
from slackwater.rebalancer.whatif.simulate_day import (
    LoadSummary,
    SimulatedRotation,
    SimulatedStep,
    SimulationTerms,
    simulate_day,
)
from slackwater.rebalancer.whatif.simulation_report import (
    SideSummary,
    SimulationReport,
    build_report,
    conclusions,
)
from slackwater.settings.rebalance_simulation import OF_A_GENERATED_DAY
from slackwater.simulation.rotation_picture import picture

#: For the numbers at the left.
MARGIN = 7
_ROWS = 8
_MEAN, _HOTTEST, _ABOVE, _THRESHOLD, _TICK = "█", "░", "▓", "┄", "▲"
_STYLES = {_MEAN: "blue", _HOTTEST: "cyan", _ABOVE: "red", _THRESHOLD: "yellow", _TICK: "green"}
LEGEND = (
    f"{_MEAN} mean of pods",
    f"{_HOTTEST} hottest pod",
    f"{_ABOVE} above the threshold",
    f"{_THRESHOLD} threshold",
    f"{_TICK} rotation",
)
_BETWEEN = "  "

Chosen = Callable[[SimulatedStep], LoadSummary]
#: Columns of the bands; more would not be clearer.
_WIDEST = 96
#: Smaller times are not counted from 1970.
_NO_DATE = 1e8
#: Rotations that are listed without -o wide.
_FEW = 8


@click.command(short_help="What rotating would have brought.")
@click.argument("recording", metavar="[RECORDING]", required=False)
@click.option("--svg", metavar="FILE", default="", help="Where a picture goes. Default: none.")
@output_options
@simulate_options
def simulate(
    recording: str | None, svg: str, output: Output, no_color: bool, **flags: str | None
) -> None:
    """What rotating would have brought, on a recorded or a generated day.

    RECORDING is CSV with the columns time, pod, cores and request, or Prometheus' JSON answer to
    a query_range; - is standard input. Without one a day is generated. The decisions are those
    that `run` would have made, in virtual time; what a rotation does to the load is a model: load
    follows the pods. No cluster is asked, and nothing is changed.

    \b
    Examples:
      slackwater rebalance simulate
      slackwater rebalance simulate --pods 40 --skew 1 --svg day.svg
      slackwater rebalance simulate day.csv --tolerance 1.3 --hpa-target 60
      slackwater rebalance simulate day.csv --stickiness 0.8     if a few keys are hot
      curl -s "$PROMETHEUS/api/v1/query_range?..." | slackwater rebalance simulate - --request 0.5
      slackwater rebalance simulate day.csv -o json | jq .saved

    \b
    Exit codes: 0 done, 1 a file cannot be read or written, 2 wrong usage, recording or settings.
    """

    try:
        told = told_by(flags)
        terms = terms_of(told)
        if recording is None:
            day, seed = _generate_day(told, terms)
        else:
            day, seed = _read_day(recording, told), None
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    report = _simulate(day, terms, None if recording is None else _name(recording), seed)
    if svg:
        _draw(report, svg)
    _print(report, output, wants_colour(no_color))


def _generate_day(told: Told, terms: SimulationTerms) -> tuple[Day, int]:
    shape, seed = shape_of(told, terms.hpa_target), told.settings.seed
    _refuse_too_many(round(shape.hours * 3600 / shape.step), shape.step, "a generated day")
    draw = random.Random(seed).random  # noqa: S311 - noise, not a secret
    return generate_day(shape, draw), seed


def _refuse_too_many(steps: int, step: float, name: str) -> None:
    if steps > MOST_STEPS:
        longer = f"choose a longer {BY_KEY['step'].flag}"
        raise WrongSettings(
            f"{name} is {steps} steps of {step:g} s, but must be at most {MOST_STEPS}: {longer}"
        )


def _read_day(recording: str, told: Told) -> Day:
    refuse_all(
        f"{text.where} is of a generated day, but there is a recording"
        for each in OF_A_GENERATED_DAY
        if (text := told.texts.get(each.key))
    )
    samples = _samples(recording, told)
    step = step_of(told) or choose_step(samples)
    _refuse_too_many(count_steps(samples, step), step, _name(recording))
    return build_day(samples, step)


def _name(recording: str) -> str:
    from slackwater.cli.replay import STDIN

    return "standard input" if recording == STDIN else recording


def _samples(recording: str, told: Told) -> tuple[UsageSample, ...]:
    from slackwater.cli.replay import contents

    name = _name(recording)
    try:
        text = contents(recording).decode()
    except UnicodeDecodeError as error:
        raise InvalidError(Problem(name, f"no UTF-8 at byte {error.start}", "UTF-8")) from None
    request = Cores(told.settings.request) if "request" in told.texts else None
    return read_recording(text, name, request)


def _simulate(
    day: Day, terms: SimulationTerms, recording: str | None, seed: int | None
) -> SimulationReport:
    """Shows a progress bar on a terminal."""
    with click.progressbar(
        length=len(day.moments),
        label="steps",
        width=0,
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        result = simulate_day(day, terms, lambda: bar.update(1))
    return build_report(day, terms, result, recording, seed)


def _draw(report: SimulationReport, path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(report))
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"slackwater: wrote {path}", err=True)


def _print(report: SimulationReport, output: Output, colour: bool) -> None:
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
        return
    rotations = RotationList.ALL if output is Output.WIDE else RotationList.SOME
    print_simulation(report, colour, rotations)


class BandColumn(msgspec.Struct, frozen=True):
    """A stretch of time, in cores: the maximum of the hottest pod, the means of the others."""

    hottest: float
    mean: float
    threshold: float


def scale_of(report: SimulationReport) -> float:
    """The maximum of both bands, which have the same scale."""
    return max(max(line.without.hottest, line.rotated.hottest, line.threshold)
               for line in report.steps)  # fmt: skip


def places(report: SimulationReport, width: int) -> list[int]:
    """Each step's column. A day shorter than the width gets as many columns as it has steps."""
    day = report.day
    count = round(day.seconds / day.step_seconds)
    columns = min(width, count)
    return [
        min(round((line.at - day.start) / day.step_seconds) * columns // count, columns - 1)
        for line in report.steps
    ]


def columns_of(report: SimulationReport, chosen: Chosen, width: int) -> list[BandColumn | None]:
    """None if nothing was recorded."""
    placed = places(report, width)
    found: list[list[SimulatedStep]] = [[] for _ in range(max(placed) + 1)]
    for place, line in zip(placed, report.steps, strict=True):
        found[place].append(line)
    return [_column(lines, chosen) if lines else None for lines in found]


def _column(lines: Sequence[SimulatedStep], chosen: Chosen) -> BandColumn:
    summaries = [chosen(line) for line in lines]
    return BandColumn(
        max(each.hottest for each in summaries),
        math.fsum(each.mean for each in summaries) / len(lines),
        math.fsum(line.threshold for line in lines) / len(lines),
    )


def band(report: SimulationReport, chosen: Chosen, width: int) -> list[Text]:
    """From the top down, with the scale at the left."""
    most = scale_of(report) or 1.0
    columns = columns_of(report, chosen, width)
    limit = report.steps[0].threshold
    rows = []
    for row in reversed(range(_ROWS)):
        label = f"{most:.2f}" if row == _ROWS - 1 else ""
        if _is_in(limit, row, most):
            label = f"{limit:.2f}"
        cells = "".join(_cell(column, row, most) for column in columns)
        rows.append(_styled(f"{label:>{MARGIN - 2}}  ", cells))
    return rows


def _is_in(amount: float, row: int, most: float) -> bool:
    """The maximum of the scale belongs to the top row."""
    return row == min(int(amount / most * _ROWS), _ROWS - 1)


def _cell(column: BandColumn | None, row: int, most: float) -> str:
    """Decided by the middle of the cell; the threshold shows only where nothing else is."""
    if column is None:
        return " "
    middle = (row + 0.5) * most / _ROWS
    if middle <= column.mean:
        return _MEAN
    if middle <= column.hottest:
        return _ABOVE if middle > column.threshold else _HOTTEST
    return _THRESHOLD if _is_in(column.threshold, row, most) else " "


def ticks(report: SimulationReport, width: int) -> Text:
    """Marks the rotations."""
    placed = dict(zip((line.at for line in report.steps), places(report, width), strict=True))
    rotated = {placed[rotation.at] for rotation in report.rotations}
    cells = "".join(_TICK if n in rotated else " " for n in range(max(placed.values()) + 1))
    return _styled(" " * MARGIN, cells)


def axis(report: SimulationReport, width: int) -> Text:
    """Begin and end, in hours and minutes."""
    columns = max(places(report, width)) + 1
    end = _clock(report.day.seconds)
    return Text(" " * MARGIN + f"0:00{end:>{max(columns - 4, len(end) + 1)}}", "dim")


def legend(width: int) -> Text:
    """A line breaks before a sign, never after it."""
    lines = [LEGEND[0]]
    for part in LEGEND[1:]:
        longer = f"{lines[-1]}{_BETWEEN}{part}"
        lines[-1:] = [longer] if len(longer) <= width else [lines[-1], part]
    return Text("\n".join(lines), "dim")


def _clock(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds // 60 % 60):02}"


def _styled(margin: str, cells: str) -> Text:
    line = Text(margin, no_wrap=True, overflow="ignore")
    for cell in cells:
        line.append(cell, _STYLES.get(cell, ""))
    return line


class RotationList(enum.Enum):
    """How many rotations are listed."""

    SOME = "some"
    ALL = "all"


def print_simulation(report: SimulationReport, colour: bool, listed: RotationList) -> None:
    screen = picture_width()
    band_width = min(screen - MARGIN, _WIDEST)
    print_blocks(blocks(report, band_width, listed), colour, width=screen)


def blocks(report: SimulationReport, width: int, listed: RotationList) -> Iterator[RenderableType]:
    yield Text(_headline(report), "bold")
    yield Text("\nwithout rotation, in cores")
    yield from band(report, lambda line: line.without, width)
    yield Text("\nwith rotation")
    yield from band(report, lambda line: line.rotated, width)
    yield ticks(report, width)
    yield axis(report, width)
    yield legend(width + MARGIN)
    yield Text("")
    yield _sides(report)
    yield Text("")
    if report.rotations:
        yield from _rotations(report, listed)
        yield Text("")
    if report.skipped:
        told = ", ".join(f"{reason} {count}" for reason, count in report.skipped.items())
        yield Text(f"Steps without a rotation: {told}", "dim")
    yield from (Text(sentence) for sentence in conclusions(report))


def _headline(report: SimulationReport) -> str:
    day, tried = report.day, report.settings
    origin = f"A generated day (seed {day.seed})" if day.recording is None else day.recording
    step = format_duration(Micros(round(day.step_seconds * 1_000_000)))
    missing = f", {day.missing} more without a sample" if day.missing else ""
    since = f" since {format_time(day.start)}" if day.start >= _NO_DATE else ""
    unit = " %" if report.hpa.unit == "percent" else " cores"
    return (
        f"{origin}: {counted(day.pods, 'pod')}, {counted(day.steps, 'step')} of {step}{since}"
        f"{missing}; "
        f"HPA target {report.hpa.target:g}{unit}, tolerance {tried.tolerance:g}, "
        f"stickiness {tried.stickiness:g}"
    )


def _sides(report: SimulationReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ROTATION", no_wrap=True)
    for head in ("SKEW", "WORST", "ABOVE", "CORE-HOURS", "MOST REPLICAS"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, side in (("without", report.without), ("with", report.rotated)):
        table.add_row(name, *_numbers(side))
    return table


def _numbers(side: SideSummary) -> list[str]:
    return [
        "-" if side.skew is None else f"{side.skew:.2f}",
        "-" if side.worst_skew is None else f"{side.worst_skew:.2f}",
        f"{side.above:.1f} %",
        f"{side.core_hours:.1f}",
        str(side.most_replicas),
    ]


def _rotations(report: SimulationReport, listed: RotationList) -> Iterator[RenderableType]:
    shown = report.rotations if listed is RotationList.ALL else report.rotations[:_FEW]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TIME", no_wrap=True)
    for head in ("HOT", "PREDICTED", "GAIN", "REALISED"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("PODS")
    for rotation in shown:
        table.add_row(*_row(rotation, report.day.start))
    yield table
    if len(shown) < len(report.rotations):
        yield Text(f"and {len(report.rotations) - len(shown)} more: -o wide shows all", "dim")


def _row(rotation: SimulatedRotation, start: float) -> list[str]:
    minutes = round((rotation.at - start) / 60)
    realised = rotation.realised
    return [
        f"{minutes // 60}:{minutes % 60:02}",
        f"{rotation.average:.2f}",
        f"{rotation.predicted:.2f}",
        f"{rotation.improvement:.1f} %",
        "-" if realised is None else f"{realised:.1f} %",
        ", ".join(rotation.pods),
    ]
