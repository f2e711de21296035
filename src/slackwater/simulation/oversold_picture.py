"""A node with and without overselling as one picture: who used its CPUs, what was offered and
bought, and how many jobs waited.
"""

from slackwater.drawing.legend import area_key, line_key
from slackwater.drawing.page import LEFT, WIDTH, page, text
from slackwater.drawing.plot import Frame, area, cpu_ticks, grid, steps, time_axis
from slackwater.simulation.meter import Interval, UsageMeter
from slackwater.simulation.oversold_comparison import ComparedRun, OversoldComparison
from slackwater.simulation.scenario_picture import draw_usage, interval_edges
from slackwater.simulation.scenario_report import format_clock

_TITLE = "A node with and without overselling"
_RIGHT = 236
_TOP, _HEIGHT, _GAP = 152, 200, 86
_SOLD_HEIGHT, _WAITING_HEIGHT = 130, 90
#: Head room above the highest line.
_ROOM = 1.1


def draw_comparison(found: OversoldComparison, without: UsageMeter, oversold: UsageMeter) -> str:
    """The whole SVG document; the meters are of the two runs."""
    before = [each for each in without.intervals if each.length]
    after = [each for each in oversold.intervals if each.length]
    seconds, cpus = found.scenario.seconds, float(found.scenario.cpus)
    width, tops = WIDTH - LEFT - _RIGHT, [_TOP]
    for height in (_HEIGHT, _HEIGHT, _SOLD_HEIGHT):
        tops.append(tops[-1] + height + _GAP)
    first = Frame(LEFT, tops[0], width, _HEIGHT, seconds, cpus)
    second = Frame(LEFT, tops[1], width, _HEIGHT, seconds, cpus)
    sold = Frame(LEFT, tops[2], width, _SOLD_HEIGHT, seconds, _most_sold(after))
    most = max((each.waiting / each.length for each in (*before, *after)), default=0)
    waiting = Frame(LEFT, tops[3], width, _WAITING_HEIGHT, seconds, _ROOM * max(most, 1))
    parts = [
        *_draw_head(found),
        *draw_usage(first, before, "Without overselling: CPUs in use"),
        *_draw_result(first, found.without),
        *draw_usage(second, after, "With overselling: CPUs in use"),
        *_draw_result(second, found.oversold),
        *_draw_sold(sold, after, found.oversold, seconds),
        *_draw_waiting(waiting, before, after),
    ]
    return page(f"{_TITLE}: {found.scenario.name}", tops[3] + _WAITING_HEIGHT + 44, parts)


def _draw_head(found: OversoldComparison) -> list[str]:
    about = found.scenario
    size = f"{about.cpus} CPUs, cgroup {about.cgroup}, {format_clock(about.seconds)} simulated"
    return [
        text(LEFT, 38, f"{_TITLE}: {about.name}", "title"),
        text(WIDTH - 24, 38, size, "faint end"),
        *(text(LEFT, 66 + 21 * n, told) for n, told in enumerate(found.sentences())),
    ]


def _draw_result(frame: Frame, run: ComparedRun) -> list[str]:
    left, bottom = frame.left + frame.width + 20, frame.top + frame.height
    kind = "good" if run.jobs.finished == run.jobs.total else "fair" if run.jobs.finished else "bad"
    return [
        text(left, bottom - 48, f"{100 * run.busy:.0f} % in use"),
        text(left, bottom - 20, f"{run.jobs.finished} of {run.jobs.total}", f"big {kind}"),
        text(left, bottom, "jobs finished", "faint"),
    ]


def _draw_sold(
    frame: Frame, intervals: list[Interval], run: ComparedRun, seconds: float
) -> list[str]:
    edges = interval_edges(intervals)
    offered: list[float | None] = [each.offered / each.length / 1000 for each in intervals]
    bought = [each.bought / each.length / 1000 for each in intervals]
    left, top = frame.left + frame.width + 20, frame.top + 12
    return [
        text(frame.left, frame.top - 28, "gocrane.io/cpu: offered, and bought by jobs", "head"),
        *grid(frame, cpu_ticks(frame, 4)),
        area(frame, edges, [0.0] * len(bought), bought, "besteffort"),
        steps(frame, edges, offered, "after"),
        *time_axis(frame),
        *line_key(left, top, "after", "offered", ""),
        text(left + 26, top + 16, f"{run.offered / seconds:.2f} CPUs on average", "faint"),
        *area_key(left, top + 40, "besteffort", "bought", ""),
        text(left + 26, top + 56, f"{run.bought / seconds:.2f} CPUs on average", "faint"),
    ]


def _draw_waiting(frame: Frame, before: list[Interval], after: list[Interval]) -> list[str]:
    left, top = frame.left + frame.width + 20, frame.top + 12
    return [
        text(frame.left, frame.top - 28, "Jobs that wait", "head"),
        *grid(frame, cpu_ticks(frame, 3)),
        steps(frame, interval_edges(before), _mean_waiting(before), "before"),
        steps(frame, interval_edges(after), _mean_waiting(after), "after"),
        *time_axis(frame),
        *line_key(left, top, "before", "without overselling", ""),
        *line_key(left, top + 24, "after", "with it", ""),
    ]


def _mean_waiting(intervals: list[Interval]) -> list[float | None]:
    return [each.waiting / each.length for each in intervals]


def _most_sold(intervals: list[Interval]) -> float:
    most = max((max(each.offered, each.bought) / each.length for each in intervals), default=0)
    return _ROOM * max(most / 1000, 1)
