"""The demo's result for people: one table, what it means, where the pictures are."""

import enum
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.cli.printing import NARROWEST, print_blocks, text_width
from slackwater.demo.report import WHY_A_QUOTA, PhaseReport, Report, milliseconds

#: The short table's columns need so many; a terminal with fewer wraps it.
_SHORT = 36


class Detail(enum.Enum):
    """How much of a table there is room for, or somebody asked for."""

    SHORT = "short"
    USUAL = "usual"
    WIDE = "wide"


def print_demo(report: Report, colour: bool, wide: bool) -> None:
    width = text_width(_SHORT)
    usual = Detail.USUAL if width >= NARROWEST else Detail.SHORT
    print_blocks(demo_blocks(report, Detail.WIDE if wide else usual), colour, _SHORT)


def demo_blocks(report: Report, detail: Detail) -> Iterator[RenderableType]:
    if report.machine.simulated_because is not None:
        because = report.machine.simulated_because
        yield Text(f"On the simulated kernel ({because}); lost: CPUs wanted in vain.", "bold")
        yield Text("")
    yield _table(report, detail)
    yield Text("batch in CPUs; node: how much of it was busy", "dim")
    yield Text("")
    yield from (Text(sentence) for sentence in report.meaning)
    if report.warning:
        yield Text(report.warning, "yellow")
    yield Text(WHY_A_QUOTA, "dim")
    if detail is Detail.WIDE and report.agent:
        yield Text("")
        for said in report.agent:
            when = f"{said.at:6.1f} s" if said.at >= 0 else "  before"
            change = f"{said.before} → {said.after}  " if said.after else ""
            yield Text(f"{when}  {said.what}  {change}{said.because}")
    if report.pictures:
        yield Text("")
        yield Text(f"picture: {', '.join(report.pictures)}")


def _table(report: Report, detail: Detail) -> Table:
    real = report.machine.simulated_because is None
    heads = ["P50", "P90", "P99"] if real else ["LOST", "WORST"]
    shown = _shown(heads, detail)
    heads = [*(heads[number] for number in shown), "BATCH", "NODE"]
    if detail is Detail.WIDE:
        heads += ["SERVICE", "REQUESTS", "FAILED", "STEAL", "FOREIGN"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("PHASE", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for phase in report.phases:
        numbers = _numbers(phase)
        row = [*(numbers[number] for number in shown), f"{phase.cpu.hog:.2f}"]
        row.append(f"{100 * phase.utilisation:.0f} %")
        name = phase.name if detail is Detail.SHORT else phase.title
        table.add_row(name, *row, *(_details(phase) if detail is Detail.WIDE else ()))
    return table


def _shown(heads: list[str], detail: Detail) -> list[int]:
    """The places of the numbers that there is room for: p90, or what was lost on average."""
    if detail is Detail.SHORT:
        return [heads.index("P90") if "P90" in heads else 0]
    return list(range(len(heads)))


def _numbers(phase: PhaseReport) -> list[str]:
    if phase.latency is not None:
        found = phase.latency
        return [milliseconds(each) for each in (found.p50, found.p90, found.p99)]
    if phase.lost is not None:
        return [f"{phase.lost.mean:.2f}", f"{phase.lost.worst:.2f}"]
    return ["-", "-", "-"]


def _details(phase: PhaseReport) -> list[str]:
    noise = phase.noise
    return [
        f"{phase.cpu.service:.2f}",
        str(phase.requests),
        str(phase.unanswered),
        "-" if noise is None else f"{noise.steal:.2f}",
        "-" if noise is None else f"{noise.foreign:.2f}",
    ]
