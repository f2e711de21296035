"""The screen of `slackwater top`: a node, its tiers and pods, fitted to the terminal."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from slackwater.cli.terminal import FULL, TableColumn, make_table, stacked_bar
from slackwater.record.offers import OfferRow
from slackwater.record.overview import EntryRow, Overview, UsageRow
from slackwater.record.rules import RuleRow, describe_comparison
from slackwater.record.timestamps import describe_age, time_of_day

UNKNOWN = "-"
#: Shares of time from which on a value is worth a look, in percent.
_NOTABLE, _LARGE = 1.0, 25.0
#: Columns of the screen.
_BARS_FROM, _WIDEST_BAR, _TIERS_FROM = 80, 24, 90
_STATES = {"acting": "green", "holding": "yellow", "starting": "yellow", "off": "dim"}
#: Journal entries at the bottom, and from which height on they are there.
_ENTRIES, _HIGH_ENOUGH = 4, 20
_NARROW = 80
_OUTSIDE = "outside pods"
#: Rules that are not quiet, in the header.
_RULES = 3


class ShownField(msgspec.Struct, frozen=True):
    """A field of a row, how its cell looks, and from which width of the screen on it is shown."""

    name: str
    cell: Callable[[UsageRow], Text]
    from_width: int = 0

    def is_known(self, rows: Iterable[UsageRow]) -> bool:
        """Whether any row has it: pressure is not there on cgroup v1."""
        return any(getattr(row, self.name) is not None for row in rows)


def format_milli(value: int | str | None) -> str:
    """600m; 12.5 from ten cores on; unlimited; - if it is not known."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    return f"{value}m" if value < 10_000 else f"{value / 1000:.1f}"


def format_percent(value: float | None) -> Text:
    """A share of time, in a colour that grows with it."""
    if value is None:
        return Text(UNKNOWN, "dim")
    style = "red" if value >= _LARGE else "yellow" if value >= _NOTABLE else "dim"
    return Text(f"{value:.0f}%" if value >= 10 or value == 0 else f"{value:.1f}%", style)


def usage_bar(part: int | None, whole: int | None, width: int) -> Text:
    """Empty if one of the two is not known."""
    if part is None or not whole or width <= 0:
        return Text("")
    return stacked_bar([(part, FULL, "red" if part > whole else "green")], whole, width)


def _format_number(value: int | str | None) -> Text:
    return Text(format_milli(value), "dim" if value in (None, 0, "unlimited") else "")


FIELDS = (
    ShownField("usage", lambda row: Text(format_milli(row.usage), "bold" if row.usage else "dim")),
    ShownField("request", lambda row: _format_number(row.request), 70),
    ShownField("quota", lambda row: _format_number(row.quota)),
    ShownField("throttled", lambda row: format_percent(row.throttled)),
    ShownField("pressure", lambda row: format_percent(row.pressure), 70),
    ShownField("weight", lambda row: _number_or_dash(row.weight), 100),
)


def _number_or_dash(value: int | None) -> Text:
    return Text(UNKNOWN if value is None else str(value), "dim")


