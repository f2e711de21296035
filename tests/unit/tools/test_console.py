"""Colour and redrawing only where somebody watches; times that read well."""

import io
import re

import pytest

from tools.console import ProgressLine, elapsed_text, wants_colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_wants_colour(stream: io.StringIO, environ: dict[str, str], expected: bool) -> None:
    assert wants_colour(stream, environ) is expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, "0.0 s"), (59.94, "59.9 s"), (60.0, "1 min 00 s"), (754.6, "12 min 35 s")],
)
def test_elapsed_text(seconds: float, expected: str) -> None:
    assert elapsed_text(seconds) == expected


def test_without_a_terminal_each_piece_of_news_is_one_line() -> None:
    stream = io.StringIO()
    with ProgressLine("types: mypy", stream) as line:
        line.tell("half")
        line.tell("half")
        line.tell("done")
    assert stream.getvalue() == "types: mypy\ntypes: mypy: half\ntypes: mypy: done\n"


def test_on_a_terminal_the_line_is_redrawn_with_the_time_and_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ProgressLine("types: mypy", stream):
        pass
    assert re.match(r"\r\x1b\[Ktypes: mypy \(\d+\.\d s\)", stream.getvalue())
    assert stream.getvalue().endswith("\r\033[K")
    assert "\n" not in stream.getvalue()
