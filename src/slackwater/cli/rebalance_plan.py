"""`slackwater rebalance plan`: what `run` would do, as text or data, and an exit code."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

import click
import msgspec
from rich.table import Table
from rich.text import Text

from slackwater.cli.cluster_options import find_cluster_access
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.cli.rebalance_options import rotation_options
from slackwater.cli.rebalance_settings import resolved
from slackwater.cli.terminal import TableColumn, aligned_lines, print_blocks, text_width
from slackwater.model.units import Micros, format_duration
from slackwater.rebalancer.merge_usage import WHOLE
from slackwater.rebalancer.plan_view import PlanView, PodView, as_data, view_of
from slackwater.rebalancer.program import plan as assess_workloads

#: In columns: pods, groups and usages side by side need as many.
_NARROWEST = 40
UNKNOWN = "-"
_FULL, _TARGET, _THRESHOLD = "█", "┊", "┃"
#: Of a guard that passed, one that forbids, and one that is undetermined.
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
_STYLES = {"top": "red", "bottom": "cyan", "rest": ""}
_WIDEST_BAR, _NARROWEST_BAR = 32, 10
#: A shorter part of a pod's name says nothing.
_NARROWEST_NAME = 12
#: Columns of a name: if there is less room, there is no bar.
_NAME_BESIDE_A_BAR = 20
#: Columns that are left out on a narrow screen, in this order.
_GIVES_WAY = ("of request", "of target")
#: With more workloads, those that are not rotated get one line each.
_FEW = 5
_MICROS = 1_000_000


@click.command()
@click.argument("workloads", metavar="[WORKLOAD]...", nargs=-1)
@output_options
@rotation_options
def plan(
    workloads: tuple[str, ...],
    output: Output,
    no_color: bool,
    file: str,
    kubeconfig: str,
    context: str,
    **said: str | bool | None,
) -> None:
    """Which pods `run` would rotate now, and why, or why none. Changes nothing.

    WORKLOAD is a name, or a kind and a name such as statefulset/db. Without one it is
    DEPLOYMENT_NAME, or all workloads of --file.

    \b
    Examples:
      slackwater rebalance plan web -n prod
      slackwater rebalance plan web -n prod --tolerance 1.2 --minimum-improvement 5
      slackwater rebalance plan --file workloads.yaml -o wide
      slackwater rebalance plan web -n prod -o json | jq .evict

    \b
    Exit codes: 0 it can be judged, whatever is decided; 1 something has to be mended first, such
    as a missing HPA or a Prometheus that does not answer; 2 wrong usage or settings.
    """
    settings = resolved(workloads, file, said, os.environ)
    found = assess_workloads(find_cluster_access(kubeconfig, context), settings)
    for about, sentence in found.remarks:
        click.echo(f"{about}: {sentence}", err=True)
    views = [view_of(each) for each in found.assessments()]
    if output in (Output.JSON, Output.YAML):
        print_data(as_data(views), output)
    else:
        shown = blocks(views, text_width(_NARROWEST), wide=output is Output.WIDE)
        print_blocks(shown, wants_colour(no_color), _NARROWEST)
    sys.exit(1 if any(each.problem for each in views) else 0)


class BarScale(msgspec.Struct, frozen=True):
    """What the bars are measured against, in cores, and where their marks are."""

    most: float
    target: float | None
    threshold: float | None
    width: int

    def place(self, cores: float) -> int:
        return min(round(cores / self.most * self.width), self.width)


def blocks(views: Sequence[PlanView], width: int, wide: bool) -> Iterator[Text | Table]:
    """All workloads; those to be rotated come last, where they are seen first."""
    few = wide or len(views) <= _FEW
    in_full = [each for each in views if few or each.decision == "rotate"]
    for each in () if few else views:
        if each.decision != "rotate":
            yield _headline(each)
            yield Text(f"  {each.because}", "dim")
    for place, each in enumerate(in_full):
        if place or not few:
            yield Text("")
        yield from _whole(each, width, wide)


def _whole(view: PlanView, width: int, wide: bool) -> Iterator[Text | Table]:
    yield _headline(view)
    if target := _target_line(view):
        yield target
    if counted := _counted_line(view):
        yield counted
    if view.pods:
        yield Text("")
        yield from _pods(view, width, wide)
    yield Text("")
    yield from _decision(view)
    if view.guards:
        yield Text("")
        yield _guards(view)
    yield Text("")
    yield from _next(view)


def _headline(view: PlanView) -> Text:
    name = f"{view.workload_kind} {view.namespace}/{view.workload}"
    line = Text.assemble((name, "bold"), ": ")
    if view.decision == "rotate":
        return line.append(f"rotate {len(view.evict)} of {len(view.pods)} pods", "bold yellow")
    return line.append(f"skip, {view.reason}", "bold red" if view.problem else "bold green")


def _target_line(view: PlanView) -> Text | None:
    """The HPA's target, what it refers to, and the threshold for hot pods."""
    if view.hpa is None:
        return None
    of = f"{view.hpa.target:g} % of the request"
    if view.target is None or view.threshold is None:
        stated = of if view.hpa.unit == "percent" else f"{cores(view.hpa.target)} cores"
        return Text(f"HPA {view.hpa.name} wants {stated} for each pod")
    if view.hpa.unit == "percent":
        of += "" if view.request is None else f" ({cores(view.request)} on average)"
        wanted = f"{of} = {cores(view.target)} cores for each pod"
    else:
        wanted = f"{cores(view.target)} cores for each pod"
    return Text(f"HPA {view.hpa.name} wants {wanted}; hot is above {cores(view.threshold)}")


