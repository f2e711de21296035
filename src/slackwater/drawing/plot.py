"""A chart's pieces: frames with grids and axes, areas and step lines, marks through them."""

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from slackwater.drawing.page import box, line, text

_MINUTE, _HOUR = 60, 3600
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12, 24)),
)
_MOST_TIMES = 12
#: Steps of an axis that people read easily: of parts of a CPU, and of whole ones, which come in
#: fours.
_SMALL_STEPS = tuple(unit * 10.0**power for power in (-3, -2, -1) for unit in (1, 2, 2.5, 5))
_WHOLE_STEPS = tuple(unit * 10.0**power for power in range(5) for unit in (1, 2, 4, 5))
_BADGE = 8


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

    def right(self) -> int:
        return self.left + self.width

    def bottom(self) -> int:
        return self.top + self.height


def cpu_ticks(frame: Frame, about: int = 5) -> list[float]:
    """Round numbers of CPUs, roughly `about` of them."""
    sizes = (*_SMALL_STEPS, *_WHOLE_STEPS)
    size = next((each for each in sizes if frame.most / each <= about + 1), sizes[-1])
    return [size * n for n in range(int(frame.most / size + 1e-9) + 1)]


def grid(frame: Frame, ticks: Iterable[float]) -> list[str]:
    """A ground with rules, each with its number."""
    return labelled_grid(frame, [(tick, f"{tick:g}") for tick in ticks])


def labelled_grid(frame: Frame, ticks: Iterable[tuple[float, str]], unit: str = "") -> list[str]:
    """A ground with rules, each with its label; `unit` stands above them."""
    parts = bare_grid(frame, [])
    if unit:
        parts.append(text(frame.left - 8, frame.top - 9, unit, "faint end"))
    for value, label in ticks:
        y = frame.y(value)
        parts.append(line(frame.left, y, frame.right(), "rule"))
        parts.append(text(frame.left - 8, y + 4, label, "faint end"))
    return parts


def bare_grid(frame: Frame, ticks: Iterable[float]) -> list[str]:
    """Without labels: beside a frame with the same ones."""
    ground = box(frame.left, frame.top, frame.width, frame.height, "panel")
    return [ground, *(line(frame.left, frame.y(each), frame.right(), "rule") for each in ticks)]


def time_axis(frame: Frame) -> list[str]:
    step = next((s for s in _TIME_STEPS if frame.seconds / s <= _MOST_TIMES), _TIME_STEPS[-1])
    y = frame.bottom()
    parts = []
    for n in range(int(frame.seconds // step) + 1):
        x = frame.x(n * step)
        parts.append(f'<line class="rule" x1="{x}" y1="{y}" x2="{x}" y2="{y + 5}"/>')
        parts.append(text(x, y + 20, spelled_time(n * step, step), "faint middle"))
    unit = "h:mm" if step >= _MINUTE else "m:ss"
    return [*parts, text(frame.right() + 32, y + 20, unit, "faint")]


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


def curve(frame: Frame, points: Iterable[tuple[float, float]], kind: str) -> str:
    """From point to point, each a time and a height."""
    drawn = " ".join(f"{frame.x(at)},{frame.y(height)}" for at, height in points)
    return f'<polyline class="{kind}" points="{drawn}"/>' if drawn else ""


def band(frame: Frame, start: float, end: float, height: int, kind: str) -> str:
    """Along the bottom, from one time to another; never past the frame."""
    left, right = (frame.x(min(each, frame.seconds)) for each in (start, end))
    return box(left, frame.bottom() - height, round(right - left, 1), height, kind)


def vertical_line(x: float, frame: Frame, kind: str) -> str:
    """From the frame's top to its bottom."""
    return f'<line class="{kind}" x1="{x}" y1="{frame.top}" x2="{x}" y2="{frame.bottom()}"/>'


def arrow(x: float, y: float) -> str:
    """Its tip, pointing down."""
    return f'<path class="arrow" d="M{x},{y}l-5,-9h10Z"/>'


def marks(times: Sequence[float], frames: Sequence[Frame]) -> list[str]:
    """Thin lines through all frames, with numbered badges on top of the first, side by side where
    they would lie on each other."""
    parts, free, y = [], 0.0, frames[0].top - _BADGE - 2
    for number, seconds in enumerate(times, 1):
        x = frames[0].x(seconds)
        parts += [vertical_line(x, frame, "event") for frame in frames]
        free = max(x, free)
        parts += badge(free, y, number)
        free += 2 * _BADGE + 1
    return parts


def badge(x: float, y: float, number: int) -> list[str]:
    circle = f'<circle class="badge" cx="{x}" cy="{y}" r="{_BADGE}"/>'
    return [circle, text(x, y + 4, str(number), "badgetext")]
