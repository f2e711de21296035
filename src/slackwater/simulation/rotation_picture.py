"""The what-if of rotating as one picture: the fleet without and with rotation, and replicas saved.

Owns the drawing, as SVG text that needs nothing but itself. Colours are written out, light ones
first and dark ones for readers who want dark, so that simple renderers show it too.
"""

from collections.abc import Callable

import msgspec

from slackwater.rebalancer.whatif.simulate_day import LoadSummary
from slackwater.rebalancer.whatif.simulation_report import (
    Line,
    SideSummary,
    SimulationReport,
    conclusions,
    counted,
)
from slackwater.simulation.svg import Frame, area, cpu_ticks, grid, line, steps, text, time_axis

_TITLE = "What rotating the pods of a skewed workload would bring"
_WIDTH = 1200
_LEFT, _RIGHT = 64, 236
_TOP, _HEIGHT, _GAP = 164, 190, 68
_REPLICAS_HEIGHT = 150
#: Head room above the highest line.
_ROOM = 1.08
#: Percent of pods' time above the threshold.
_GOOD = 1.0
_STYLE = """
text { font-family: "DejaVu Sans", "Liberation Sans", "Noto Sans", Arial, sans-serif;
  fill: #1f2933; font-size: 13px; }
.title { font-size: 22px; font-weight: bold; } .head { font-weight: bold; font-size: 14px; }
.faint { fill: #5f6b7a; font-size: 12px; } .middle { text-anchor: middle; }
.end { text-anchor: end; } .big { font-size: 24px; font-weight: bold; }
.good { fill: #1a7f4b; } .bad { fill: #b3261e; }
.ground { fill: #ffffff; } .panel { fill: #f4f6f9; } .rule { stroke: #dde2e9; stroke-width: 1; }
.mean { fill: #8db8e6; } .over { fill: #e58a84; }
.hottest { fill: none; stroke: #1f4e8c; stroke-width: 1.8; stroke-linejoin: round; }
.threshold { fill: none; stroke: #b3261e; stroke-width: 1.8; stroke-dasharray: 8 5; }
.tick { stroke: #1a7f4b; stroke-width: 1; stroke-dasharray: 3 4; } .arrow { fill: #1a7f4b; }
.fewer { fill: #bfe3cd; } .before { fill: none; stroke: #b26a00; stroke-width: 2; }
.after { fill: none; stroke: #1a7f4b; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  text { fill: #e8edf2; } .faint { fill: #9aa7b5; } .good { fill: #4fd08a; } .bad { fill: #ff7b72; }
  .ground { fill: #11161d; } .panel { fill: #171e27; } .rule { stroke: #2a333e; }
  .mean { fill: #2d4f75; } .over { fill: #8a3a35; } .hottest { stroke: #7db7ea; }
  .threshold { stroke: #ff7b72; } .tick { stroke: #4fd08a; } .arrow { fill: #4fd08a; }
  .fewer { fill: #1f4a34; } .before { stroke: #e0a040; } .after { stroke: #4fd08a; }
}
"""

Chosen = Callable[[Line], LoadSummary]


class _Grid(msgspec.Struct, frozen=True):
    """The day's steps with a None where nothing was recorded, and the seconds between them."""

    lines: tuple[Line | None, ...]
    edges: tuple[float, ...]


def picture(report: SimulationReport) -> str:
    """The whole SVG document."""
    width, laid = _WIDTH - _LEFT - _RIGHT, _laid(report)
    seconds = laid.edges[-1]
    most = _ROOM * max(max(each.without.hottest, each.rotated.hottest, each.threshold)
                       for each in report.steps)  # fmt: skip
    second = _TOP + _HEIGHT + _GAP
    third = second + _HEIGHT + _GAP
    height = third + _REPLICAS_HEIGHT + 66
    without = Frame(_LEFT, _TOP, width, _HEIGHT, seconds, most)
    rotated = Frame(_LEFT, second, width, _HEIGHT, seconds, most)
    needed = Frame(_LEFT, third, width, _REPLICAS_HEIGHT, seconds, _ROOM * _most_replicas(report))
    parts = [
        _opening(height),
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}" rx="10"/>',
        *_head(report),
        *_fleet(without, laid, lambda each: each.without, "Without rotation"),
        *_beside(without, report.without),
        *_legend(without),
        *_fleet(rotated, laid, lambda each: each.rotated, "With rotation"),
        *_rotations(rotated, report),
        *_beside(rotated, report.rotated),
        *_arrow_legend(rotated),
        *_replicas(needed, laid, report),
        text(_LEFT, height - 14, _footer(report), "faint"),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _opening(height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{_TITLE}">'
    )


def _laid(report: SimulationReport) -> _Grid:
    day = report.day
    count = round(day.seconds / day.step_seconds)
    lines: list[Line | None] = [None] * count
    for each in report.steps:
        lines[round((each.at - day.start) / day.step_seconds)] = each
    return _Grid(tuple(lines), tuple(day.step_seconds * n for n in range(count + 1)))


def _most_replicas(report: SimulationReport) -> float:
    return float(max(report.without.most_replicas, report.rotated.most_replicas))


def _head(report: SimulationReport) -> list[str]:
    told = conclusions(report)
    return [
        text(_LEFT, 42, _TITLE, "title"),
        *(text(_LEFT, 70 + 21 * number, sentence) for number, sentence in enumerate(told)),
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
    bottom = frame.top + frame.height
    parts = []
    for rotation in report.rotations:
        x = frame.x(rotation.at - report.day.start)
        parts += [
            f'<line class="tick" x1="{x}" y1="{frame.top}" x2="{x}" y2="{bottom}"/>',
            f'<path class="arrow" d="M{x},{frame.top - 1}l-5,-9h10Z"/>',
        ]
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
        parts += [line(left, top - 4, left + 18, kind), text(left + 26, top, name, "faint")]
        top += 19
    for kind, name in (("mean", "mean of the pods"), ("over", "above the threshold")):
        box = f'x="{left}" y="{top - 11}" width="18" height="13" rx="2"'
        parts += [f'<rect class="{kind}" {box}/>', text(left + 26, top, name, "faint")]
        top += 19
    return parts


def _arrow_legend(frame: Frame) -> list[str]:
    left, y = frame.left + frame.width + 20, frame.top + 118
    arrow = f'<path class="arrow" d="M{left + 9},{y}l-5,-9h10Z"/>'
    return [arrow, text(left + 26, y, "rotation", "faint")]


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
        line(left, top + 43, left + 18, "before"),
        text(left + 26, top + 47, "without rotation", "faint"),
        line(left, top + 62, left + 18, "after"),
        text(left + 26, top + 66, "with rotation", "faint"),
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
