"""What a person sees while the demo runs: one live screen, or plain lines without a terminal.

Owns the drawing of a glimpse. Rich is imported by this module alone, which is imported where a
terminal is there.
"""

from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slackwater.demo.demo_report import milliseconds
from slackwater.demo.measurements import CpuUse, Glimpse, Line, percentiles
from slackwater.demo.plan import DEMO, Phase

_BAR = 44
_SAID = 4
_COLOURS = {"batch": "yellow", "service": "blue", "other": "bright_black", "idle": "dim"}


class LiveView:
    """Guards the terminal while the demo runs."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._done: list[Glimpse] = []
        self._last: Glimpse | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def see(self, glimpse: Glimpse) -> None:
        if self._last is not None and self._last.phase != glimpse.phase:
            self._done.append(self._last)
        self._last = glimpse
        self._live.update(screen(self._done, glimpse), refresh=True)


def screen(done: Sequence[Glimpse], now: Glimpse) -> RenderableType:
    """The phases so far with their latencies, then the present one's CPUs and the agent's words."""
    parts: list[RenderableType] = [_phases(done, now), Text("")]
    if now.sample is not None:
        parts += _bars(now.sample.cpu)
        parts.append(_quota(now.sample.quota))
    else:
        parts.append(Text("starting …", "dim"))
    said = [line for line in now.lines if line.at >= 0]  # the rest is from before the phase
    if said:
        parts += [Text(""), *[_said(line) for line in said[-_SAID:]]]
    return Group(*parts)


def _phases(done: Sequence[Glimpse], now: Glimpse) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("PHASE")
    for name in ("P50", "P90", "P99"):
        table.add_column(name, justify="right", min_width=8)
    table.add_column("TIME")
    seen = {glimpse.phase.name: glimpse for glimpse in (*done, now)}
    for phase in DEMO:
        table.add_row(*_row(phase, seen.get(phase.name), phase == now.phase))
    return table


def _row(phase: Phase, glimpse: Glimpse | None, current: bool) -> tuple[RenderableType, ...]:
    if glimpse is None:
        return Text(" "), Text(phase.title, "dim"), "", "", "", ""
    found = percentiles(glimpse.answers)
    numbers = ("", "", "")
    if found is not None:
        numbers = (milliseconds(found.p50), milliseconds(found.p90), milliseconds(found.p99))
    style = "bold" if current else ""
    mark = Text("▶" if current else "✓", "cyan" if current else "green")
    when = f"{glimpse.at:.0f} of {glimpse.seconds:g} {glimpse.unit}" if current else ""
    return mark, Text(phase.title, style), *numbers, when


def _bars(use: CpuUse) -> list[Text]:
    """One line for each, as long as its part of the machine."""
    values = {"batch": use.hog, "service": use.service, "other": use.other, "idle": use.idle}
    cpus = max(sum(values.values()), 0.01)
    lines = []
    for name, value in values.items():
        full = min(round(_BAR * value / cpus), _BAR)
        bar = Text().append(f"{name:8}", "bold").append("█" * full, _COLOURS[name])
        lines.append(bar.append(" " * (_BAR - full)).append(f" {value:.2f} CPUs"))
    return lines


def _quota(quota: float | None) -> Text:
    said = "none" if quota is None else f"{quota:.2f} CPUs"
    return Text().append("quota   ", "bold").append(said, "red" if quota is not None else "dim")


def _said(line: Line) -> Text:
    text = Text(f"{line.at:5.1f} s ", "dim", no_wrap=True, overflow="ellipsis")
    if line.after:
        text.append(f"quota {line.before} → {line.after} ", "bold")
    return text.append(line.because.partition(": ")[2] or line.because)
