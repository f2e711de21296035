"""`slackwater status`: the whole cluster, as its API server shows it.

Text has totals, problems first, a bar for each node and a line for each policy.
"""

import datetime as dt
import sys
from collections.abc import Iterator, Sequence

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from slackwater import __version__
from slackwater.cli.agent_client import NoAnswer
from slackwater.cli.cluster_options import (
    cluster_options,
    find_cluster_access,
    slo_config_options,
)
from slackwater.cli.manager import LEASE
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.cli.terminal import (
    FULL,
    TableColumn,
    aligned_lines,
    print_blocks,
    stacked_bar,
    text_width,
)
from slackwater.cli.top_view import UNKNOWN, format_milli
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.node_report import ActiveRule
from slackwater.http.errors import RequestError
from slackwater.kube.client import Client
from slackwater.model.decision import RuleState
from slackwater.record.timestamps import describe_age
from slackwater.status.cluster_status import (
    ClusterStatus,
    ManagerRow,
    NodeState,
    NodeStatusRow,
    PolicyRow,
    Totals,
    cluster_status,
)
from slackwater.status.fetch import fetch_facts
from slackwater.status.normalization_status import NormalizationStatus

#: Rows of nodes with problems, and of all nodes, before the rest is summed up.
MOST_PROBLEMS, MOST_NODES = 40, 20
#: Rules of one node that are not quiet.
MOST_RULES = 3
_GRANTED = "▒"
_STATES = {
    NodeState.WELL: "green",
    NodeState.RELEASED: "yellow",
    NodeState.STARTING: "yellow",
    NodeState.NO_ROOM: "yellow",
    NodeState.NO_AGENT: "dim",
}
#: From how many columns on there is room for a bar, and for a wide one.
_BARS_FROM, _WIDE_FROM, _NARROW_BAR, _WIDE_BAR = 76, 100, 12, 24
_INDENT = (0, 0, 0, 2)
_ANSWERS = {"True": ("yes", "green"), "False": ("no", "red"), "Unknown": ("?", "yellow")}


@click.command(short_help="The whole cluster: what each node's agent does.")
@slo_config_options
@cluster_options
@output_options
def status(
    kubeconfig: str,
    context: str,
    namespace: str,
    config_namespace: str,
    slo_config_name: str,
    output: Output,
    no_color: bool,
) -> None:
    """The whole cluster: what each node's agent holds, what policies do, what is wrong.

    Asks the API server alone. Problems come first; nodes without any are summed up where there are
    many, and -o wide shows them all.

    \b
    Examples:
      slackwater status                      problems first
      slackwater status -o wide              every node, with its policies
      slackwater status -o json | jq '.nodes[] | select(.problems != [])'

    \b
    Exit codes: 0 all is well, 1 a problem was found or the cluster cannot be reached, 2 wrong
    usage.
    """
    access = find_cluster_access(kubeconfig, context)
    try:
        client = Client(access, f"slackwater-status/{__version__}")
        slo_config = SloConfigName(config_namespace, slo_config_name)
        facts = fetch_facts(client, str(access.server), namespace, LEASE, slo_config)
    except RequestError as error:
        raise NoAnswer(str(error)) from None
    now = dt.datetime.now(dt.UTC)
    shown = cluster_status(facts, now)
    if output in (Output.JSON, Output.YAML):
        print_data(shown, output)
    else:
        print_blocks(
            blocks(shown, now, text_width(), wide=output is Output.WIDE), wants_colour(no_color)
        )
    sys.exit(1 if shown.has_problem() else 0)


def blocks(
    shown: ClusterStatus, now: dt.datetime, width: int, wide: bool
) -> Iterator[RenderableType]:
    """`wide` shows every node, and which policies are on and off there."""
    yield from _head(shown, now, width)
    if shown.nodes:
        yield Text("")
        yield from _nodes(shown.nodes, now, width, wide)
    if shown.policies:
        yield Text("")
        yield from _policies(shown.policies, width, wide)
    if shown.normalization:
        yield Text("")
        yield from _normalization(shown.normalization)
    yield Text("")
    yield from _end(shown)


def _head(shown: ClusterStatus, now: dt.datetime, width: int) -> Iterator[RenderableType]:
    yield Text.assemble(("cluster ", "bold"), shown.server, no_wrap=True, overflow="ellipsis")
    yield Text.assemble(("manager ", "bold"), _manager(shown.manager, now))
    totals = shown.totals
    yield Text.assemble(("nodes ", "bold"), _counted(totals))
    if totals.reporting:
        yield Text.assemble(("best effort ", "bold"), _sums(totals, width - len("best effort ")))


def _sums(totals: Totals, width: int) -> Text:
    """Over the nodes whose numbers are known; how many, if not all are."""
    if totals.used is None or totals.quota is None or totals.allocatable is None:
        return Text("not known of any node", "dim")
    line = Text(f"{cores(totals.used)} used of {cores(totals.quota)} granted")
    line.append(f", {cores(totals.allocatable)} cores in all", "dim")
    if totals.known < totals.nodes:
        line.append(f", known of {totals.known} of {totals.nodes} nodes", "dim")
    room = min(width - line.cell_len - 2, _WIDE_BAR)
    if room >= _NARROW_BAR:
        picture = bar(totals.used, totals.quota, totals.allocatable, room)
        line.append("  ").append_text(picture)
    return line


