"""A rebalancer's plan for people: who is hot, by how much, what would be done, and who said no."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from slackwater.cli.columns import Column, lined_up
from slackwater.cli.rebalance_view import PlanView, PodView
from slackwater.model.units import Micros
from slackwater.settings.duration import format_duration

UNKNOWN = "-"
_FULL, _TARGET, _THRESHOLD = "█", "┊", "┃"
_STYLES = {"top": "red", "bottom": "cyan", "rest": ""}
_WIDEST_BAR, _NARROWEST_BAR = 32, 10
#: Below this a pod's name says nothing any more.
_NARROWEST_NAME = 12
#: More workloads than this, and those that stay as they are get one line each.
_FEW = 5
_MICROS = 1_000_000


class Scale(msgspec.Struct, frozen=True):
    """What the bars are measured against, in cores, and where their marks are."""

    most: float
    target: float | None
    threshold: float | None
    width: int

    def place(self, cores: float) -> int:
        return min(round(cores / self.most * self.width), self.width)


def blocks(views: Sequence[PlanView], width: int, wide: bool) -> Iterator[Text | Table]:
    """All workloads; those to be rotated come last, where the eye is."""
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
    if aim := _aim(view):
        yield aim
    if view.pods:
        yield Text("")
        yield from _pods(view, width, wide)
    yield Text("")
    yield _decision(view)
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


def _aim(view: PlanView) -> Text | None:
    """The HPA's target, what it is of, and from where on a pod is hot."""
    if view.hpa is None or view.target is None or view.threshold is None:
        return None
    if view.hpa.unit == "percent":
        of = f"{view.hpa.target:g} % of the request"
        of += "" if view.request is None else f" ({cores(view.request)} on average)"
        said = f"{of} = {cores(view.target)} cores for each pod"
    else:
        said = f"{cores(view.target)} cores for each pod"
    return Text(f"HPA {view.hpa.name} wants {said}; hot is above {cores(view.threshold)}")


def cores(amount: float | None) -> str:
    """1.20, and more digits where these would hide what there is."""
    if amount is None:
        return UNKNOWN
    return f"{amount:.2f}" if amount >= 0.1 or amount == 0 else f"{amount:.3f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1f} %"


def _pods(view: PlanView, width: int, wide: bool) -> Iterator[Text]:
    columns = [Column("pod"), Column("group"), Column("usage", right=True)]
    columns += [Column("of request", right=True), Column("of target", right=True)]
    if wide:
        columns += [Column("request", right=True), Column("limit", right=True)]
        columns += [Column("age", right=True), Column("node")]
    names = max(len(pod.name) for pod in view.pods)
    rows = [_cells(pod, wide) for pod in view.pods]
    rest = _width(columns[1:], [row[1:] for row in rows])
    scale = _scale(view, width - rest - names - 2)
    shortest = max(width - rest - scale.width - 2, _NARROWEST_NAME)
    for pod, row in zip(view.pods, rows, strict=True):
        row[0] = Text(_shortened(pod.name, shortest), _STYLES.get(pod.group, "dim"))
        row.append(_bar(pod, scale))
    yield from lined_up([*columns, Column("")], rows, width, _NARROWEST_NAME)
    if view.target is not None and view.threshold is not None:
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


def _width(columns: Sequence[Column], rows: Iterable[Sequence[Text]]) -> int:
    """Of these columns with the gaps before them."""
    cells = zip(*rows, strict=True)
    return sum(
        max(len(column.name), *(cell.cell_len for cell in each)) + 2
        for column, each in zip(columns, cells, strict=True)
    )


def _scale(view: PlanView, room: int) -> Scale:
    usages = [pod.usage for pod in view.pods if pod.usage is not None]
    most = max([*usages, view.threshold or 0.0, view.target or 0.0])
    width = min(max(room, _NARROWEST_BAR), _WIDEST_BAR)
    return Scale(most or 1.0, view.target, view.threshold, width)


def _bar(pod: PodView, scale: Scale) -> Text:
    """What it uses, with the marks of target and threshold across."""
    filled = scale.place(pod.usage or 0.0)
    cells = [_FULL] * filled + [" "] * (scale.width - filled)
    for at, mark in ((scale.target, _TARGET), (scale.threshold, _THRESHOLD)):
        if at is not None:
            cells[max(scale.place(at) - 1, 0)] = mark
    bar = Text("".join(cells).rstrip(), _STYLES.get(pod.group, "dim") or "green")
    bar.highlight_words([_TARGET, _THRESHOLD], "bold yellow")
    return bar


def _legend(target: float, threshold: float) -> Text:
    said = f"  {_TARGET} target {cores(target)}   {_THRESHOLD} threshold {cores(threshold)}   cores"
    return Text(said, "dim")


def _shortened(name: str, width: int) -> str:
    """Its end tells pods apart, so the middle goes."""
    if len(name) <= width:
        return name
    end = min(max(width // 2, 6), width - 1)
    return f"{name[: width - end - 1]}…{name[-end:]}"


def _decision(view: PlanView) -> Text:
    line = Text(view.because)
    if view.average is None or view.predicted_average is None or view.improvement is None:
        return line
    return line.append(
        f": the hot pods' average {cores(view.average)} -> {cores(view.predicted_average)} cores "
        f"({view.improvement:.1f} % less)"
    )


def _guards(view: PlanView) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in view.guards:
        mark = Text("✓", "green") if each.passed else Text("✗", "red")
        style = "dim" if each.passed else ""
        table.add_row(mark, Text(each.guard.replace("_", " ")), Text(each.because, style))
    return table


def _next(view: PlanView) -> Iterator[Text]:
    if not view.batches:
        yield Text("run would change nothing", "dim")
        return
    yield Text("run would rotate, each batch once the one before is replaced and Ready:")
    for place, batch in enumerate(view.batches, start=1):
        yield Text(f"  {place}. {', '.join(batch)}")
