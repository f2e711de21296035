"""`slackwater demo`: runs the demo with a live view, prints its result, writes its picture."""

import contextlib
import enum
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Self

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slackwater.cli.number_range import NumberRange
from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.terminal import (
    FULL,
    NARROWEST,
    TableColumn,
    make_table,
    print_blocks,
    stacked_bar,
    text_width,
)
from slackwater.demo.demo_plan import DEMO, DemoPhase
from slackwater.demo.demo_report import WHY_DEMOTION, DemoReport, PhaseReport, format_milliseconds
from slackwater.demo.measurements import (
    AgentEntry,
    CpuUse,
    PhaseProgress,
    PhaseSample,
    ProgressObserver,
    find_percentiles,
)

NAME = "slackwater-demo"
_INTERRUPTED = 130
_SECONDS = 18.0
_SHORTEST, _LONGEST = 1.0, 600.0
#: The short table's width; a narrower terminal wraps it.
_SHORT = 36
#: All columns side by side.
_WIDE = 140
_BAR = 44
_SAID = 4
_COLOURS = {"batch": "yellow", "service": "blue", "other": "bright_black", "idle": "dim"}


@click.command()
@click.option(
    "--seconds",
    type=NumberRange(_SHORTEST, _LONGEST),
    default=_SECONDS,
    show_default=True,
    envvar="SLACKWATER_DEMO_SECONDS",
    show_envvar=True,
    help="How long each of the three phases is, in all of its slices together.",
)
@click.option(
    "--out",
    metavar="DIR",
    default=".",
    type=click.Path(exists=True, file_okay=False),
    envvar="SLACKWATER_DEMO_OUT",
    show_envvar=True,
    help=f"Where {NAME}.svg and .png go. Default: here.",
)
@click.option("--no-picture", is_flag=True, help="Write no picture.")
@click.option(
    "--simulated", is_flag=True, help="On the simulated kernel, whatever this machine is."
)
@output_options
def demo(
    seconds: float, out: str, no_picture: bool, simulated: bool, output: Output, no_color: bool
) -> None:
    """See what Slackwater does on this machine, in a minute.

    A small service answers requests: alone, then beside ordinary batch pods that want every CPU,
    then with one rule about the service's own latency. While that is at risk Slackwater holds these
    pods back; when it is calm it gives everything back. Prints latency, CPU use and what they mean;
    draws one picture. Needs root, makes cgroups of its own and removes them. Where it cannot make
    any, the same runs on the simulated kernel.

    \b
    Examples:
      sudo slackwater demo
      sudo slackwater demo --seconds 30 --out /tmp
      slackwater demo --simulated
      sudo slackwater demo -o json --no-picture | jq .phases[].latency

    \b
    Exit codes: 0 done, 1 it did not work, 2 wrong usage or environment, 130 interrupted.
    """
    try:
        from slackwater.demo.processes import raise_on_termination

        if not no_picture:
            _check_pictures(out)
        with raise_on_termination():
            report = _run(seconds, simulated, no_color)
            files, unwritten = ((), "") if no_picture else _write_pictures(report, out)
        _print_result(report, files, output, no_color)
    except KeyboardInterrupt:
        click.echo("slackwater: stopped; everything was restored", err=True)
        sys.exit(_INTERRUPTED)
    if unwritten:
        raise Failed(unwritten)


def _check_pictures(out: str) -> None:
    """Fails now, not after a minute. It tries to write: ownership and folders count too."""
    for path in _picture_paths(out):
        there = os.path.lexists(path)
        try:
            with open(path, "ab"):
                pass
        except OSError as error:
            other = "choose another folder with --out, or --no-picture"
            raise WrongSettings(f"{path} cannot be written: {error.strerror}; {other}") from None
        if not there:
            os.unlink(path)


def _picture_paths(out: str) -> tuple[str, str]:
    return os.path.join(out, f"{NAME}.svg"), os.path.join(out, f"{NAME}.png")


def _run(seconds: float, simulated: bool, no_color: bool) -> DemoReport:
    from slackwater.demo.cgroup_tree import CannotBuildTreeError
    from slackwater.demo.measurements import MeasurementError
    from slackwater.demo.program import ASKED, run_demo, simulate_demo
    from slackwater.observation.detection import EnvironmentValueError
    from slackwater.observation.host import Roots

    roots, because = Roots(), ASKED
    with _observe_progress(no_color) as watch:
        if not simulated:
            try:
                return run_demo(roots, os.environ, seconds, watch)
            except EnvironmentValueError as error:
                raise WrongSettings(str(error)) from None
            except MeasurementError as error:
                raise Failed(str(error)) from None
            except CannotBuildTreeError as error:
                because = str(error)
        click.echo(f"slackwater: simulated, because {because}", err=True)
        return simulate_demo(roots, because, seconds, watch)


