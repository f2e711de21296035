"""A simulation as one picture: who used the node, where the quota stood, what happened when."""

import msgspec

from slackwater.drawing.legend import area_key, line_key
from slackwater.drawing.page import LEFT, WIDTH, page, text
from slackwater.drawing.plot import Frame, area, badge, cpu_ticks, grid, marks, steps, time_axis
from slackwater.simulation.meter import Interval, UsageMeter
from slackwater.simulation.scenario_report import ScenarioReport, format_clock
from slackwater.simulation.timeline import SCENARIO, TimelineRow

_RIGHT = 236
_MAIN_TOP, _MAIN_HEIGHT = 124, 290
_SHARE_HEIGHT, _LOST_HEIGHT, _GAP = 130, 60, 66
_MOST_MARKS = 16
#: From the bottom up; the names are also the CSS classes.
_LAYERS = ("system", "guaranteed", "burstable", "besteffort")
_NAMES = {
    "system": "system",
    "guaranteed": "guaranteed pods",
    "burstable": "burstable pods",
    "besteffort": "best-effort pods",
}


class Mark(msgspec.Struct, frozen=True):
    """One thing that the scenario did, once or several times in a row, or a rule that triggered."""

    at: float
    what: str
    times: int = 1


def draw_scenario(report: ScenarioReport, meter: UsageMeter, rows: list[TimelineRow]) -> str:
    """The whole SVG document."""
    intervals = [s for s in meter.intervals if s.length]
    end = report.scenario.seconds
    happened = _find_marks(rows)
    has_lost = any(s.lost for s in intervals)
    share_top = _MAIN_TOP + _MAIN_HEIGHT + _GAP
    lost_top = share_top + _SHARE_HEIGHT + _GAP
    list_top = lost_top + (_LOST_HEIGHT + _GAP if has_lost else 0) - 22
    height = list_top + 20 * len(happened) + 20
    width = WIDTH - LEFT - _RIGHT
    main = Frame(LEFT, _MAIN_TOP, width, _MAIN_HEIGHT, end, float(report.scenario.cpus))
    share = Frame(LEFT, share_top, width, _SHARE_HEIGHT, end, _best_effort_limit(intervals))
    parts = [
        *_draw_head(report),
        *draw_usage(main, intervals, "CPUs in use"),
        *_draw_best_effort(share, intervals),
    ]
    frames = [main, share]
    if has_lost:
        lost = Frame(LEFT, lost_top, width, _LOST_HEIGHT, end, _loss_limit(intervals))
        frames.append(lost)
        parts += _draw_loss(lost, intervals, report)
    parts += marks([each.at for each in happened], frames)
    parts += _draw_mark_list(happened, list_top)
    return page(f"Simulation of {report.scenario.name}", height, parts)


def _draw_head(report: ScenarioReport) -> list[str]:
    about, best = report.scenario, report.best_effort
    got = (
        f"{100 * best.part:.0f} % of what it could have had" if best.part is not None else "nothing"
    )
    online = sum(tier.wanted for tier in report.tiers if tier.tier != "besteffort")
    lost = sum(tier.lost for tier in report.tiers if tier.tier != "besteffort")
    share = f"{100 * lost / online:.2f} %" if online else "0 %"
    told = f"Best effort got {got}. Guaranteed and burstable pods lost {share} of what they wanted."
    size = f"{about.cpus} CPUs, cgroup {about.cgroup}, {format_clock(about.seconds)} simulated"
    return [
        text(LEFT, 38, about.name, "title"),
        text(LEFT, 62, told),
        text(WIDTH - 24, 38, size, "faint end"),
    ]


def draw_usage(frame: Frame, intervals: list[Interval], title: str) -> list[str]:
    """Who used the node, one on top of the other, under what is allowed."""
    parts = [
        text(frame.left, frame.top - 28, title, "head"),
        *grid(frame, cpu_ticks(frame)),
    ]
    times = interval_edges(intervals)
    floor = [0.0] * len(intervals)
    levels: dict[str, float] = {}
    for name in _LAYERS:
        top = [
            low + s.used.get(name, 0) / s.length for low, s in zip(floor, intervals, strict=True)
        ]
        levels[name] = sum(s.used.get(name, 0) for s in intervals) / sum(
            s.length for s in intervals
        )
        if levels[name]:
            parts.append(area(frame, times, floor, top, name))
        floor = top
    allowed = [None if s.allowed is None else s.allowed / 1000 for s in intervals]
    parts.append(steps(frame, times, allowed, "allowed"))
    parts += time_axis(frame)
    return parts + _draw_legend(frame, levels, allowed)


