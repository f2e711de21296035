"""A replay's differences for people: the sum first, then one row for each."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.agent.replay import Difference, Replayed
from slackwater.cli.printing import print_blocks

#: A screen; the rest is counted.
_ROWS = 20
_OPEN_LOOP = (
    "The snapshots show what was written then: from the first difference on, today's policies "
    "might have seen another node."
)


def print_replayed(report: Replayed, colour: bool, wide: bool) -> None:
    """`wide` shows every difference."""
    shown = report.differences if wide else report.differences[:_ROWS]
    print_blocks(_blocks(report, shown), colour)


def _blocks(report: Replayed, shown: tuple[Difference, ...]) -> Iterable[RenderableType]:
    yield Text(_summary(report), style="bold" if report.different else "green")
    for problem in report.problems:
        yield Text(f"Note: {problem}", style="yellow")
    if not shown:
        return
    yield Text()
    yield _table(shown)
    left = len(report.differences) - len(shown)
    if left:
        yield Text(f"... and {left} more; -o wide shows all of them")
    yield Text(f"\n{_OPEN_LOOP}", style="dim")


def _summary(report: Replayed) -> str:
    ticks = "1 tick" if report.ticks == 1 else f"{report.ticks} ticks"
    head = f"{ticks}, recorded by slackwater {report.recorded_by}"
    if not report.different:
        return f"{head}: all the same today"
    return f"{head}: {report.same} the same today, {report.different} different"


def _table(shown: tuple[Difference, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("time", no_wrap=True, justify="right")
    for header in ("what", "then", "now", "because"):
        table.add_column(header, overflow="fold")
    for each in shown:
        texts = (each.what, each.then, each.now, each.because)
        table.add_row(_offset(each.at), *(Text(text) for text in texts))
    return table


def _offset(at: int) -> str:
    """Seconds since the first tick, in tenths."""
    tenths = at // 100_000
    return f"+{tenths // 10}.{tenths % 10}s"
