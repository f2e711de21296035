"""The overview as tables: which columns fit, how a value is spelled, how a bar is drawn."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from slackwater.record.overview import Overview, Row

UNKNOWN = "-"
_FULL, _EMPTY = "█", "░"
#: Shares of time from which on a value is worth a look, in percent.
_NOTABLE, _LARGE = 1.0, 25.0
#: Columns of the screen.
_BARS_FROM, _WIDEST_BAR, _TIERS_FROM = 80, 24, 90


class Column(msgspec.Struct, frozen=True):
    """A column of one field, shown where the screen has `from_width` columns."""

    field: str
    cell: Callable[[Row], Text]
    from_width: int = 0

    def says_something(self, rows: Iterable[Row]) -> bool:
        """A field that nothing is known of is no column: pressure on cgroup v1."""
        return any(getattr(row, self.field) is not None for row in rows)


def milli(value: int | str | None) -> str:
    """600m, 12.5 for cores from ten on, unlimited, or - for what is not known."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    return f"{value}m" if value < 10_000 else f"{value / 1000:.1f}"


def percent(value: float | None) -> Text:
    """A share of time, in a colour that grows with it."""
    if value is None:
        return Text(UNKNOWN, "dim")
    style = "red" if value >= _LARGE else "yellow" if value >= _NOTABLE else "dim"
    return Text(f"{value:.0f}%" if value >= 10 or value == 0 else f"{value:.1f}%", style)


def bar(part: int | None, whole: int | None, width: int) -> Text:
    """Nothing where one of the two is not known."""
    if part is None or not whole or width <= 0:
        return Text("")
    filled = min((part * width + whole // 2) // whole, width)
    style = "red" if part > whole else "green"
    return Text.assemble((_FULL * filled, style), (_EMPTY * (width - filled), "dim"))


def _number(value: int | str | None) -> Text:
    return Text(milli(value), "dim" if value in (None, 0, "unlimited") else "")


COLUMNS = (
    Column("usage", lambda row: Text(milli(row.usage), "bold" if row.usage else "dim")),
    Column("request", lambda row: _number(row.request), 70),
    Column("quota", lambda row: _number(row.quota)),
    Column("throttled", lambda row: percent(row.throttled)),
    Column("pressure", lambda row: percent(row.pressure), 70),
    Column("weight", lambda row: _number_or_dash(row.weight), 100),
)


def _number_or_dash(value: int | None) -> Text:
    return Text(UNKNOWN if value is None else str(value), "dim")


def rows_table(title: str, rows: Sequence[Row], whole: int | None, width: int) -> Table:
    """`whole` is what the bars are measured against; where the screen is narrow there are none."""
    bars = min((width - 60) // 3, _WIDEST_BAR) if width >= _BARS_FROM else 0
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), expand=True)
    table.add_column(title, no_wrap=True, overflow="ellipsis", ratio=1)
    if bars:
        table.add_column("", no_wrap=True, width=bars)
    wide_enough = [column for column in COLUMNS if width >= column.from_width]
    shown = [column for column in wide_enough if column.says_something(rows)]
    tiers = title == "pod" and width >= _TIERS_FROM
    for column in shown:
        table.add_column(column.field, justify="right", no_wrap=True)
    if tiers:
        table.add_column("tier", no_wrap=True)
    for row in rows:
        picture = [bar(row.usage, whole, bars)] if bars else []
        tier = [Text(row.tier, "dim")] if tiers else []
        table.add_row(_name(row), *picture, *(column.cell(row) for column in shown), *tier)
    return table


def _name(row: Row) -> Text:
    if row.level == "container":
        return Text(f"  {row.name}", "dim")
    if row.level == "pod" and row.namespace:
        return Text.assemble((f"{row.namespace}/", "dim"), row.name)
    return Text(row.name)


def sorted_pods(overview: Overview, by: str) -> Overview:
    """What is not known comes last, whatever the order."""

    def number(value: float | None) -> float:
        return 1.0 if value is None else -value

    orders: dict[str, Callable[[Row], tuple[float, str, str]]] = {
        "usage": lambda row: (number(row.usage), row.namespace, row.name),
        "throttled": lambda row: (number(row.throttled), row.namespace, row.name),
        "name": lambda row: (0, row.namespace, row.name),
    }
    pods = tuple(sorted(overview.pods, key=orders[by]))
    return msgspec.structs.replace(overview, pods=pods)


def with_containers(pods: Sequence[Row]) -> list[Row]:
    return [row for pod in pods for row in (pod, *pod.containers)]
