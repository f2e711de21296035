"""Blocks of text for people, as wide as the terminal; for files and pipes wide and unbroken."""

import os
from collections.abc import Iterable, Sequence

import click
import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

#: Text in fewer columns is one word wide; the terminal may wrap instead.
NARROWEST = 60
#: For files and pipes.
_UNBROKEN = 110
_GAP = "  "


def text_width(narrowest: int = NARROWEST) -> int:
    """In columns: the terminal's, if it is not too narrow."""
    terminal = Console()
    return max(terminal.width, narrowest if terminal.is_terminal else _UNBROKEN)


def picture_width() -> int:
    """For pictures, which fit into any width: what COLUMNS says counts in files and pipes too."""
    said = os.environ.get("COLUMNS", "")
    return max(int(said), NARROWEST) if said.isdecimal() else text_width()


def print_blocks(
    blocks: Iterable[RenderableType],
    colour: bool,
    narrowest: int = NARROWEST,
    width: int | None = None,
) -> None:
    """On stdout, without the blanks with which rich fills every line of a table."""
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
