"""Rows of cells as lines whose columns agree, between which other lines can stand.

A table of rich's cannot have a sentence below a row that is as wide as the screen.
"""

from collections.abc import Sequence

import msgspec
from rich.text import Text

_GAP = "  "


class Column(msgspec.Struct, frozen=True):
    """`right` for numbers."""

    name: str
    right: bool = False


def lined_up(
    columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int, narrowest: int = 12
) -> list[Text]:
    """The header and a line for each row. The first column gives way where the screen is narrow,
    down to `narrowest`; what does not fit then is the terminal's to wrap."""
    header = [Text(column.name, "dim") for column in columns]
    widths = [max(cells) for cells in zip(*(_widths(row) for row in (header, *rows)), strict=True)]
    rest = sum(widths[1:]) + len(_GAP) * (len(columns) - 1)
    widths[0] = min(widths[0], max(width - rest, narrowest))
    return [_line(row, columns, widths) for row in (header, *rows)]


def _widths(row: Sequence[Text]) -> list[int]:
    return [cell.cell_len for cell in row]


def _line(row: Sequence[Text], columns: Sequence[Column], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True, overflow="ignore")
    for place, (cell, column, width) in enumerate(zip(row, columns, widths, strict=True)):
        shown = cell.copy()
        shown.truncate(width, overflow="ellipsis")
        pad = " " * (width - shown.cell_len)
        line.append(_GAP if place else "")
        line.append(pad if column.right else "").append_text(shown)
        line.append("" if column.right else pad)
    return line