@contextlib.contextmanager
def _observe_progress(no_color: bool) -> Iterator[ProgressObserver]:
    """A live screen on a terminal, else a line for each phase. Both on stderr."""
    if not sys.stderr.isatty():
        yield _PhaseLines().update
        return
    colour = not no_color and not os.environ.get("NO_COLOR")
    console = Console(stderr=True, highlight=False, color_system="auto" if colour else None)
    with LiveView(console) as view:
        yield view.update


class _PhaseLines:
    """Prints a line when a phase, or a slice of it, begins."""

    def __init__(self) -> None:
        self._told = ("", 0)

    def update(self, progress: PhaseProgress) -> None:
        began = (progress.phase.name, progress.number)
        if self._told != began:
            self._told = began
            length = f"{progress.seconds:g} {progress.unit}{_which_slice(progress)}"
            click.echo(f"slackwater: {progress.phase.title}, {length}", err=True)


def _which_slice(progress: PhaseProgress) -> str:
    return f" ({progress.number} of {progress.slices})" if progress.slices > 1 else ""


def _write_pictures(report: DemoReport, out: str) -> tuple[tuple[str, ...], str]:
    """The files that were written, and why others were not: the result is printed either way."""
    from slackwater.demo.demo_picture import draw_demo
    from slackwater.drawing.png import render_png
    from slackwater.model.gap import Gap

    svg = draw_demo(report)
    contents: list[bytes | Gap] = [svg.encode(), render_png(svg)]
    files: list[str] = []
    for path, content in zip(_picture_paths(out), contents, strict=True):
        if isinstance(content, Gap):
            click.echo(f"slackwater: only the SVG was written: {content.reason}", err=True)
            continue
        try:
            with open(path, "wb") as file:
                file.write(content)
        except OSError as error:
            return tuple(files), f"{path} cannot be written: {error.strerror}"
        files.append(path)
    return tuple(files), ""


def _print_result(
    report: DemoReport, files: tuple[str, ...], output: Output, no_color: bool
) -> None:
    import msgspec

    report = msgspec.structs.replace(report, pictures=files)
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
        return

    print_demo(report, wants_colour(no_color), wide=output is Output.WIDE)


class Detail(enum.Enum):
    """How much of the table is shown: as fits, or as asked for."""

    SHORT = "short"
    USUAL = "usual"
    WIDE = "wide"


def print_demo(report: DemoReport, colour: bool, wide: bool) -> None:
    width = text_width(_SHORT)
    usual = Detail.USUAL if width >= NARROWEST else Detail.SHORT
    blocks = demo_blocks(report, Detail.WIDE if wide else usual)
    print_blocks(blocks, colour, _SHORT, max(width, _WIDE) if wide else None)


def demo_blocks(report: DemoReport, detail: Detail) -> Iterator[RenderableType]:
    if report.machine.simulated_because is not None:
        because = report.machine.simulated_because
        yield Text(f"On the simulated kernel ({because}); lost: CPUs wanted in vain.", "bold")
        yield Text("")
    yield _result_table(report, detail)
    yield Text(_explain_columns(report), "dim")
    yield Text("")
    yield from (Text(sentence) for sentence in report.meaning)
    if report.warning:
        yield Text(report.warning, "yellow")
    yield Text(WHY_DEMOTION, "dim")
    if detail is Detail.WIDE and report.agent:
        yield Text("")
        for said in report.agent:
            when = f"{said.at:6.1f} s" if said.at >= 0 else "  before"
            change = f"{said.before} → {said.after}  " if said.after else ""
            yield Text(f"{when}  {said.what}  {change}{said.because}")
    if report.pictures:
        yield Text("")
        yield Text(f"picture: {', '.join(report.pictures)}")


def _explain_columns(report: DemoReport) -> str:
    said = "batch in CPUs; node: how much of it was busy"
    if report.objective is None:
        return said
    limit = format_milliseconds(report.objective.milliseconds)
    return f"{said}; above: seconds whose p90 was above {limit}; slices: the p90 of each of them"


def _result_table(report: DemoReport, detail: Detail) -> Table:
    real = report.machine.simulated_because is None
    heads = ["P90", "SLICES", "P99", "ABOVE"] if real else ["LOST", "WORST"]
    shown = _fitting_columns(heads, detail)
    heads = [*(heads[number] for number in shown), "BATCH", "NODE"]
    if detail is Detail.WIDE:
        heads += ["DEMOTED", "BOUNDED", "SERVICE", "REQUESTS", "FAILED", "STEAL", "FOREIGN"]
    rows = []
    for phase in report.phases:
        numbers = _latency_cells(phase)
        row = [*(numbers[number] for number in shown), f"{phase.cpu.hog:.2f}"]
        row.append(f"{100 * phase.utilisation:.0f} %")
        name = phase.name if detail is Detail.SHORT else phase.title
        rows.append((name, *row, *(_detail_cells(phase) if detail is Detail.WIDE else ())))
    return make_table(
        [TableColumn("PHASE"), *(TableColumn(head, right=True) for head in heads)], rows
    )


