"""Text on the terminal: how wide it is, tables, lines with aligned columns, bars.

What goes to a file or a pipe is wide and not wrapped.
"""

import os
from collections.abc import Iterable, Sequence

import click
import msgspec
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

#: Text in fewer columns is one word wide; the terminal may wrap instead.
NARROWEST = 60
#: For files and pipes.
_UNBROKEN = 110
_GAP = "  "
FULL, EMPTY = "█", "░"


class TableColumn(msgspec.Struct, frozen=True):
    """`right` is for numbers; `wrap` lets a cell have several lines."""

    name: str
    right: bool = False
    wrap: bool = False


def text_width(narrowest: int = NARROWEST) -> int:
    """The terminal's width in columns, if it is not too narrow."""
    terminal = Console()
    return max(terminal.width, narrowest if terminal.is_terminal else _UNBROKEN)


def picture_width() -> int:
    """For pictures, which fit into any width: COLUMNS counts for files and pipes too."""
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), NARROWEST) if columns.isdecimal() else text_width()


def print_blocks(
    blocks: Iterable[RenderableType],
    colour: bool,
    narrowest: int = NARROWEST,
    width: int | None = None,
) -> None:
    """On stdout, without the blanks that rich appends to every line of a table."""
    console = Console(
        highlight=False,
        width=text_width(narrowest) if width is None else width,
        color_system="auto" if colour else None,
        force_terminal=None if colour else False,
    )
    with console.capture() as capture:
        for block in blocks:
            console.print(block)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def make_table(columns: Iterable[TableColumn], rows: Iterable[Sequence[str | Text]] = ()) -> Table:
    """A table without lines. Strings are shown as they are, brackets included."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, len(_GAP), 0, 0))
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def aligned_lines(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], width: int, narrowest: int = 12
) -> list[Text]:
    """The header and a line for each row, between which other lines can stand. The first column is
    cut where the screen is narrow, down to `narrowest`; beyond that the terminal wraps."""
    header = [Text(column.name, "dim") for column in columns]
    widths = [max(cells) for cells in zip(*(_widths(row) for row in (header, *rows)), strict=True)]
    rest = sum(widths[1:]) + len(_GAP) * (len(columns) - 1)
    widths[0] = min(widths[0], max(width - rest, narrowest))
    return [_line(row, columns, widths) for row in (header, *rows)]


def _widths(row: Sequence[Text]) -> list[int]:
    return [cell.cell_len for cell in row]


def _line(row: Sequence[Text], columns: Sequence[TableColumn], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True, overflow="ignore")
    for place, (cell, column, width) in enumerate(zip(row, columns, widths, strict=True)):
        shown = cell.copy()
        shown.truncate(width, overflow="ellipsis")
        pad = " " * (width - shown.cell_len)
        line.append(_GAP if place else "")
        line.append(pad if column.right else "").append_text(shown)
        line.append("" if column.right else pad)
    return line


def stacked_bar(
    levels: Sequence[tuple[float, str, str]], whole: float, width: int, rest: str = EMPTY
) -> Text:
    """A bar of `width` cells for `whole`. A level is the amount up to which its character is drawn,
    the character, and its style."""
    bar, drawn = Text(), 0
    for amount, character, style in levels:
        until = max(min(int(amount * width / whole + 0.5), width), drawn)
        bar.append(character * (until - drawn), style)
        drawn = until
    return bar.append(rest * (width - drawn), "dim")


def on_or_off(state: bool | None) -> str:
    """None where the machine does not tell."""
    return {True: "on", False: "off", None: "unknown"}[state]
