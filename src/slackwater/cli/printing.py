"""Blocks of text for people, as wide as the terminal; for files and pipes wide and unbroken."""

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


def print_blocks(
    blocks: Iterable[RenderableType], colour: bool, narrowest: int = NARROWEST
) -> None:
    """On stdout, without the blanks with which rich fills every line of a table."""
    console = Console(
        highlight=False,
        width=text_width(narrowest),
        color_system="auto" if colour else None,
        force_terminal=None if colour else False,
    )
    with console.capture() as capture:
        for block in blocks:
            console.print(block)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())
