"""Pieces of a chart as SVG text: frames, grids, areas, step lines, marks.

Owns the way from seconds and CPUs to places on the page. Knows no scenario; colours and widths
are the classes of whoever draws.
"""

import itertools
import os
from collections.abc import Sequence
from xml.sax.saxutils import escape

import msgspec

from slackwater.model.gap import Gap

_MINUTE, _HOUR = 60, 3600
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12, 24)),
)
_MOST_TIMES = 12
_BADGE = 8
#: Twice the SVG's size: sharp on the screens of today.
_ZOOM = 2
_FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")
_FONTS = (".ttf", ".otf", ".ttc")
NO_RENDERER = Gap("the package resvg-py is not installed (pip install 'slackwater[demo]')")
NO_FONT = Gap("this machine has no fonts to draw text with")


class Frame(msgspec.Struct, frozen=True):
    """A plot's place on the page; its axes go from 0 to `seconds` and from 0 to `most` CPUs."""

    left: int
    top: int
    width: int
    height: int
    seconds: float
    most: float

    def x(self, seconds: float) -> float:
        return round(self.left + self.width * seconds / self.seconds, 1)

    def y(self, cpus: float) -> float:
        return round(self.top + self.height * (1 - min(cpus / self.most, 1)), 1)


def text(x: float, y: float, words: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{styled}>{escape(words)}</text>'


def line(x: float, y: float, until: float, kind: str) -> str:
    """A level one, for a legend."""
    return f'<line class="{kind}" x1="{x}" y1="{y}" x2="{until}" y2="{y}"/>'


def cpu_ticks(frame: Frame, about: int = 5) -> list[float]:
    """Round numbers of CPUs, about so many."""
    size = 0.001
    for size in (unit * 10.0**power for power in range(-3, 4) for unit in (1, 2, 4, 5)):
        if frame.most / size <= about + 1:
            break
    return [size * n for n in range(int(frame.most / size + 1e-9) + 1)]


def grid(frame: Frame, ticks: Sequence[float]) -> list[str]:
    place = f'x="{frame.left}" y="{frame.top}" width="{frame.width}" height="{frame.height}"'
    parts = [f'<rect class="panel" {place}/>']
    for tick in ticks:
        y = frame.y(tick)
        parts.append(line(frame.left, y, frame.left + frame.width, "rule"))
        parts.append(text(frame.left - 8, y + 4, f"{tick:g}", "faint end"))
    return parts


def time_axis(frame: Frame) -> list[str]:
    step = next((s for s in _TIME_STEPS if frame.seconds / s <= _MOST_TIMES), _TIME_STEPS[-1])
    y = frame.top + frame.height
    parts = []
    for n in range(int(frame.seconds // step) + 1):
        x = frame.x(n * step)
        parts.append(f'<line class="rule" x1="{x}" y1="{y}" x2="{x}" y2="{y + 5}"/>')
        parts.append(text(x, y + 20, spelled_time(n * step, step), "faint middle"))
    unit = "h:mm" if step >= _MINUTE else "m:ss"
    return [*parts, text(frame.left + frame.width + 32, y + 20, unit, "faint")]


def spelled_time(seconds: int, step: int) -> str:
    if step >= _MINUTE:
        return f"{seconds // _HOUR}:{seconds // _MINUTE % 60:02}"
    return f"{seconds // _MINUTE}:{seconds % 60:02}"


def area(
    frame: Frame, edges: Sequence[float], low: Sequence[float], high: Sequence[float], kind: str
) -> str:
    """Between two step lines; `edges` has one time more than there are steps."""
    if not high:
        return ""
    there = _stairs(frame, edges, high)
    back = _stairs(frame, edges[::-1], low[::-1])
    return f'<path class="{kind}" d="M{there}L{back}Z"/>'


def steps(frame: Frame, edges: Sequence[float], values: Sequence[float | None], kind: str) -> str:
    """A step line with holes where there is no value."""
    path, start = "", 0
    while start < len(values):
        run = list(itertools.takewhile(lambda value: value is not None, values[start:]))
        if run:
            path += "M" + _stairs(frame, edges[start : start + len(run) + 1], run)
        start += len(run) + 1
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def _stairs(frame: Frame, edges: Sequence[float], values: Sequence[float | None]) -> str:
    """From edge to edge; equal neighbours are one step."""
    heights = [frame.y(value) for value in values if value is not None]
    path = f"{frame.x(edges[0])},{heights[0]}"
    for n, height in enumerate(heights):
        if n and height != heights[n - 1]:
            path += f"H{frame.x(edges[n])}V{height}"
    return f"{path}H{frame.x(edges[-1])}"


def marks(times: Sequence[float], frames: Sequence[Frame]) -> list[str]:
    """Thin lines through all frames, with numbered badges on top of the first, side by side where
    they would lie on each other."""
    parts, free, y = [], 0.0, frames[0].top - _BADGE - 2
    for number, seconds in enumerate(times, 1):
        x = frames[0].x(seconds)
        parts += [
            f'<line class="event" x1="{x}" y1="{f.top}" x2="{x}" y2="{f.top + f.height}"/>'
            for f in frames
        ]
        free = max(x, free)
        parts += badge(free, y, number)
        free += 2 * _BADGE + 1
    return parts


def badge(x: float, y: float, number: int) -> list[str]:
    circle = f'<circle class="badge" cx="{x}" cy="{y}" r="{_BADGE}"/>'
    return [circle, text(x, y + 4, str(number), "badgetext")]


def render_png(svg: str, font_folders: tuple[str, ...] = _FONT_FOLDERS) -> bytes | Gap:
    """By resvg-py, if it is installed: one wheel of 3 MB without dependencies. It leaves out text
    where there is no font, so then there is no PNG rather than one without words."""
    try:
        import resvg_py
    except ImportError:
        return NO_RENDERER
    if not any(_has_font(os.path.expanduser(folder)) for folder in font_folders):
        return NO_FONT
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM))


def _has_font(folder: str) -> bool:
    return any(name.endswith(_FONTS) for _, _, files in os.walk(folder) for name in files)
