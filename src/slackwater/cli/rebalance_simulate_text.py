"""The what-if of rotating for people: two bands, a table, who would have gone when, and sentences.

Owns the picture in the terminal: hottest and mean of the fleet against the threshold, without and
with rotation, on one scale. It is readable without colours.
"""

import enum
import math
from collections.abc import Callable, Iterator, Sequence

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.cli.printing import print_blocks, text_width
from slackwater.rebalancer.whatif import Glance, Rotation
from slackwater.rebalancer.whatif_report import Line, Report, Side, sentences
from slackwater.settings.duration import format_duration

_ROWS = 7
_MARGIN = 9
_WIDEST = 96
#: Rotations that are listed; -o wide lists all.
_FEW = 8
_MEAN, _HOTTEST, _ABOVE, _THRESHOLD, _TICK = "█", "░", "▓", "┄", "▲"
_STYLES = {_MEAN: "blue", _HOTTEST: "cyan", _ABOVE: "red", _THRESHOLD: "yellow", _TICK: "green"}


class Detail(enum.Enum):
    USUAL = "usual"
    WIDE = "wide"


class Column(msgspec.Struct, frozen=True):
    """The steps that share one character's width; None where there are none."""

    hottest: float
    mean: float


def print_simulation(report: Report, colour: bool, detail: Detail) -> None:
    width = min(text_width() - _MARGIN, _WIDEST)
    print_blocks(blocks(report, width, detail), colour)


def blocks(report: Report, width: int, detail: Detail) -> Iterator[RenderableType]:
    yield Text(_headline(report), "bold")
    yield Text("")
    top = max(line.without.hottest for line in report.steps)
    top = max(top, max(line.threshold for line in report.steps)) or 1.0
    yield from _band(report, "without rotation", lambda line: line.without, width, top)
    yield Text("")
    yield from _band(report, "with rotation", lambda line: line.rotated, width, top)
    yield _ticks(report, width)
    yield _axis(report, width)
    yield Text(
        f"{_MEAN} mean of the pods  {_HOTTEST} hottest pod  {_ABOVE} above the threshold  "
        f"{_THRESHOLD} threshold  {_TICK} rotation",
        "dim",
    )
    yield Text("")
    yield _sides(report)
    yield Text("")
    yield from _rotations(report, detail)
    yield from _skipped(report)
    yield from (Text(sentence) for sentence in sentences(report))


def _headline(report: Report) -> str:
    day = report.day
    origin = day.recording if day.recording is not None else f"generated, seed {day.seed}"
    step = format_duration_of(day.step_seconds)
    missing = f" ({day.missing} without a sample)" if day.missing else ""
    unit = "%" if report.hpa.unit == "percent" else "cores"
    return (
        f"{origin}: {day.pods} pods, {day.steps} steps of {step}{missing}; "
        f"HPA target {report.hpa.target:g} {unit}, tolerance {report.settings.tolerance:g}, "
        f"stickiness {report.settings.stickiness:g}"
    )