def _manager(manager: ManagerRow | None, now: dt.datetime) -> Text:
    if manager is None:
        return Text("none runs", "dim")
    heard = f"heard {describe_age(manager.renewed, now)} ago" if manager.renewed else "never heard"
    style = "green" if manager.alive else "red"
    return _printable(manager.leader, style).append(f"  {heard}", "dim")


def _counted(totals: Totals) -> Text:
    text = Text(f"{totals.nodes}, {totals.reporting} with a report")
    if totals.without_agent:
        text.append(f", {totals.without_agent} without an agent", "dim")
    if totals.without_room:
        text.append(f", {totals.without_room} without room for best effort", "yellow")
    if totals.nodes_with_problems:
        text.append(f", {totals.nodes_with_problems} with problems", "red")
    return text


def _nodes(
    nodes: Sequence[NodeStatusRow], now: dt.datetime, width: int, wide: bool
) -> Iterator[RenderableType]:
    bad = [row for row in nodes if row.problems]
    good = sorted((row for row in nodes if not row.problems), key=_is_unremarkable)
    shown_bad = bad if wide else _some(bad, MOST_PROBLEMS)
    shown_good = good if wide else _some(good, max(MOST_NODES - len(bad), 0))
    rows = [*shown_bad, *shown_good]
    lines = iter(_node_lines(rows, now, width))
    yield next(lines)
    for row, line in zip(rows, lines, strict=True):
        yield line
        yield from (Padding(_printable(problem, "red"), _INDENT) for problem in row.problems)
        yield from (Padding(_printable(remark, "yellow"), _INDENT) for remark in row.remarks)
        yield from (Padding(each, _INDENT) for each in _rule_lines(row, now, wide))
        if wide and row.policies:
            yield Padding(_switches(row), _INDENT)
        if wide and row.container_starts:
            starts = Text.assemble(("container starts ", "dim"), _printable(row.container_starts))
            yield Padding(starts, _INDENT)
    if any(not row.current for row in rows):
        yield Text("(in brackets: as last reported, not of now, and in no sum)", "dim")
    if more := len(bad) - len(shown_bad):
        yield Text(f"and {_many(more, 'node')} with problems; -o wide shows them", "red")
    if more := len(good) - len(shown_good):
        yield Text(f"and {_many(more, 'node')} without problems", "dim")


def _is_unremarkable(row: NodeStatusRow) -> bool:
    return not row.remarks and not any(_active_rules(row))


def _active_rules(row: NodeStatusRow) -> Iterator[tuple[str, ActiveRule]]:
    """With their objects; a quiet one is there where it lacks its metric or can never act."""
    for title, rules in row.rules.items():
        yield from ((title, each) for each in rules if each.state != RuleState.QUIET.value)


def _some(rows: list[NodeStatusRow], most: int) -> list[NodeStatusRow]:
    """One more row takes no more room than the line that would count it."""
    return rows if len(rows) <= most + 1 else rows[:most]


def _node_lines(rows: Sequence[NodeStatusRow], now: dt.datetime, width: int) -> list[Text]:
    bars = width >= _BARS_FROM
    columns = [TableColumn("node"), TableColumn("state")]
    columns += [TableColumn("best effort")] if bars else []
    columns += [TableColumn(name, right=True) for name in ("quota", "used", "holding", "since")]
    bar_width = _NARROW_BAR if width < _WIDE_FROM else _WIDE_BAR
    cells = [
        (
            Text(row.name, "bold" if row.problems else ""),
            _state(row.state),
            *((_picture(row, bar_width),) if bars else ()),
            *_cells(row, now),
        )
        for row in rows
    ]
    return aligned_lines(columns, cells, width)


def _rule_lines(row: NodeStatusRow, now: dt.datetime, wide: bool) -> Iterator[Text]:
    """The rules that are not quiet there, the first few without `wide`. That one lacks its metric
    is one of the node's problems."""
    active = list(_active_rules(row))
    shown = active if wide else active[:MOST_RULES]
    for title, rule in shown:
        since = f" for {describe_age(rule.since, now)}" if rule.since else ""
        preview = " (Preview: nothing is done)" if rule.preview else ""
        yield _printable(f"{title}/{rule.rule} {rule.state}{since}{preview}", "yellow")
    if more := len(active) - len(shown):
        yield Text(f"and {_many(more, 'rule')} more; -o wide shows them", "dim")


def _switches(row: NodeStatusRow) -> Text:
    """Which policies are on, and why the others are off."""
    on = ", ".join(name for name, state in row.policies.items() if state == "on") or "nothing"
    off = "; ".join(f"{name}: {state}" for name, state in row.policies.items() if state != "on")
    text = Text.assemble(("on ", "dim"), _printable(on))
    if off:
        text.append("  off ", "dim").append_text(_printable(off, "dim"))
    return text.append("  version ", "dim").append_text(_printable(row.version or UNKNOWN, "dim"))