def _draw_legend(frame: Frame, levels: dict[str, float], allowed: list[float | None]) -> list[str]:
    left, top = frame.left + frame.width + 20, frame.top + 12
    parts = []
    if any(value is not None for value in allowed):
        parts += line_key(left, top, "allowed", "allowed for all together", "")
        top += 24
    for name in reversed(_LAYERS):
        if levels[name]:
            parts += area_key(left, top, name, _NAMES[name], "")
            parts.append(text(left + 26, top + 16, f"{levels[name]:.2f} CPUs on average", "faint"))
            top += 40
    return parts


def _draw_best_effort(frame: Frame, intervals: list[Interval]) -> list[str]:
    times = interval_edges(intervals)
    used = [s.used.get("besteffort", 0) / s.length for s in intervals]
    quota = [_mean_quota(interval) for interval in intervals]
    left, top = frame.left + frame.width + 20, frame.top + 12
    return [
        text(frame.left, frame.top - 12, "Best effort: its quota, and its use of it", "head"),
        *grid(frame, cpu_ticks(frame, 3)),
        area(frame, times, [0.0] * len(used), used, "besteffort"),
        steps(frame, times, quota, "quota"),
        *time_axis(frame),
        *line_key(left, top, "quota", "its quota" if any(quota) else "no quota", ""),
    ]


def _draw_loss(frame: Frame, intervals: list[Interval], report: ScenarioReport) -> list[str]:
    lost = [s.lost / s.length for s in intervals]
    left, top = frame.left + frame.width + 20, frame.top + 12
    title = "CPUs that guaranteed and burstable pods wanted and did not get"
    return [
        text(frame.left, frame.top - 12, title, "head"),
        *grid(frame, cpu_ticks(frame, 1)),
        area(frame, interval_edges(intervals), [0.0] * len(lost), lost, "lost"),
        *time_axis(frame),
        text(left, top, f"{report.online.mean_lost_milli:g}m on average", "faint"),
        text(left, top + 18, f"{report.online.p99_lost_milli}m in the worst 1 %", "faint"),
    ]


def interval_edges(intervals: list[Interval]) -> list[float]:
    """Where each begins, and where the last one ends, in seconds."""
    edges = [0.0]
    for interval in intervals:
        edges.append(edges[-1] + interval.length / 1e6)
    return edges


def _mean_quota(interval: Interval) -> float | None:
    """In CPUs, on average over the time with one."""
    return interval.quota / interval.limited / 1000 if interval.limited else None


def _best_effort_limit(intervals: list[Interval]) -> float:
    used = max((s.used.get("besteffort", 0) / s.length for s in intervals), default=0)
    return 1.1 * max(used, *(_mean_quota(s) or 0 for s in intervals), 0.1)


def _loss_limit(intervals: list[Interval]) -> float:
    return 1.1 * max(*(s.lost / s.length for s in intervals), 0.01)


def _find_marks(rows: list[TimelineRow]) -> list[Mark]:
    """What the scenario did, what it did again soon after being one mark; and rules."""
    marked = []
    for row in rows:
        if row.is_trigger():
            marked.append(Mark(row.at, row.because, row.times))
        elif row.by == SCENARIO:
            marked.append(Mark(row.at, f"{row.what}: {row.because}", row.times))
    return marked[:_MOST_MARKS]


def _draw_mark_list(happened: list[Mark], top: int) -> list[str]:
    parts = []
    for number, each in enumerate(happened, 1):
        y = top + 20 * number
        times = f" ({each.times} times)" if each.times > 1 else ""
        parts += badge(LEFT + 8, y - 4, number)
        parts.append(text(LEFT + 24, y, f"{format_clock(each.at)}  {each.what}{times}"))
    return parts
