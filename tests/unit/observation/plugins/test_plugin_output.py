"""What a plug-in prints is shown, a few lines a minute, and it is told where more is left out."""

import os

from slackwater.observation.plugins.plugin_output import (
    LINES,
    LONGEST,
    SPAN_SECONDS,
    PluginOutput,
    follow_output,
)


def shown(output: PluginOutput, *pieces: bytes, at: float = 0.0) -> list[str]:
    return [line for piece in pieces for line in output.take(piece, at)]


def test_lines_are_shown_whole_however_they_come() -> None:
    output = PluginOutput("queue")
    assert shown(output, b"one\ntw", b"o", b"\n", b"\x1b[31mred\r\n\xff\nlast") == [
        "plug-in queue: one",
        "plug-in queue: two",
        "plug-in queue: ?[31mred",
        "plug-in queue: \ufffd",
    ]
    assert list(output.end()) == ["plug-in queue: last"]


def test_a_long_line_is_cut() -> None:
    output = PluginOutput("queue")
    assert shown(output, *[b"x" * 1000] * 50, b"\n", b"y\n") == [
        f"plug-in queue: {'x' * LONGEST}...",
        "plug-in queue: y",
    ]


def test_of_a_flood_the_first_lines_are_shown_in_each_minute() -> None:
    output = PluginOutput("queue")
    for minute in range(3):
        told = shown(output, *[b"again\n" * 1000] * 30, at=minute * SPAN_SECONDS)
        assert told[:-1] == ["plug-in queue: again"] * LINES
        assert told[-1] == (
            "plug-in queue: it printed more than 20 lines in 60 s: the others are left out"
        )
        assert shown(output, b"and again\n", at=minute * SPAN_SECONDS + 59) == []
    assert list(output.end()) == []


def test_it_is_followed_to_its_end() -> None:
    source, sink = os.pipe()
    os.write(sink, b"one\ntwo")
    os.close(sink)
    told: list[str] = []
    follow_output("queue", source, told.append, lambda: 0.0)
    assert told == ["plug-in queue: one", "plug-in queue: two"]
