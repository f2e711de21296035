"""The demo's result for people: one table, what it means, where the pictures are."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.cli.printing import print_blocks
from slackwater.demo.report import PhaseReport, Report, milliseconds


def print_demo(report: Report, colour: bool, wide: bool) -> None:
    print_blocks(_blocks(report, wide), colour)


def _blocks(report: Report, wide: bool) -> Iterator[RenderableType]:
    if report.machine.simulated_because is not None:
        because = report.machine.simulated_because
        yield Text(f"On the simulated kernel ({because}); lost: CPUs wanted in vain.", "bold")
        yield Text("")
    yield _table(report, wide)
    yield Text("batch in CPUs; node: how much of it was busy", "dim")
    yield Text("")
    yield from (Text(sentence) for sentence in report.meaning)
    if report.warning:
        yield Text(report.warning, "yellow")
    if wide and report.agent:
        yield Text("")
        for said in report.agent:
            change = f"{said.before} → {said.after}  " if said.after else ""
            yield Text(f"{said.at:6.1f} s  {said.what}  {change}{said.because}")
    if report.pictures:
        yield Text("")
        yield Text(f"picture: {', '.join(report.pictures)}")


def _table(report: Report, wide: bool) -> Table:
    real = report.machine.simulated_because is None
    heads = ["P50", "P90", "P99"] if real else ["LOST", "WORST"]
    heads += ["BATCH", "NODE"]
    if wide:
        heads += ["SERVICE", "REQUESTS", "FAILED", "STEAL", "FOREIGN"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("PHASE", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for phase in report.phases:
        row = [*_numbers(phase), f"{phase.cpu.hog:.2f}", f"{100 * phase.utilisation:.0f} %"]
        table.add_row(phase.title, *row, *(_details(phase) if wide else ()))
    return table


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