def rows_table(title: str, rows: Sequence[UsageRow], whole: int | None, width: int) -> Table:
    """`whole` is the length of a full bar; a narrow screen has no bars."""
    bars = min((width - 60) // 3, _WIDEST_BAR) if width >= _BARS_FROM else 0
    wide_enough = [field for field in FIELDS if width >= field.from_width]
    shown = [field for field in wide_enough if field.is_known(rows)]
    tiers = title == "pod" and width >= _TIERS_FROM
    columns = [TableColumn(title), *([TableColumn("")] if bars else ())]
    columns += [TableColumn(field.name, right=True) for field in shown]
    columns += [TableColumn("tier")] if tiers else []
    table = make_table(columns)
    table.expand, table.columns[0].ratio = True, 1
    if bars:
        table.columns[1].width = bars
    for row in rows:
        picture = [usage_bar(row.usage, whole, bars)] if bars else []
        tier = [Text(row.tier, "dim")] if tiers else []
        table.add_row(_format_name(row), *picture, *(field.cell(row) for field in shown), *tier)
    return table


def _format_name(row: UsageRow) -> Text:
    if row.level == "container":
        return Text(f"  {row.name}", "dim")
    if row.level == "pod" and row.namespace:
        return Text.assemble((f"{row.namespace}/", "dim"), row.name)
    return Text(row.name)


def sort_pods(overview: Overview, by: str) -> Overview:
    """Unknown values come last, whatever the order."""

    def number(value: float | None) -> float:
        return 1.0 if value is None else -value

    orders: dict[str, Callable[[UsageRow], tuple[float, str, str]]] = {
        "usage": lambda row: (number(row.usage), row.namespace, row.name),
        "throttled": lambda row: (number(row.throttled), row.namespace, row.name),
        "name": lambda row: (0, row.namespace, row.name),
    }
    pods = tuple(sorted(overview.pods, key=orders[by]))
    return msgspec.structs.replace(overview, pods=pods)


def tier_rows(overview: Overview) -> tuple[UsageRow, ...]:
    """The tiers, and what runs outside pods, so that the rows add up to the node."""
    outside = overview.node.outside_pods
    if outside is None:
        return overview.tiers
    return (*overview.tiers, UsageRow(_OUTSIDE, _OUTSIDE, "", usage=outside))


def with_containers(pods: Sequence[UsageRow]) -> list[UsageRow]:
    return [row for pod in pods for row in (pod, *pod.containers)]


class ConnectionLoss(msgspec.Struct, frozen=True):
    """The agent does not answer: why, since when, and when it last did, as timestamps."""

    why: str
    since: str
    last_seen: str | None = None


class Screen(msgspec.Struct, frozen=True):
    """One screen. Without an overview there has been no answer yet."""

    overview: Overview | None
    now: dt.datetime
    lost: ConnectionLoss | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        height = options.height or console.size.height
        lines: list[RenderableType] = []
        if self.lost is not None:
            lines.append(lost_line(self.lost, self.now))
        if self.overview is not None:
            lines += _screen_lines(self.overview, width, height - len(lines))
        yield from lines


def lost_line(lost: ConnectionLoss, now: dt.datetime) -> Text:
    seen = f"; last seen {time_of_day(lost.last_seen)}" if lost.last_seen else ""
    text = Text(f"no answer for {describe_age(lost.since, now)}{seen}", "bold red")
    return _cut_line(text.append(f"  {lost.why}", "not bold"))


def _screen_lines(overview: Overview, width: int, height: int) -> list[RenderableType]:
    """Header, tiers, then as many pods as fit above the last entries of the journal."""
    header = list(header_lines(overview, width))
    above = tier_rows(overview)
    tiers = rows_table("tier", above, overview.node.allocatable, width)
    entries = overview.entries[-_ENTRIES:] if height >= _HIGH_ENOUGH else ()
    # Blank lines, the headers of both tables, and the journal with a blank line above.
    taken = len(header) + 1 + (1 + len(above)) + 2 + (len(entries) + 1 if entries else 0)
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
        lines += [_entry_line(entry) for entry in entries]
    return lines


def header_lines(overview: Overview, width: int) -> Iterator[Text]:
    node = overview.node
    usage = f"{format_milli(node.usage)} of {format_milli(node.allocatable)}"
    if node.usage is not None and node.allocatable:
        usage += f"  {node.usage * 100 // node.allocatable}%"
    used = Text.assemble(("node ", "bold"), (usage, "bold"))
    picture = min(width - used.cell_len - 2, 40)
    if picture >= 10:
        used.append("  ").append_text(usage_bar(node.usage, node.allocatable, picture))
    yield used
    style = _STATES.get(overview.state, "bold red")
    state = Text.assemble((overview.state, style))
    if overview.at:
        state.append(f"  tick {overview.tick} at {time_of_day(overview.at)}", "dim")
    if node.request is not None and width >= _NARROW:
        state.append(f"  promised {format_milli(node.request)}", "dim")
    if overview.sources and width >= _NARROW:
        oldest = max(overview.sources, key=lambda each: each.age)
        state.append(f"  {oldest.name} heard {oldest.age:.0f} s ago", "dim")
    if overview.rules:
        active = sum(each.state != "quiet" for each in overview.rules)
        state.append(f"  rules {active} of {len(overview.rules)} active", "" if active else "dim")
    yield state
    yield from _rule_lines(overview.rules)
    yield from _offer_lines(overview.offers)
    if overview.because:
        yield _cut_line(Text(overview.because, "yellow"))
    for problem in overview.problems:
        if problem == overview.because:
            continue
        yield _cut_line(Text(problem, "red"))


def _rule_lines(rules: Sequence[RuleRow]) -> Iterator[Text]:
    """Those that are not quiet: NodeQOS/waterline1/cpu triggered  cpu_total_usage 6500 > 6000"""
    active = [each for each in rules if each.state != "quiet"]
    for rule in active[:_RULES]:
        line = Text.assemble((rule.title(), "bold"), " ", (rule.state, "yellow"))
        line.append(f"  {describe_comparison(rule)}")
        told = ", ".join(filter(None, (rule.did, rule.held)))
        yield _cut_line(line.append(f"  {told}", "dim") if told else line)
    if len(active) > _RULES:
        yield Text(f"and {len(active) - _RULES} more rules; see slackwater explain", "dim")


def _offer_lines(offers: Sequence[OfferRow]) -> Iterator[Text]:
    """gocrane.io/cpu 3 offered, 2 allocated to pods  budget 3400m, predicted 1800m"""
    for offer in offers:
        line = Text.assemble("sells ", (offer.sold(), "bold"))
        budget, predicted = offer.amount(offer.budget), offer.amount(offer.predicted)
        line.append(f"  budget {budget}, predicted {predicted}", "dim")
        yield _cut_line(line.append(f"  {offer.missing}", "yellow") if offer.missing else line)


def _entry_line(entry: EntryRow) -> Text:
    """One line of the journal: 12:00:01 quota of kubepods/besteffort 800m → 600m"""
    line = Text.assemble((time_of_day(entry.at), "dim"), " ", entry.what)
    if entry.after:
        line.append(
            f" {entry.before} → {entry.after}" if entry.before else f" {entry.after}", "bold"
        )
    if entry.result and entry.result != "applied":
        line.append(f" {entry.result}", "yellow")
    if entry.because:
        line.append(f"  {entry.because}", "dim")
    return _cut_line(line)


def _cut_line(text: Text) -> Text:
    """One line, cut at the screen's edge."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def plain_blocks(overview: Overview, width: int, wide: bool) -> Iterator[RenderableType]:
    """For files and pipes: every pod, and with `wide` every container."""
    yield from header_lines(overview, width)
    yield Text("")
    yield rows_table("tier", tier_rows(overview), overview.node.allocatable, width)
    yield Text("")
    pods = with_containers(overview.pods) if wide else overview.pods
    if pods:
        yield rows_table("pod", pods, overview.node.allocatable, width)
    else:
        yield Text("no pods", "dim")
