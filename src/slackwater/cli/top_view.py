"""What `slackwater top` shows: one screen of a node, as wide and as high as the terminal."""

import datetime as dt
from collections.abc import Iterator

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from slackwater.cli.top_table import bar, milli, rows_table, with_containers
from slackwater.record.ages import clock_time, lasted
from slackwater.record.overview import EntryRow, Overview

_STATES = {"acting": "green", "holding": "yellow", "starting": "yellow", "off": "dim"}
#: Journal entries at the bottom, and from which height on they are there.
_ENTRIES, _HIGH_ENOUGH = 4, 20
_NARROW = 80


class Lost(msgspec.Struct, frozen=True):
    """The agent does not answer: why, since when, and when it last did, as RFC 3339."""

    why: str
    since: str
    last_seen: str | None = None


class Screen(msgspec.Struct, frozen=True):
    """One picture. Without an overview there has been no answer yet."""

    overview: Overview | None
    now: dt.datetime
    lost: Lost | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        height = options.height or console.size.height
        lines: list[RenderableType] = []
        if self.lost is not None:
            lines.append(lost_line(self.lost, self.now))
        if self.overview is not None:
            lines += _screen(self.overview, width, height - len(lines))
        yield from lines


def lost_line(lost: Lost, now: dt.datetime) -> Text:
    seen = f"; last seen {clock_time(lost.last_seen)}" if lost.last_seen else ""
    text = Text(f"no answer for {lasted(lost.since, now)}{seen}", "bold red")
    return _cut(text.append(f"  {lost.why}", "not bold"))


def _screen(overview: Overview, width: int, height: int) -> list[RenderableType]:
    """Header, tiers, then as many pods as fit above the last entries of the journal."""
    header = list(header_lines(overview, width))
    tiers = rows_table("tier", overview.tiers, overview.node.allocatable, width)
    entries = overview.entries[-_ENTRIES:] if height >= _HIGH_ENOUGH else ()
    # Blank lines, the headers of both tables, and the journal with a blank line above.
    taken = len(header) + 1 + (1 + len(overview.tiers)) + 2 + (len(entries) + 1 if entries else 0)
    room = height - taken
    pods = overview.pods if len(overview.pods) <= room else overview.pods[: max(room - 1, 0)]
    hidden = len(overview.pods) - len(pods)
    lines: list[RenderableType] = [*header, Text(""), tiers, Text("")]
    if pods:
        lines.append(rows_table("pod", pods, overview.node.allocatable, width))
    if hidden:
        lines.append(Text(f"and {hidden} more" if pods else f"{hidden} pods", "dim"))
    if entries:
        drawn = (len(pods) + 1 if pods else 0) + (1 if hidden else 0)
        lines += [Text("")] * (max(room + 1 - drawn, 0) + 1)
        lines += [_entry(entry) for entry in entries]
    return lines


def header_lines(overview: Overview, width: int) -> Iterator[Text]:
    node = overview.node
    usage = f"{milli(node.usage)} of {milli(node.allocatable)}"
    if node.usage is not None and node.allocatable:
        usage += f"  {node.usage * 100 // node.allocatable}%"
    used = Text.assemble(("node ", "bold"), (usage, "bold"))
    picture = min(width - used.cell_len - 2, 40)
    if picture >= 10:
        used.append("  ").append_text(bar(node.usage, node.allocatable, picture))
    yield used
    style = _STATES.get(overview.state, "bold red")
    state = Text.assemble((overview.state, style))
    if overview.at:
        state.append(f"  tick {overview.tick} at {clock_time(overview.at)}", "dim")
    if node.request is not None and width >= _NARROW:
        state.append(f"  promised {milli(node.request)}", "dim")
    if overview.sources and width >= _NARROW:
        oldest = max(overview.sources, key=lambda each: each.age)
        state.append(f"  {oldest.name} heard {oldest.age:.0f} s ago", "dim")
    yield state
    if overview.because:
        yield _cut(Text(overview.because, "yellow"))
    for problem in overview.problems:
        if problem == overview.because:
            continue
        yield _cut(Text(problem, "red"))


def _entry(entry: EntryRow) -> Text:
    """One line of the journal: 12:00:01 quota of kubepods/besteffort 800m → 600m"""
    line = Text.assemble((clock_time(entry.at), "dim"), " ", entry.what)
    if entry.after:
        line.append(
            f" {entry.before} → {entry.after}" if entry.before else f" {entry.after}", "bold"
        )
    if entry.result and entry.result != "applied":
        line.append(f" {entry.result}", "yellow")
    if entry.because:
        line.append(f"  {entry.because}", "dim")
    return _cut(line)


def _cut(text: Text) -> Text:
    """One line, cut at the screen's edge."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def plain_blocks(overview: Overview, width: int, wide: bool) -> Iterator[RenderableType]:
    """The same once, for files and pipes: every pod, and with `wide` every container."""
    yield from header_lines(overview, width)
    yield Text("")
    yield rows_table("tier", overview.tiers, overview.node.allocatable, width)
    yield Text("")
    pods = with_containers(overview.pods) if wide else overview.pods
    if pods:
        yield rows_table("pod", pods, overview.node.allocatable, width)
    else:
        yield Text("no pods", "dim")
