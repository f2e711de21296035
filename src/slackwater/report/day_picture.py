"""The cluster's CPU by day as a picture: used on average, idle, and what could be sold of it."""

from slackwater.drawing.legend import area_key, line_key
from slackwater.drawing.page import LEFT, WIDTH, page, text
from slackwater.drawing.plot import Frame, area, cpu_ticks, grid, steps
from slackwater.report.cluster_report import ClusterReport

_TITLE = "CPUs by day: used on average, idle, and what could be sold"
_TOP, _TALL, _DAY = 92, 240, 86_400.0
_MOST_LABELS = 16


def draw_days(report: ClusterReport) -> str:
    """The whole SVG document; empty for a report without nodes."""
    used: dict[str, float] = {}
    there: dict[str, float] = {}
    for node in report.nodes:
        for each in node.days:
            used[each.day] = used.get(each.day, 0.0) + each.used
            there[each.day] = there.get(each.day, 0.0) + node.allocatable
    days = sorted(used)
    if not days:
        return ""
    most = 1.05 * max(*there.values(), *used.values()) or 1.0
    frame = Frame(LEFT, _TOP, WIDTH - LEFT - 40, _TALL, len(days) * _DAY, most)
    edges = [place * _DAY for place in range(len(days) + 1)]
    low, high = [used[day] for day in days], [there[day] for day in days]
    parts = [
        text(LEFT, 40, _TITLE, "title"),
        *area_key(LEFT, 70, "service", "used"),
        *area_key(LEFT + 110, 70, "fewer", "idle"),
        *grid(frame, cpu_ticks(frame)),
        area(frame, edges, [0.0] * len(days), low, "service"),
        area(frame, edges, low, high, "fewer"),
    ]
    if report.savings:
        level = [above - report.savings.cores for above in high]
        parts += line_key(
            LEFT + 220, 70, "allowed", "above this line it could be sold to batch work"
        )
        parts.append(steps(frame, edges, [max(each, 0.0) for each in level], "allowed"))
    every = -(-len(days) // _MOST_LABELS)
    for place in range(0, len(days), every):
        x = frame.x((place + 0.5) * _DAY)
        parts.append(text(x, _TOP + _TALL + 20, days[place][5:], "faint middle"))
    return page(_TITLE, _TOP + _TALL + 40, parts)
