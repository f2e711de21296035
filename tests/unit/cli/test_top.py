"""`slackwater top`: every width, a lost agent, the live view in a real terminal."""

import datetime as dt
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable

import msgspec
import pytest
from rich.console import Console

from slackwater.cli.agent_client import NoAnswer
from slackwater.cli.top import next_screen, sort_screen
from slackwater.cli.top_view import (
    ConnectionLoss,
    Screen,
    format_milli,
    format_percent,
    header_lines,
    plain_blocks,
    sort_pods,
    usage_bar,
)
from slackwater.record.overview import EntryRow, NodeOverview, Overview, SourceRow, UsageRow
from slackwater.record.rules import RuleRow
from slackwater.record.timestamps import time_of_day
from tests.unit.cli.served import Served, always, served_agent, slackwater

pytestmark = pytest.mark.long

NOW = dt.datetime(2026, 1, 1, 12, 0, 4, tzinfo=dt.UTC)
SEEN = "2026-01-01T12:00:01.000Z"


def pod(number: int, usage: int | None = 10, throttled: float | None = 0.0) -> UsageRow:
    inner = UsageRow("main", "container", "burstable", "default", usage=usage)
    return UsageRow(
        f"web-{number}", "pod", "burstable", "default", usage, 500, "unlimited", throttled, 1.5,
        containers=(inner,),
    )  # fmt: skip


SHOWN = Overview(
    tick=7,
    at=SEEN,
    state="acting",
    node=NodeOverview(allocatable=4000, usage=3000, request=1500),
    tiers=(
        UsageRow("guaranteed", "tier", "guaranteed", usage=0, request=0),
        UsageRow("burstable", "tier", "burstable", usage=2000, request=1500, quota="unlimited"),
        UsageRow(
            "besteffort", "tier", "besteffort", usage=600, quota=600, throttled=31.0, weight=2
        ),
    ),
    pods=tuple(pod(number, 100 - number) for number in range(30)),
    entries=tuple(
        EntryRow(SEEN, "quota of kubepods/besteffort", f"{n}m", f"{n + 1}m", "because", "applied")
        for n in range(9)
    ),
)


def screen(shown: Screen, width: int, height: int) -> list[str]:
    console = Console(
        width=width, height=height, file=io.StringIO(), record=True, highlight=False,
        legacy_windows=False,
    )  # fmt: skip
    console.print(shown)
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [60, 70, 80, 100, 160])
@pytest.mark.parametrize("height", [12, 24, 60])
def test_every_screen_is_full_and_not_more(width: int, height: int) -> None:
    lines = screen(Screen(SHOWN, NOW), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    joined = "\n".join(lines)
    for word in ("3000m of 4000m", "75%", "acting", "besteffort", "600m", "31%", "default/web-0"):
        assert word in joined


def test_a_screen_too_low_for_pods_counts_them() -> None:
    lines = screen(Screen(SHOWN, NOW), 80, 9)
    assert (lines[-1], len(lines)) == ("30 pods", 9)
    assert "besteffort" in lines[-3]


def test_pods_that_do_not_fit_are_counted_and_the_journal_is_at_the_bottom() -> None:
    lines = screen(Screen(SHOWN, NOW), 100, 24)
    [more] = [line for line in lines if line.startswith("and ")]
    shown = sum("default/web-" in line for line in lines)
    assert more == f"and {30 - shown} more"
    assert lines[-1].startswith(
        f"{time_of_day(SEEN)} quota of kubepods/besteffort 8m → 9m  because"
    )
    assert len(lines) == 24


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (60, ["usage", "quota", "throttled"]),
        (70, ["usage", "request", "quota", "throttled"]),
        (120, ["usage", "request", "quota", "throttled", "weight"]),
    ],
)
def test_columns_by_width_without_those_that_say_nothing(width: int, columns: list[str]) -> None:
    [header] = [line for line in screen(Screen(SHOWN, NOW), width, 24) if line.startswith("tier")]
    assert header.split()[1:] == columns


def test_tiers_of_pods_where_there_is_room() -> None:
    [header] = [line for line in screen(Screen(SHOWN, NOW), 120, 24) if line.startswith("pod ")]
    assert header.split()[-1] == "tier"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_lost_agent_is_shown_above_what_was_seen(width: int) -> None:
    lost = ConnectionLoss("no agent answers at 127.0.0.1:1", SEEN, SEEN)
    lines = screen(Screen(SHOWN, NOW, lost), width, 24)
    assert lines[0].startswith(f"no answer for 3 s; last seen {time_of_day(SEEN)}  no agent")
    assert "besteffort" in "\n".join(lines)
    assert screen(Screen(None, NOW, ConnectionLoss("x", SEEN)), width, 24) == [
        "no answer for 3 s  x"
    ]


