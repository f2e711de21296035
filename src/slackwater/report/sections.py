"""The report as headings, sentences and tables, from which HTML and Markdown are written.

Every sentence is said once, here. Numbers are rounded for reading; JSON and CSV have all digits.
"""

import datetime as dt
from collections.abc import Iterator, Sequence

import msgspec

from slackwater.report.cluster_report import (
    ClusterReport,
    IdleOffer,
    NodeUse,
    PossibleSavings,
    SlackwaterDeeds,
    WorkloadUse,
)

MOST_NODES, MOST_DAYS, MOST_WORKLOADS = 40, 14, 10
#: Below a hundredth of a core a number says nothing.
_UNKNOWN = "not known"


class Cell(msgspec.Struct, frozen=True):
    """`share` from 0 to 1 shades it, None does not."""

    text: str
    share: float | None = None


class ReportTable(msgspec.Struct, frozen=True):
    """The first `words` columns are words, the others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: int = 1


class ReportSection(msgspec.Struct, frozen=True):
    title: str
    sentences: tuple[str, ...]
    table: ReportTable | None = None


class KeyFigure(msgspec.Struct, frozen=True):
    value: str
    meaning: str


def key_figures(report: ClusterReport) -> Iterator[KeyFigure]:
    """What somebody reads who reads nothing else."""
    if report.nodes:
        share = report.idle / report.allocatable if report.allocatable else 0.0
        yield KeyFigure(percent(share), f"of {cores(report.allocatable)} CPUs idle on average")
    if report.offer and report.savings:
        ours = report.offer.ours
        yield KeyFigure(cores(report.savings.cores), "CPUs could be sold to batch work")
        yield KeyFigure(percent(ours.exceeded), "of the hours would have needed some of them back")
        yield KeyFigure(f"{report.savings.nodes:.1f}", "nodes of mean size that need not be bought")


def sections(report: ClusterReport) -> Iterator[ReportSection]:
    if report.nodes:
        yield _idle(report)
    if report.offer:
        yield _sale(report.offer)
    if report.workloads:
        yield from _workloads(report)
    if report.slackwater:
        yield _deeds(report.slackwater)
    if report.savings and report.offer:
        yield _savings(report.savings, report.offer)
    yield _made(report)


def title(report: ClusterReport) -> str:
    return f"CPU of {report.server}" if report.server else "CPU of a cluster"


def subtitle(report: ClusterReport) -> str:
    days = report.period.seconds / 86_400
    return f"{days:.3g} days, {moment(report.period.start)} to {moment(report.period.end)} (UTC)"


def _idle(report: ClusterReport) -> ReportSection:
    nodes = sorted(report.nodes, key=lambda each: -each.idle)
    shown = nodes[:MOST_NODES]
    days = sorted({day.day for node in nodes for day in node.days})[-MOST_DAYS:]
    told = (
        f"{_many(len(nodes), 'node')} offer{'s' if len(nodes) == 1 else ''} "
        f"{cores(report.allocatable)} CPUs to pods. On average {cores(report.used)} of them were "
        f"used, by everything, and {cores(report.idle)} idle. A cell is what was idle on that day; "
        "the idlest node comes first."
    )
    sentences = [told]
    if len(nodes) > len(shown):
        rest = sum(each.idle for each in nodes[MOST_NODES:])
        sentences.append(
            f"{len(nodes) - len(shown)} more nodes, with {cores(rest)} idle CPUs together, are in "
            "the JSON and CSV forms."
        )
    columns = ("node", "CPUs", "used", "peak", "idle", *(day[5:] for day in days))
    rows = tuple(_node_row(each, days) for each in shown)
    return ReportSection("Idle CPU by node and day", tuple(sentences), ReportTable(columns, rows))


def _node_row(node: NodeUse, days: Sequence[str]) -> tuple[Cell, ...]:
    idle = {each.day: each.idle for each in node.days}
    most = node.allocatable or 1.0
    return (
        Cell(node.node),
        *map(Cell, (cores(node.allocatable), cores(node.used), cores(node.peak), cores(node.idle))),
        *(
            Cell(cores(idle[day]), min(idle[day] / most, 1.0)) if day in idle else Cell("-")
            for day in days
        ),
    )


def _sale(offer: IdleOffer) -> ReportSection:
    tried = (
        f"Each hour of {offer.days:.2g} days was forecast again from what came before it, on "
        f"{offer.nodes} of {_many(offer.of, 'node')} with {cores(offer.allocatable)} CPUs, of "
        f"which {cores(offer.idle)} were idle on average. Sold is what the forecasts would have "
        "left to batch work; an hour is exceeded if the node then needed more than was forecast, "
        "and batch work had to give way."
    )
    oracle = (
        f"Somebody who had known the peak of each hour could have sold {cores(offer.oracle)} CPUs."
    )
    columns = (
        "forecast by",
        "CPUs sold",
        "of the idle",
        "hours exceeded",
        "worst node",
        "time above",
    )
    rows = tuple(
        (
            Cell(each.estimator + (" (our default)" if each is offer.ours else "")),
            Cell(cores(each.sold)),
            Cell(percent(each.sold / offer.idle) if offer.idle else _UNKNOWN),
            Cell(percent(each.exceeded)),
            Cell(percent(each.worst_node)),
            Cell(percent(each.time_above)),
        )
        for each in offer.estimators
    )
    return ReportSection(
        "What could be sold, at which risk", (tried, oracle), ReportTable(columns, rows)
    )


def _workloads(report: ClusterReport) -> Iterator[ReportSection]:
    hottest, coldest = report.hottest(MOST_WORKLOADS), report.coldest(MOST_WORKLOADS)
    if not hottest:
        busiest = report.workloads[:MOST_WORKLOADS]
        told = "What they ask for is not known, so these are those that use most CPU."
        yield ReportSection("Busiest workloads", (told,), _workload_table(busiest))
        return
    told = (
        "By CPU used of CPU asked for. Above 100 % a workload lives on what others leave idle, and "
        "is the first to be slow when they do not."
    )
    yield ReportSection("Hottest workloads", (told,), _workload_table(hottest))
    if coldest:
        unused = sum(each.unused for each in report.workloads)
        told = (
            f"By CPU asked for and never used. All workloads together reserve {cores(unused)} CPUs "
            "more than they used in any moment that was looked at; the scheduler cannot give them "
            "to others, but idle they can be sold."
        )
        yield ReportSection("Coldest workloads", (told,), _workload_table(coldest))


def _workload_table(found: Sequence[WorkloadUse]) -> ReportTable:
    columns = ("namespace", "workload", "pods", "asked for", "used", "peak", "used of asked for")
    rows = tuple(
        (
            Cell(each.namespace),
            Cell(each.workload),
            Cell(str(each.pods)),
            Cell(cores(each.requested) if each.requested else "-"),
            Cell(cores(each.used)),
            Cell(cores(each.peak)),
            Cell(percent(each.of_request) if each.of_request is not None else "-"),
        )
        for each in found
    )
    return ReportTable(columns, rows, 2)


def _deeds(deeds: SlackwaterDeeds) -> ReportSection:
    sentences = [f"Agents run on {_many(deeds.nodes, 'node')}."]
    if deeds.best_effort is not None:
        sentences.append(f"Best-effort pods used {cores(deeds.best_effort)} CPUs on average.")
    if deeds.sold is not None:
        sentences.append(f"{cores(deeds.sold)} idle CPUs were offered to pods on average.")
    if deeds.forecast_exceeded is not None:
        told = f"{percent(deeds.forecast_exceeded)} of the ticks used more than was predicted."
        sentences.append(told)
    sentences.append(
        f"{deeds.changes:.0f} kernel values were changed, {_many(round(deeds.evictions), 'pod')} "
        f"evicted, {_many(round(deeds.rotations), 'workload')} rotated."
    )
    rows = tuple(
        (
            Cell(each.policy),
            Cell(str(each.nodes)),
            Cell(_UNKNOWN if each.acted is None else percent(each.acted)),
            Cell(_UNKNOWN if each.held is None else percent(each.held)),
        )
        for each in deeds.policies
    )
    columns = ("policy", "on, nodes", "acted, of its ticks", "held for lack of an input")
    return ReportSection("What Slackwater did", tuple(sentences), ReportTable(columns, rows))


def _savings(found: PossibleSavings, offer: IdleOffer) -> ReportSection:
    first = (
        f"By the forecast {offer.ours.estimator}, {cores(found.cores)} CPUs could be given to "
        f"batch work on average, {found.core_hours_a_day:.0f} CPU hours a day: as much as "
        f"{found.nodes:.1f} nodes of this cluster's mean size."
    )
    told = [first]
    if found.money is not None:
        told.append(f"At the given price that is {found.money:,.0f} in 30 days.")
    if offer.nodes < offer.of:
        told.append(f"Taken from the {offer.nodes} nodes that were tried to all {offer.of}.")
    told.append(
        "It presumes batch work that can use it, and that gives way within seconds, as pods under "
        "the agent do."
    )
    return ReportSection("What it would save", tuple(told))


def _made(report: ClusterReport) -> ReportSection:
    told = (
        f"By slackwater report at {moment(report.made)} (UTC), from {report.prometheus} (nodes "
        f"each {report.period.step / 60:.0f} minutes, workloads at a few moments) and the API "
        "server. It only reads."
    )
    return ReportSection("How this was made", (told, *report.notes))


def cores(amount: float) -> str:
    """Three digits, and never an exponent."""
    if amount >= 100:
        return f"{amount:.0f}"
    return f"{amount:.1f}" if amount >= 10 else f"{amount:.2f}"


def percent(share: float) -> str:
    shown = 100 * share
    return f"{shown:.0f} %" if shown >= 10 or shown == 0 else f"{shown:.1f} %"


def moment(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%d %H:%M")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