def _fitting_columns(heads: list[str], detail: Detail) -> list[int]:
    """The indexes of the numbers that fit: only p90, or the mean loss, in a short table."""
    if detail is Detail.SHORT:
        return [heads.index("P90") if "P90" in heads else 0]
    return list(range(len(heads)))


def _latency_cells(phase: PhaseReport) -> list[str]:
    if phase.latency is not None:
        p90, p99 = (format_milliseconds(each) for each in (phase.latency.p90, phase.latency.p99))
        return [p90, _p90_range(phase), p99, _percent(phase.above)]
    if phase.lost is not None:
        return [f"{phase.lost.mean:.2f}", f"{phase.lost.worst:.2f}"]
    return ["-", "-", "-", "-"]


def _p90_range(phase: PhaseReport) -> str:
    found = phase.p90_range()
    return "-" if found is None else f"{found[0]:.1f}–{found[1]:.1f}"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f} %"


def _detail_cells(phase: PhaseReport) -> list[str]:
    noise = phase.noise
    return [
        _percent(phase.demoted),
        _percent(phase.bounded),
        f"{phase.cpu.service:.2f}",
        str(phase.requests),
        str(phase.unanswered),
        "-" if noise is None else f"{noise.steal:.2f}",
        "-" if noise is None else f"{noise.foreign:.2f}",
    ]


class LiveView:
    """The live screen while the demo runs."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._done: list[PhaseProgress] = []
        self._last: PhaseProgress | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, progress: PhaseProgress) -> None:
        if self._last is not None and self._last.phase != progress.phase:
            self._done.append(self._last)
        self._last = progress
        self._live.update(screen(self._done, progress), refresh=True)


def screen(done: Sequence[PhaseProgress], now: PhaseProgress) -> RenderableType:
    """The phases so far with their latencies, then CPUs and the agent's entries of this one."""
    parts: list[RenderableType] = [_phase_table(done, now), Text("")]
    if now.sample is not None:
        parts += _cpu_bars(now.sample.cpu)
        parts.append(_held_back_line(now.sample))
    else:
        parts.append(Text("starting …", "dim"))
    said = [line for line in now.lines if line.at >= 0]  # the rest is from before the phase
    if said:
        parts += [Text(""), *[_entry_line(line) for line in said[-_SAID:]]]
    return Group(*parts)


def _phase_table(done: Sequence[PhaseProgress], now: PhaseProgress) -> Table:
    numbers = [TableColumn(name, right=True) for name in ("P50", "P90", "P99")]
    table = make_table([TableColumn(""), TableColumn("PHASE"), *numbers, TableColumn("TIME")])
    for column in table.columns[2:5]:
        column.min_width = 8
    seen = {progress.phase.name: progress for progress in (*done, now)}
    for phase in DEMO:
        table.add_row(*_phase_row(phase, seen.get(phase.name), phase == now.phase))
    return table


def _phase_row(
    phase: DemoPhase, progress: PhaseProgress | None, current: bool
) -> tuple[RenderableType, ...]:
    if progress is None:
        return Text(" "), Text(phase.title, "dim"), "", "", "", ""
    found = find_percentiles(progress.answers)
    numbers = ("", "", "")
    if found is not None:
        numbers = (
            format_milliseconds(found.p50),
            format_milliseconds(found.p90),
            format_milliseconds(found.p99),
        )
    style = "bold" if current else ""
    mark = Text("▶" if current else "✓", "cyan" if current else "green")
    when = f"{progress.at:.0f} of {progress.seconds:g} {progress.unit}{_which_slice(progress)}"
    return mark, Text(phase.title, style), *numbers, when if current else ""


def _cpu_bars(use: CpuUse) -> list[Text]:
    """One bar for each, as long as its share of the machine."""
    values = {"batch": use.hog, "service": use.service, "other": use.other, "idle": use.idle}
    cpus = max(sum(values.values()), 0.01)
    lines = []
    for name, value in values.items():
        bar = stacked_bar([(value, FULL, _COLOURS[name])], cpus, _BAR, rest=" ")
        label = Text(f"{name:8}", "bold")
        lines.append(label.append_text(bar).append(f" {value:.2f} CPUs", "not bold"))
    return lines


def _held_back_line(sample: PhaseSample) -> Text:
    said = "none" if sample.quota is None else f"{sample.quota:.2f} CPUs"
    line = Text().append("quota   ", "bold")
    line.append(said, "red" if sample.quota is not None else "dim")
    return line.append(", at the lowest weight", "red") if sample.demoted else line


def _entry_line(line: AgentEntry) -> Text:
    text = Text(f"{line.at:5.1f} s ", "dim", no_wrap=True, overflow="ellipsis")
    if line.after:
        text.append(f"{line.what.partition(' ')[0]} {line.before} → {line.after} ", "bold")
    return text.append(line.because.partition(": ")[2] or line.because)
