"""The what-if of rotating pods as one picture: without and with rotation, and replicas saved."""

from collections.abc import Callable

import msgspec

from slackwater.drawing.legend import area_key, line_key
from slackwater.drawing.page import LEFT, WIDTH, page, text
from slackwater.drawing.plot import (
    Frame,
    area,
    arrow,
    cpu_ticks,
    grid,
    steps,
    time_axis,
    vertical_line,
)
from slackwater.rebalancer.reason import counted
from slackwater.rebalancer.whatif.simulate_day import LoadSummary, SimulatedStep
from slackwater.rebalancer.whatif.simulation_report import (
    SideSummary,
    SimulationReport,
    conclusions,
)

_TITLE = "What rotating the pods of a skewed workload would bring"
_RIGHT = 236
_TOP, _HEIGHT, _GAP = 164, 190, 68
_REPLICAS_HEIGHT = 150
#: Head room above the highest line.
_ROOM = 1.08
#: Percent of pods' time above the threshold.
_GOOD = 1.0

Chosen = Callable[[SimulatedStep], LoadSummary]


class _Grid(msgspec.Struct, frozen=True):
    """The day's steps with a None where nothing was recorded, and the seconds between them."""

    lines: tuple[SimulatedStep | None, ...]
    edges: tuple[float, ...]


def picture(report: SimulationReport) -> str:
    """The whole SVG document."""
    width, laid = WIDTH - LEFT - _RIGHT, _laid(report)
    seconds = laid.edges[-1]
    most = _ROOM * max(max(each.without.hottest, each.rotated.hottest, each.threshold)
                       for each in report.steps)  # fmt: skip
    second = _TOP + _HEIGHT + _GAP
    third = second + _HEIGHT + _GAP
    height = third + _REPLICAS_HEIGHT + 66
    without = Frame(LEFT, _TOP, width, _HEIGHT, seconds, most)
    rotated = Frame(LEFT, second, width, _HEIGHT, seconds, most)
    needed = Frame(LEFT, third, width, _REPLICAS_HEIGHT, seconds, _ROOM * _most_replicas(report))
    parts = [
        *_head(report),
        *_fleet(without, laid, lambda each: each.without, "Without rotation"),
        *_beside(without, report.without),
        *_legend(without),
        *_fleet(rotated, laid, lambda each: each.rotated, "With rotation"),
        *_rotations(rotated, report),
        *_beside(rotated, report.rotated),
        *_arrow_legend(rotated),
        *_replicas(needed, laid, report),
        text(LEFT, height - 14, _footer(report), "faint"),
    ]
    return page(_TITLE, height, parts)


def _laid(report: SimulationReport) -> _Grid:
    day = report.day
    count = round(day.seconds / day.step_seconds)
    lines: list[SimulatedStep | None] = [None] * count
    for each in report.steps:
        lines[round((each.at - day.start) / day.step_seconds)] = each
    return _Grid(tuple(lines), tuple(day.step_seconds * n for n in range(count + 1)))


def _most_replicas(report: SimulationReport) -> float:
    return float(max(report.without.most_replicas, report.rotated.most_replicas))


def _head(report: SimulationReport) -> list[str]:
    told = conclusions(report)
    return [
        text(LEFT, 42, _TITLE, "title"),
        *(text(LEFT, 70 + 21 * number, sentence) for number, sentence in enumerate(told)),
    ]


