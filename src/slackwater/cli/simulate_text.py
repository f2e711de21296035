"""A simulation's timeline and summary as tables for people."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from slackwater.simulation.report import Report, clock
from slackwater.simulation.timeline import SCENARIO, Row

#: Wide enough for a table whatever the terminal: lines are folded, not cut.
_WIDTH = 110
_TREE = "kubepods/"


def print_simulation(report: Report, rows: Iterable[Row], colour: bool) -> None:
    console = Console(
        no_color=not colour,
        force_terminal=colour,
        width=None if colour else _WIDTH,
        highlight=False,
        markup=False,  # a reason may hold [brackets]
    )
    console.print(_timeline(rows))
    console.print(_tiers(report))
    for sentence in sentences(report):
        console.print(sentence, soft_wrap=True)


def _timeline(rows: Iterable[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TIME", no_wrap=True)
    table.add_column("WHAT", no_wrap=True)
    table.add_column("FROM", justify="right", no_wrap=True)
    table.add_column("TO", justify="right", no_wrap=True)
    table.add_column("BECAUSE")
    for row in rows:
        style = "cyan" if row.by == SCENARIO else ""
        what = row.what.replace(_TREE, "")
        table.add_row(_when(row), what, row.before, row.after, _because(row), style=style)
    return table


def _when(row: Row) -> str:
    return clock(row.at) if row.at == row.until else f"{clock(row.at)}-{clock(row.until)}"


def _because(row: Row) -> str:
    """The reason without the policy's name where there is one; how a fold went; what went wrong."""
    because = row.because.partition("best_effort_share: ")[2] or row.because
    parts = [because]
    if row.changes > 1:
        parts.insert(0, f"{row.changes} writes, {row.lowest} to {row.highest}; last")
    if row.times > 1:
        parts.append(f"({row.times} times)")
    if row.result:
        parts.append(f"({row.result})")
    return " ".join(parts)


def _tiers(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("\nTIER", no_wrap=True)
    for head in ("WANTED", "GOT", "LOST", "LOST %"):
        table.add_column(f"\n{head}", justify="right", no_wrap=True)
    seconds = report.scenario.seconds
    for tier in report.tiers:
        mean = [f"{each / seconds:.2f}" for each in (tier.wanted, tier.got, tier.lost)]
        part = f"{100 * tier.lost / tier.wanted:.2f}" if tier.wanted else "-"
        table.add_row(tier.tier, *mean, part)
    return table


def sentences(report: Report) -> list[str]:
    """The rest of the summary. CPUs are averages over the whole time."""
    seconds, best, agent = report.scenario.seconds, report.best_effort, report.agent
    online = (
        f"{report.online.mean_lost_milli:g}m on average, "
        f"{report.online.p99_lost_milli}m in the worst 1 % of the time"
    )
    share = (
        f"got {best.got / seconds:.2f} CPUs of {best.idle / seconds:.2f} that others left idle"
        f"{_budget(best.budget, best.part, seconds)}"
    )
    rounds = (
        f"{agent.ticks} ticks ({agent.early} early), {agent.writes} writes, "
        f"{agent.refused} refused, {agent.repairs} repairs, {agent.yields} yields, "
        f"{agent.holds} ticks on hold"
    )
    left = f"{report.left} values could not be put back" if report.left else "every value is back"
    return [
        "(CPUs on average)",
        "",
        f"online lost   {online}",
        f"best effort   {share}",
        f"agent         {rounds}",
        f"release       {left}",
    ]


def _budget(budget: float | None, part: float | None, seconds: float) -> str:
    if budget is None:
        return ", without a quota"
    share = "" if part is None else f": {100 * part:.1f} % of what it could have had"
    return f", {budget / seconds:.2f} of them within the threshold{share}"
