"""A page and what stands on it anywhere: texts, straight lines, boxes. It needs no other file."""

from collections.abc import Iterable
from xml.sax.saxutils import escape

from slackwater.drawing.palette import style_sheet

#: Pages with charts are this wide, and start their first chart this far from the left.
WIDTH, LEFT = 1200, 64


def page(label: str, height: int, parts: Iterable[str], width: int = WIDTH) -> str:
    """The whole document. `label` is what a screen reader says."""
    spoken = escape(label, {'"': "&quot;"})
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{spoken}">'
    )
    ground = f'<rect class="ground" width="{width}" height="{height}" rx="10"/>'
    return "\n".join([opening, f"<style>{style_sheet()}</style>", ground, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{styled}>{escape(words)}</text>'


def line(x: float, y: float, until: float, kind: str) -> str:
    """A horizontal one."""
    return f'<line class="{kind}" x1="{x}" y1="{y}" x2="{until}" y2="{y}"/>'


def box(x: float, y: float, width: float, height: float, kind: str, round_by: int = 0) -> str:
    corners = f' rx="{round_by}"' if round_by else ""
    size = f'width="{width:g}" height="{height:g}"'
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" {size}{corners}/>'