def _counted_line(view: PlanView) -> Text | None:
    """Which container's usage is shown, and what that leaves out."""
    if view.container is None or not view.pods:
        return None
    if view.container == WHOLE:
        return Text("Usage is that of all containers of a pod")
    line = Text(f"Usage is that of the container {view.container}")
    if view.left_out:
        others = ", ".join(
            f"{each.name} (up to {cores(each.highest_usage)})" for each in view.left_out
        )
        line.append(f"; not counted: {others}")
    return line


def cores(amount: float | None) -> str:
    """Like 1.20; three digits for small amounts."""
    if amount is None:
        return UNKNOWN
    return f"{amount:.2f}" if amount >= 0.1 or amount == 0 else f"{amount:.3f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1f} %"


def _pods(view: PlanView, width: int, wide: bool) -> Iterator[Text]:
    columns = [TableColumn("pod"), TableColumn("group"), TableColumn("usage", right=True)]
    columns += [TableColumn("of request", right=True), TableColumn("of target", right=True)]
    if wide:
        columns += [TableColumn("request", right=True), TableColumn("limit", right=True)]
        columns += [TableColumn("age", right=True), TableColumn("node")]
    rows = [_cells(pod, wide) for pod in view.pods]
    if not wide:
        _give_way(columns, rows, width)
    room = width - _width(columns[1:], [row[1:] for row in rows])
    scale = _scale(view, room - 2, max(len(columns[0].name), *(len(pod.name) for pod in view.pods)))
    shortest = max(room - scale.width - 2 if scale else room, _NARROWEST_NAME)
    for pod, row in zip(view.pods, rows, strict=True):
        row[0] = Text(_shortened(pod.name, shortest), _STYLES.get(pod.group, "dim"))
        row += [_bar(pod, scale)] if scale else []
    columns += [TableColumn("")] if scale else []
    yield from aligned_lines(columns, rows, width, _NARROWEST_NAME)
    if scale and view.target is not None and view.threshold is not None:
        yield _legend(view.target, view.threshold)
    yield from (Text(f"  {pod.name}: {pod.because}", "dim") for pod in view.pods if pod.because)