def _state(state: NodeState) -> Text:
    return Text(state.value, _STATES.get(state, "red"))


def _picture(row: NodeStatusRow, width: int) -> Text:
    if not row.current:
        return Text("")
    return bar(row.used, row.physical_quota(), row.allocatable, width)


def _cells(row: NodeStatusRow, now: dt.datetime) -> tuple[Text, ...]:
    since = describe_age(row.since, now) if row.since else UNKNOWN
    holding = UNKNOWN if row.holding is None else str(row.holding)
    faint = row.quota in (None, "unlimited") or not row.current
    return (
        Text(_amount(row, row.quota), "dim" if faint else ""),
        Text(_amount(row, row.used), "" if row.current else "dim"),
        Text(holding, "dim" if not row.holding else "bold"),
        Text(since, "dim"),
    )


def _amount(row: NodeStatusRow, amount: int | str | None) -> str:
    """An old one in brackets."""
    shown = format_milli(amount)
    return shown if row.current or amount is None else f"({shown})"


def bar(used: int | None, quota: int | None, whole: int | None, width: int) -> Text:
    """Used, granted and not used, and the rest of the machine; nothing where one is not known."""
    if used is None or quota is None or not whole or width <= 0:
        return Text("")
    style = "red" if used > quota else "green"
    return stacked_bar([(used, FULL, style), (quota, _GRANTED, "green")], whole, width)


def _policies(rows: Sequence[PolicyRow], width: int, wide: bool) -> Iterator[RenderableType]:
    columns = [
        TableColumn("policy"),
        TableColumn("valid"),
        TableColumn("enforced"),
        TableColumn("triggered"),
        TableColumn("nodes", right=True),
    ]
    cells = [
        (
            _named(row, wide),
            _answer(row.valid),
            _answer(row.enforced),
            _trigger(row.triggered),
            Text(UNKNOWN if row.nodes is None else str(row.nodes)),
        )
        for row in rows
    ]
    lines = iter(aligned_lines(columns, cells, width))
    yield next(lines)
    for row, line in zip(rows, lines, strict=True):
        yield line
        yield from (Padding(_printable(problem, "red"), _INDENT) for problem in row.problems)
        if row.where:
            yield Padding(_printable(f"triggered: {row.where}", "yellow"), _INDENT)
        if row.summary:
            yield Padding(_printable(row.summary, "dim"), _INDENT)
        if row.followed and (wide or row.idle or row.enforced == "False"):
            yield Padding(_printable(row.followed, "yellow" if row.idle else "dim"), _INDENT)


def _named(row: PolicyRow, wide: bool) -> Text:
    """As `kubectl get` takes it, with the short name of a long kind."""
    kind = row.kind if wide else _SHORT.get(row.kind, row.kind)
    return Text.assemble((f"{kind.lower()}/", "dim"), row.name)


_SHORT = {
    "NodeQOSEnsurancePolicy": "nep",
    "NodeQOS": "nodeqos",
    "PodQOS": "podqos",
    "AvoidanceAction": "avoid",
    "EnsuranceMetric": "em",
}


def _answer(truth: str | None) -> Text:
    word, style = _ANSWERS.get(truth or "", (UNKNOWN, "dim"))
    return Text(word, style)


def _trigger(truth: str | None) -> Text:
    """A rule that is triggered does what it should: no problem, but worth a look."""
    word, style = {"True": ("yes", "yellow"), "False": ("no", "dim")}.get(
        truth or "", (UNKNOWN, "dim")
    )
    return Text(word, style)


def _normalization(shown: NormalizationStatus) -> Iterator[RenderableType]:
    ratios = ", ".join(f"{_many(n, 'node')} at {ratio}" for ratio, n in shown.ratios.items())
    line = Text.assemble(("normalization ", "bold"), _printable(ratios or "no node has a ratio"))
    yield line.append(f"  {shown.source}", "dim")
    yield from (Padding(_printable(each, "red"), _INDENT) for each in shown.problems)


def _end(shown: ClusterStatus) -> Iterator[RenderableType]:
    if idle := shown.totals.policies_idle:
        does = "policy does" if idle == 1 else "policies do"
        yield Text(f"{idle} {does} nothing, on some node or on all: see above.", "yellow")
    for note in shown.notes:
        yield _printable(note, "yellow")
    for problem in shown.problems:
        yield _printable(problem, "red")
    if not shown.has_problem():
        yield Text("No problem found.", "green")
        return
    yield Text(f"{_many(shown.problem_count(), 'problem')} found.", "red")


def _printable(text: str, style: str = "") -> Text:
    """Text of others: whoever may write a node's report must not send control codes to the reader's
    terminal."""
    return Text(
        "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text), style
    )


def cores(amount: int) -> str:
    """Sums are large: 12.5 cores; of a small one every thousandth counts: 0.018."""
    return f"{amount / 1000:.1f}" if amount >= 100 or not amount else f"{amount / 1000:g}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