def _fleet(frame: Frame, laid: _Grid, chosen: Chosen, title: str) -> list[str]:
    """Mean and hottest of the pods, what is above the threshold in red."""
    glances = [None if each is None else chosen(each) for each in laid.lines]
    means = [0.0 if each is None else each.mean for each in glances]
    limits = [None if each is None else each.threshold for each in laid.lines]
    low = [limit or 0.0 for limit in limits]
    over = [
        limit if each is None else max(each.hottest, limit)
        for each, limit in zip(glances, low, strict=True)
    ]
    hottest = [None if each is None else each.hottest for each in glances]
    return [
        text(frame.left, frame.top - 16, title, "head"),
        text(frame.left - 8, frame.top - 16, "cores", "faint end"),
        *grid(frame, cpu_ticks(frame, 4)),
        area(frame, laid.edges, [0.0] * len(means), means, "mean"),
        area(frame, laid.edges, low, over, "over"),
        steps(frame, laid.edges, hottest, "hottest"),
        steps(frame, laid.edges, limits, "threshold"),
        *time_axis(frame),
    ]


def _rotations(frame: Frame, report: SimulationReport) -> list[str]:
    """Arrows from above; a line through the panel shows what followed."""
    parts = []
    for rotation in report.rotations:
        x = frame.x(rotation.at - report.day.start)
        parts += [vertical_line(x, frame, "tick"), arrow(x, frame.top - 1)]
    return parts


def _beside(frame: Frame, side: SideSummary) -> list[str]:
    left, top = frame.left + frame.width + 20, frame.top + 24
    kind = "good" if side.above <= _GOOD else "bad"
    skew = "-" if side.skew is None else f"{side.skew:.2f} ×"
    return [
        text(left, top, skew, f"big {kind}"),
        text(left, top + 19, "hottest / mean, on average", "faint"),
        text(left, top + 46, f"{side.above:.1f} %"),
        text(left, top + 63, "of pods' time above threshold", "faint"),
    ]


def _legend(frame: Frame) -> list[str]:
    left, top = frame.left + frame.width + 20, frame.top + 118
    named = (("hottest", "hottest pod"), ("threshold", "threshold"))
    parts = []
    for kind, name in named:
        parts += line_key(left, top, kind, name)
        top += 19
    for kind, name in (("mean", "mean of the pods"), ("over", "above the threshold")):
        parts += area_key(left, top, kind, name)
        top += 19
    return parts


def _arrow_legend(frame: Frame) -> list[str]:
    left, y = frame.left + frame.width + 20, frame.top + 118
    return [arrow(left + 9, y), text(left + 26, y, "rotation", "faint")]


def _replicas(frame: Frame, laid: _Grid, report: SimulationReport) -> list[str]:
    without = [None if each is None else float(each.without.replicas) for each in laid.lines]
    rotated = [None if each is None else float(each.rotated.replicas) for each in laid.lines]
    low, high = [each or 0.0 for each in rotated], [each or 0.0 for each in without]
    left, top = frame.left + frame.width + 20, frame.top + 24
    kind = "good" if report.saved.percent > 0 else ""
    title = "Replicas that an HPA needs for the hottest pod to stay below the threshold"
    return [
        text(frame.left, frame.top - 14, title, "head"),
        *grid(frame, cpu_ticks(frame, 4)),
        area(frame, laid.edges, low, high, "fewer"),
        steps(frame, laid.edges, without, "before"),
        steps(frame, laid.edges, rotated, "after"),
        *time_axis(frame),
        text(left, top, f"{report.saved.percent:.1f} % saved", f"big {kind}"),
        text(left, top + 19, f"{report.saved.core_hours:g} core-hours", "faint"),
        *line_key(left, top + 47, "before", "without rotation"),
        *line_key(left, top + 66, "after", "with rotation"),
    ]


def _footer(report: SimulationReport) -> str:
    day, tried = report.day, report.settings
    origin = (
        f"generated, seed {day.seed}" if day.recording is None else f"recorded: {day.recording}"
    )
    unit = " %" if report.hpa.unit == "percent" else " cores"
    return (
        f"{counted(day.pods, 'pod')}, {counted(day.steps, 'step')} ({origin}). "
        f"HPA target {report.hpa.target:g}{unit}, tolerance {tried.tolerance:g}, "
        f"stickiness {tried.stickiness:g}. A model: load follows the pods."
    )
