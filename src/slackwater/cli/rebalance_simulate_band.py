"""One run of a what-if as a band of characters: mean and hottest pod against the threshold.

Owns the picture in the terminal: a column for each stretch of time, a row for each part of the
scale. It is readable without colours.
"""

import math
from collections.abc import Callable, Sequence

import msgspec
from rich.text import Text

from slackwater.rebalancer.whatif.simulate_day import LoadSummary
from slackwater.rebalancer.whatif.simulation_report import Line, SimulationReport

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

Chosen = Callable[[Line], LoadSummary]


class Column(msgspec.Struct, frozen=True):
    """A stretch of time in cores: the highest of the hottest, the averages of the others."""

    hottest: float
    mean: float
    threshold: float


def scale_of(report: SimulationReport) -> float:
    """One for both bands: what is highest in either."""
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


def columns_of(report: SimulationReport, chosen: Chosen, width: int) -> list[Column | None]:
    """None: nothing was recorded there."""
    placed = places(report, width)
    found: list[list[Line]] = [[] for _ in range(max(placed) + 1)]
    for place, line in zip(placed, report.steps, strict=True):
        found[place].append(line)
    return [_column(lines, chosen) if lines else None for lines in found]


def _column(lines: Sequence[Line], chosen: Chosen) -> Column:
    summaries = [chosen(line) for line in lines]
    return Column(
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
    """What is as high as the scale is in the top row."""
    return row == min(int(amount / most * _ROWS), _ROWS - 1)


def _cell(column: Column | None, row: int, most: float) -> str:
    """By the middle of the cell; the threshold's row shows where nothing else is."""
    if column is None:
        return " "
    middle = (row + 0.5) * most / _ROWS
    if middle <= column.mean:
        return _MEAN
    if middle <= column.hottest:
        return _ABOVE if middle > column.threshold else _HOTTEST
    return _THRESHOLD if _is_in(column.threshold, row, most) else " "


def ticks(report: SimulationReport, width: int) -> Text:
    """Where it was rotated."""
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
    """What each sign means; a line breaks before a sign, never behind it."""
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
