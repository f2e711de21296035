"""Keys of a chart: what a line or an area stands for."""

from collections.abc import Iterable

from slackwater.drawing.page import box, line, text
from slackwater.drawing.palette import STROKES

#: Roughly the width of a letter of a legend, and the room beside its words.
_LETTER, _ROOM = 7, 44


def line_key(x: float, y: float, kind: str, name: str, words: str = "faint") -> list[str]:
    """An entry of a legend, for a line; `words` is the class of its text."""
    return [line(x, y - 4, x + 18, kind), text(x + 26, y, name, words)]


def area_key(x: float, y: float, kind: str, name: str, words: str = "faint") -> list[str]:
    """An entry of a legend, for an area."""
    return [box(x, y - 11, 18, 13, kind, 2), text(x + 26, y, name, words)]


def legend_row(x: float, y: float, words: str, named: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence and an entry for each kind and its name, one beside the other."""
    parts = [text(x, y, words, "faint")] if words else []
    x += 10 + round(6.6 * len(words)) if words else 0
    for kind, name in named:
        parts += (line_key if kind in STROKES else area_key)(x, y, kind, name)
        x += _ROOM + round(_LETTER * len(name))
    return parts
