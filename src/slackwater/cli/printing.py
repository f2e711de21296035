"""Blocks of text for people, as wide as the terminal; for files and pipes wide and unbroken."""

import os
from collections.abc import Iterable

import click
from rich.console import Console, RenderableType

#: Text in fewer columns is one word wide; the terminal may wrap instead.
NARROWEST = 60
#: For files and pipes.
_UNBROKEN = 110


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
