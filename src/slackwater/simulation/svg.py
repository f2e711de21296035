"""Charts as SVG text: the page with its style sheet, frames, grids, areas, step lines, legends.

All pictures share one style sheet. A page stands on its own: colours are written out, light ones
first and dark ones for readers who prefer dark, because simple renderers know no CSS variables.
"""

import itertools
import os
from collections.abc import Iterable, Sequence
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
#: Every page is this wide, and starts its first chart this far from the left.
WIDTH, LEFT = 1200, 64
_STYLE = """
text { font-family: "DejaVu Sans", "Liberation Sans", "Noto Sans", Arial, sans-serif;
  fill: #1f2933; font-size: 13px; }
.title { font-size: 22px; font-weight: bold; } .head { font-weight: bold; font-size: 14px; }
.sub { font-weight: bold; font-size: 12.5px; } .big { font-size: 25px; font-weight: bold; }
.faint { fill: #5f6b7a; font-size: 12px; } .middle { text-anchor: middle; }
.end { text-anchor: end; }
.good { fill: #1a7f4b; } .fair { fill: #b26a00; } .bad { fill: #b3261e; }
.ground { fill: #ffffff; } .panel { fill: #f4f6f9; } .rule { stroke: #dde2e9; stroke-width: 1; }
.system { fill: #8b95a1; } .guaranteed { fill: #1f4e8c; } .burstable { fill: #5b9bd5; }
.besteffort { fill: #f2b04a; } .lost { fill: #b3261e; } .demoted { fill: #7a2f8f; }
.service { fill: #2f6db5; } .hog { fill: #f2b04a; } .other { fill: #9aa4b0; }
.idle { fill: #f4f6f9; stroke: #c3cad3; }
.mean { fill: #8db8e6; } .over { fill: #e58a84; } .fewer { fill: #bfe3cd; }
.quota { fill: none; stroke: #b3261e; stroke-width: 2; }
.allowed { fill: none; stroke: #1a7f4b; stroke-width: 2; stroke-dasharray: 8 5; }
.p50 { fill: none; stroke: #2f6db5; stroke-width: 2; stroke-linejoin: round; }
.p90 { fill: none; stroke: #7a2f8f; stroke-width: 2.5; stroke-linejoin: round; }
.hottest { fill: none; stroke: #1f4e8c; stroke-width: 1.8; stroke-linejoin: round; }
.threshold { fill: none; stroke: #b3261e; stroke-width: 1.8; stroke-dasharray: 8 5; }
.before { fill: none; stroke: #b26a00; stroke-width: 2; }
.after { fill: none; stroke: #1a7f4b; stroke-width: 2; }
.part { stroke: #5f6b7a; stroke-width: 1; stroke-dasharray: 3 4; }
.tick { stroke: #1a7f4b; stroke-width: 1; stroke-dasharray: 3 4; } .arrow { fill: #1a7f4b; }
.event { stroke: #1f2933; stroke-width: 1; stroke-dasharray: 2 3; opacity: .55; }
.badge { fill: #1f2933; } .badgetext { fill: #ffffff; font-size: 11px; font-weight: bold;
  text-anchor: middle; }
@media (prefers-color-scheme: dark) {
  text { fill: #e8edf2; } .faint { fill: #9aa7b5; }
  .good { fill: #4fd08a; } .fair { fill: #e0a040; } .bad { fill: #ff7b72; }
  .ground { fill: #11161d; } .panel { fill: #171e27; } .rule { stroke: #2a333e; }
  .system { fill: #6f7985; } .guaranteed { fill: #3f79c4; } .burstable { fill: #7db7ea; }
  .besteffort { fill: #e0a040; } .lost { fill: #ff7b72; } .demoted { fill: #c98ade; }
  .service { fill: #4f8fd6; } .hog { fill: #e0a040; } .other { fill: #6f7985; }
  .idle { fill: #171e27; stroke: #3a4552; }
  .mean { fill: #2d4f75; } .over { fill: #8a3a35; } .fewer { fill: #1f4a34; }
  .quota { stroke: #ff7b72; } .allowed { stroke: #4fd08a; }
  .p50 { stroke: #7db7ea; } .p90 { stroke: #c98ade; }
  .hottest { stroke: #7db7ea; } .threshold { stroke: #ff7b72; }
  .before { stroke: #e0a040; } .after { stroke: #4fd08a; }
  .part { stroke: #9aa7b5; } .tick { stroke: #4fd08a; } .arrow { fill: #4fd08a; }
  .event { stroke: #e8edf2; } .badge { fill: #e8edf2; } .badgetext { fill: #11161d; }
}
"""
#: Twice the SVG's size: sharp on the screens of today.
_ZOOM = 2
_FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")
_FONTS = (".ttf", ".otf", ".ttc")
NO_RENDERER = Gap(
    "the package resvg-py is not installed (pip install '.[demo]' in Slackwater's source)"
)
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


def page(label: str, height: int, parts: Iterable[str]) -> str:
    """The whole document. `label` is what a screen reader says."""
    spoken = escape(label, {'"': "&quot;"})
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{spoken}">'
    )
    ground = f'<rect class="ground" width="{WIDTH}" height="{height}" rx="10"/>'
    return "\n".join([opening, f"<style>{_STYLE}</style>", ground, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{styled}>{escape(words)}</text>'


def line(x: float, y: float, until: float, kind: str) -> str:
    """A horizontal one."""
    return f'<line class="{kind}" x1="{x}" y1="{y}" x2="{until}" y2="{y}"/>'


def vertical_line(x: float, frame: Frame, kind: str) -> str:
    """From the frame's top to its bottom."""
    bottom = frame.top + frame.height
    return f'<line class="{kind}" x1="{x}" y1="{frame.top}" x2="{x}" y2="{bottom}"/>'


def line_key(x: float, y: float, kind: str, name: str, words: str = "faint") -> list[str]:
    """An entry of a legend, for a line; `words` is the class of its text."""
    return [line(x, y - 4, x + 18, kind), text(x + 26, y, name, words)]


def area_key(x: float, y: float, kind: str, name: str, words: str = "faint") -> list[str]:
    """An entry of a legend, for an area."""
    box = f'<rect class="{kind}" x="{x}" y="{y - 11}" width="18" height="13" rx="2"/>'
    return [box, text(x + 26, y, name, words)]


def cpu_ticks(frame: Frame, about: int = 5) -> list[float]:
    """Round numbers of CPUs, roughly `about` of them."""
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
        parts += [vertical_line(x, frame, "event") for frame in frames]
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