def _cells(pod: PodView, wide: bool) -> list[Text]:
    group = "" if pod.group == "rest" else pod.group.replace("_", " ")
    style = _STYLES.get(pod.group, "dim")
    cells = [Text(pod.name), Text(group, style), Text(cores(pod.usage), style)]
    cells += [Text(_percent(pod.percent_of_request)), Text(_percent(pod.percent_of_target))]
    if wide:
        cells += [Text(cores(pod.request)), Text(cores(pod.limit))]
        cells += [Text(format_duration(Micros(pod.age * _MICROS))), Text(pod.node or UNKNOWN)]
    return cells


def _give_way(columns: list[TableColumn], rows: list[list[Text]], width: int) -> None:
    """Removes columns until there is room for a name beside the others."""
    names = max(len(columns[0].name), *(row[0].cell_len for row in rows))
    shortest = min(names, _NARROWEST_NAME)
    for name in _GIVES_WAY:
        if _width(columns[1:], [row[1:] for row in rows]) + shortest <= width:
            return
        place = [column.name for column in columns].index(name)
        del columns[place]
        for row in rows:
            del row[place]


def _width(columns: Sequence[TableColumn], rows: Iterable[Sequence[Text]]) -> int:
    """Of these columns and the gaps before them."""
    cells = zip(*rows, strict=True)
    return sum(
        max(len(column.name), *(cell.cell_len for cell in each)) + 2
        for column, each in zip(columns, cells, strict=True)
    )


def _scale(view: PlanView, room: int, names: int) -> BarScale | None:
    """`room`: for names and bars; `names`: length of the longest. None if a bar does not fit."""
    if room - min(names, _NAME_BESIDE_A_BAR) < _NARROWEST_BAR:
        return None
    usages = [pod.usage for pod in view.pods if pod.usage is not None]
    most = max([*usages, view.threshold or 0.0, view.target or 0.0])
    width = min(max(room - names, _NARROWEST_BAR), _WIDEST_BAR)
    return BarScale(most or 1.0, view.target, view.threshold, width)


def _bar(pod: PodView, scale: BarScale) -> Text:
    """The usage, with marks for target and threshold."""
    filled = scale.place(pod.usage or 0.0)
    cells = [_FULL] * filled + [" "] * (scale.width - filled)
    for at, mark in ((scale.target, _TARGET), (scale.threshold, _THRESHOLD)):
        if at is not None:
            cells[max(scale.place(at) - 1, 0)] = mark
    bar = Text("".join(cells).rstrip(), _STYLES.get(pod.group, "dim") or "green")
    bar.highlight_words([_TARGET, _THRESHOLD], "bold yellow")
    return bar


def _legend(target: float, threshold: float) -> Text:
    text = f"  {_TARGET} target {cores(target)}   {_THRESHOLD} threshold {cores(threshold)}   cores"
    return Text(text, "dim")


def _shortened(name: str, width: int) -> str:
    """Cut in the middle: the end tells pods apart."""
    if len(name) <= width:
        return name
    end = min(max(width // 2, 6), width - 1)
    return f"{name[: width - end - 1]}…{name[-end:]}"


def _decision(view: PlanView) -> Iterator[Text]:
    yield Text(view.because)
    if view.average is None or view.predicted_average is None or view.improvement is None:
        return
    yield Text(
        f"With a rotation: the hot pods' average {cores(view.average)} -> "
        f"{cores(view.predicted_average)} cores ({view.improvement:.1f} % less)"
    )


def _guards(view: PlanView) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in view.guards:
        mark, style = _MARKS[each.passed]
        because = Text(each.because, "dim" if each.passed else "")
        table.add_row(Text(mark, style), Text(each.guard.replace("_", " ")), because)
    return table


def _next(view: PlanView) -> Iterator[Text]:
    if not view.batches:
        yield Text("run would change nothing", "dim")
        return
    yield Text("run would rotate, each batch once the one before is replaced and Ready:")
    for place, batch in enumerate(view.batches, start=1):
        yield Text(f"  {place}. {', '.join(batch)}")
