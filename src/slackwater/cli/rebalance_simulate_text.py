"""The what-if of rotating for people: two bands, two tables, and what it comes to."""

import enum
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.cli.rebalance_simulate_band import MARGIN, axis, band, legend, ticks
from slackwater.cli.terminal import picture_width, print_blocks
from slackwater.kube.time_of_day import whole_seconds
from slackwater.model.duration import format_duration
from slackwater.model.units import Micros
from slackwater.rebalancer.whatif.simulate_day import SimulatedRotation
from slackwater.rebalancer.whatif.simulation_report import (
    SideSummary,
    SimulationReport,
    conclusions,
    counted,
)

#: Columns of the bands: more are no clearer.
_WIDEST = 96
#: Seconds below this are counted from anywhere, not from 1970.
_NO_DATE = 1e8
#: Rotations that are listed where not all are asked for.
_FEW = 8


class Detail(enum.Enum):
    """How many rotations are listed: some, or all."""

    USUAL = "usual"
    WIDE = "wide"


def print_simulation(report: SimulationReport, colour: bool, detail: Detail) -> None:
    screen = picture_width()
    band_width = min(screen - MARGIN, _WIDEST)
    print_blocks(blocks(report, band_width, detail), colour, width=screen)


def blocks(report: SimulationReport, width: int, detail: Detail) -> Iterator[RenderableType]:
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
        yield from _rotations(report, detail)
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
    since = f" since {whole_seconds(day.start)}" if day.start >= _NO_DATE else ""
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


def _rotations(report: SimulationReport, detail: Detail) -> Iterator[RenderableType]:
    shown = report.rotations if detail is Detail.WIDE else report.rotations[:_FEW]
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