def test_why_it_does_not_act_is_in_the_header() -> None:
    paused = msgspec.structs.replace(
        SHOWN, state="paused", because="released manually", problems=("threshold is 400",)
    )
    lines = screen(Screen(paused, NOW), 80, 24)
    assert [line.split("  ")[0] for line in lines[1:4]] == [
        "paused", "released manually", "threshold is 400",
    ]  # fmt: skip


def rule(name: str, state: str = "triggered", did: str = "throttles 2 pods") -> RuleRow:
    known = ("NodeQOS/w", name, "cpu_total_usage", "throttle", state, 6500, 6000, 2, 0, 2, 2)
    return RuleRow(*known, did=did)


def test_rules_that_are_not_quiet_are_in_the_header() -> None:
    shown = msgspec.structs.replace(SHOWN, rules=(rule("cpu"), rule("memory", "quiet")))
    lines = [line.plain for line in header_lines(shown, 100)]
    assert lines[1].endswith("  rules 1 of 2 active")
    assert lines[2:] == ["NodeQOS/w/cpu triggered  cpu_total_usage 6500 > 6000  throttles 2 pods"]
    many = msgspec.structs.replace(SHOWN, rules=tuple(rule(f"r{each}") for each in range(9)))
    lines = [line.plain for line in header_lines(many, 100)]
    assert len(lines) == 2 + 3 + 1
    assert lines[-1] == "and 6 more rules; see slackwater explain"
    quiet = msgspec.structs.replace(SHOWN, rules=(rule("cpu", "quiet"),))
    assert len(list(header_lines(quiet, 100))) == 2


def test_an_agent_lost_and_found() -> None:
    first = Screen(SHOWN, NOW)

    def fails() -> Overview:
        raise NoAnswer("nobody there")

    later = NOW + dt.timedelta(seconds=3)
    lost = next_screen(first, fails, later)
    assert lost.lost is not None
    assert (lost.lost.why, lost.overview) == ("nobody there", SHOWN)
    longer = next_screen(lost, fails, later + dt.timedelta(seconds=5))
    assert longer.lost is not None
    assert (longer.lost.since, longer.lost.last_seen) == (lost.lost.since, lost.lost.last_seen)
    assert next_screen(longer, lambda: SHOWN, later).lost is None
    assert sort_screen(Screen(None, NOW), "name") == Screen(None, NOW)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("usage", ["web-2", "web-1", "web-3"]),
        ("throttled", ["web-1", "web-2", "web-3"]),
        ("name", ["web-1", "web-2", "web-3"]),
    ],
)
def test_orders(by: str, names: list[str]) -> None:
    pods = (pod(3, None, None), pod(1, 5, 50.0), pod(2, 9, 1.0))
    ordered = sort_pods(Overview(pods=pods), by)
    assert [row.name for row in ordered.pods] == names


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0m"), (9999, "9999m"), (12_500, "12.5"), ("unlimited", "unlimited")],
)
def test_amounts(value: int | str | None, text: str) -> None:
    assert format_milli(value) == text


@pytest.mark.parametrize(
    ("value", "text", "style"),
    [
        (None, "-", "dim"), (0.0, "0%", "dim"), (0.4, "0.4%", "dim"), (5.5, "5.5%", "yellow"),
        (25.0, "25%", "red"), (196.0, "196%", "red"),
    ],
)  # fmt: skip
def test_shares_of_time(value: float | None, text: str, style: str) -> None:
    shown = format_percent(value)
    assert (shown.plain, shown.style) == (text, style)


@pytest.mark.parametrize(
    ("part", "whole", "picture"),
    [(0, 10, "░░░░"), (5, 10, "██░░"), (10, 10, "████"), (99, 10, "████"), (None, 10, ""),
     (5, None, ""), (5, 0, "")],
)  # fmt: skip
def test_bars(part: int | None, whole: int | None, picture: str) -> None:
    assert usage_bar(part, whole, 4).plain == picture


@pytest.mark.parametrize("width", [60, 120])
def test_what_runs_outside_pods_has_a_row_so_that_the_tiers_add_up(width: int) -> None:
    node = msgspec.structs.replace(SHOWN.node, outside_pods=400)
    lines = screen(Screen(msgspec.structs.replace(SHOWN, node=node), NOW), width, 24)
    [outside] = [line for line in lines if line.startswith("outside pods")]
    assert "400m" in outside.split()
    assert lines.index(outside) == next(
        number for number, line in enumerate(lines) if line.startswith("besteffort")
    ) + 1  # fmt: skip
    assert not any(line.startswith("outside") for line in screen(Screen(SHOWN, NOW), width, 24))


def test_plain_shows_every_pod_and_wide_every_container() -> None:
    def plain(wide: bool) -> str:
        console = Console(width=110, file=io.StringIO(), record=True)
        for block in plain_blocks(SHOWN, 110, wide):
            console.print(block)
        return console.export_text()

    assert plain(wide=False).count("default/web-") == 30
    assert "  main" not in plain(wide=False)
    assert plain(wide=True).count("  main") == 30


def test_without_a_terminal_it_is_one_table() -> None:
    with served_agent(always(SHOWN)) as server:
        done = slackwater("top", "--agent", server.address, "--sort", "name")
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
        assert done.stdout.index("web-0 ") < done.stdout.index("web-10 ")
        assert len(server.asked) == 1
        found = json.loads(slackwater("top", "-o", "json", "--agent", server.address).stdout)
        assert found == json.loads(msgspec.json.encode(SHOWN))


def test_once_waits_until_pods_were_read_twice() -> None:
    ticks = [Overview(tick=3, state="acting"), Overview(tick=4, state="acting"), SHOWN]

    def reply(_path: str) -> tuple[int, bytes]:
        return 200, msgspec.json.encode(ticks.pop(0) if len(ticks) > 1 else ticks[0])

    with served_agent(reply) as server:
        done = slackwater("top", "--once", "-o", "json", "--agent", server.address)
    assert json.loads(done.stdout)["tick"] == 7
    assert len(server.asked) == 3


def test_a_blind_agent_is_not_waited_for() -> None:
    gone = "the tree is gone"
    shown = Overview(state="blind", because=gone, problems=(gone, "a problem"))
    with served_agent(always(shown)) as server:
        done = slackwater("top", "--once", "--agent", server.address)
    assert (done.returncode, len(server.asked)) == (0, 1)
    assert (done.stdout.count(gone), done.stdout.count("a problem")) == (1, 1)


@pytest.mark.parametrize("interval", ["1", "50ms", "2m", "x"])
def test_an_interval_outside_its_bound(interval: str) -> None:
    done = slackwater("top", "--interval", interval)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--interval is " in done.stderr


class Terminal:
    """`slackwater top` in a pseudo-terminal."""

    def __init__(self, width: int, height: int, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        size = struct.pack("HHHH", height, width, 0, 0)
        import fcntl

        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        self.mode = termios.tcgetattr(theirs)
        self._theirs = theirs
        environ = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slackwater", "top", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=environ | {"TERM": "xterm-256color"},
        )  # fmt: skip
        self.text = ""

    def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if select.select([self._ours], [], [], 0.05)[0]:
                self.text += os.read(self._ours, 65536).decode("utf-8", "replace")

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def end(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        assert termios.tcgetattr(self._theirs) == self.mode
        os.close(self._theirs)
        os.close(self._ours)
        return self.process.returncode


def live(server: Served) -> Terminal:
    shown = Terminal(80, 24, "--agent", server.address, "--interval", "100ms")
    shown.until(lambda: "besteffort" in shown.text)
    return shown


def test_q_ends_the_live_view_and_leaves_the_terminal_as_it_was() -> None:
    with served_agent(always(SHOWN)) as server:
        shown = live(server)
        asked = len(server.asked)
        shown.until(lambda: len(server.asked) > asked + 2)
        shown.press("q")
        assert shown.end() == 0
    assert shown.text.rstrip().endswith("\x1b[?1049l")


def test_ctrl_c_ends_it_as_well() -> None:
    with served_agent(always(SHOWN)) as server:
        shown = live(server)
        shown.process.send_signal(signal.SIGINT)
        assert shown.end() == 0
    assert "Traceback" not in shown.text


def test_the_live_view_outlives_an_agent_that_is_away() -> None:
    with served_agent(always(SHOWN)) as server:
        shown = live(server)
        server.reply = always(b"", 500)
        shown.until(lambda: "no answer for" in shown.text)
        server.reply = always(msgspec.structs.replace(SHOWN, state="holding"))
        shown.until(lambda: "holding" in shown.text)
        shown.press("q")
        assert shown.end() == 0


SOURCES = (SourceRow("pods", 7.0), SourceRow("node", 61.2, "refused"))


@pytest.mark.parametrize(
    ("sources", "width", "said"),
    [
        (SOURCES, 110, "node heard 61 s ago"),
        (SOURCES, 79, ""),
        ((), 110, ""),
    ],
)
def test_the_oldest_source_is_in_the_header(
    sources: tuple[SourceRow, ...], width: int, said: str
) -> None:
    shown = Overview(state="acting", node=NodeOverview(allocatable=4000), sources=sources)
    text = "\n".join(line.plain for line in header_lines(shown, width))
    assert ("heard" in text) is bool(said)
    assert said in text
