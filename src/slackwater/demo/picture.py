"""The demo as one picture: a column for each phase, and what the agent said below.

Owns the page, as SVG text that needs nothing but itself. Colours are written out, not variables
of a style sheet, so that simple renderers show them too.
"""

from xml.sax.saxutils import escape

from slackwater.demo.drawing import (
    LEFT,
    WIDTH,
    cpu_panel,
    frames,
    latency_panel,
    lost_panel,
    scale_of,
)
from slackwater.demo.measured import Line
from slackwater.demo.plan import ALONE
from slackwater.demo.report import PhaseReport, Report, milliseconds
from slackwater.simulation.svg import Frame, line, text

_HEAD_TOP, _LATENCY_TOP, _LATENCY_HEIGHT = 148, 258, 150
_CPU_TOP, _CPU_HEIGHT = 468, 170
_SAID_TOP = 718
_LINE_HEIGHT = 20
_MOST_LINES = 5
#: Letters in one line of text across the page, at its size.
_LETTERS = 160
_MOST_TEXT = 4
_STYLE = """
text { font-family: "DejaVu Sans", "Liberation Sans", "Noto Sans", Arial, sans-serif;
  fill: #1f2933; font-size: 13px; }
.title { font-size: 22px; font-weight: bold; } .head { font-weight: bold; font-size: 14px; }
.sub { font-weight: bold; font-size: 12.5px; }
.faint { fill: #5f6b7a; font-size: 12px; } .end { text-anchor: end; } .big { font-size: 26px;
  font-weight: bold; } .good { fill: #1a7f4b; } .fair { fill: #b26a00; } .bad { fill: #b3261e; }
.ground { fill: #ffffff; } .panel { fill: #f4f6f9; } .rule { stroke: #dde2e9; stroke-width: 1; }
.service { fill: #2f6db5; } .hog { fill: #f2b04a; } .other { fill: #9aa4b0; }
.idle { fill: #f4f6f9; stroke: #c3cad3; } .lost { fill: #b3261e; }
.quota { fill: none; stroke: #b3261e; stroke-width: 2; }
.p50 { fill: none; stroke: #2f6db5; stroke-width: 2; stroke-linejoin: round; }
.p90 { fill: none; stroke: #7a2f8f; stroke-width: 2.5; stroke-linejoin: round; }
.part { stroke: #5f6b7a; stroke-width: 1; stroke-dasharray: 3 4; }
"""
#: p90 against the service alone: up to here it is good, up to there fair.
_GOOD, _FAIR = 1.25, 2.0


def picture(report: Report) -> str:
    """The whole SVG document."""
    said = _said(report)
    height = _SAID_TOP + _LINE_HEIGHT * (len(said) + 1) + 32
    real = report.machine.simulated_because is None
    title = "Batch work in the slack of a latency-sensitive service"
    if not real:
        title += " (simulated kernel)"
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="10"/>',
        text(LEFT, 40, title, "title"),
        *_sentences(report),
        *(_latencies(report) if real else _losses(report)),
        *_cpus(report),
        *_lines(said, len(_moves(report))),
        text(LEFT, height - 16, _footer(report), "faint"),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _sentences(report: Report) -> list[str]:
    """Below the title, folded to the page; whether they can be trusted last, in red."""
    folded = [part for sentence in report.meaning for part in _fold(sentence, _LETTERS)]
    parts = [text(LEFT, 64 + 18 * number, part) for number, part in enumerate(folded[:_MOST_TEXT])]
    if report.warning:
        parts.append(text(LEFT, 64 + 18 * len(parts), report.warning, "bad"))
    return parts


def _fold(sentence: str, letters: int) -> list[str]:
    found = [""]
    for word in sentence.split():
        if found[-1] and len(found[-1]) + 1 + len(word) > letters:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    return found


def _heads(report: Report, number: int, left: int, big: str, kind: str, small: str) -> list[str]:
    phase = report.phases[number]
    return [
        text(left, _HEAD_TOP + 10, phase.title, "head"),
        text(left, _HEAD_TOP + 27, phase.hint, "faint"),
        text(left, _HEAD_TOP + 60, big, f"big {kind}"),
        text(left, _HEAD_TOP + 80, small, "faint"),
    ]


def _latencies(report: Report) -> list[str]:
    scale = scale_of(report.phases)
    places = frames(_LATENCY_TOP, _LATENCY_HEIGHT, report.phases, 1.0)
    alone = next((p.latency for p in report.phases if p.name == ALONE.name), None)
    parts = []
    for number, (phase, frame) in enumerate(zip(report.phases, places, strict=True)):
        big, kind, small = "no answers", "bad", ""
        if phase.latency is not None:
            found = phase.latency
            ratio = found.p90 / alone.p90 if alone is not None and alone.p90 else 1.0
            kind = "good" if ratio <= _GOOD else "fair" if ratio <= _FAIR else "bad"
            kind = "" if report.warning else kind  # nothing follows from such numbers
            big = f"p90 {milliseconds(found.p90)}"
            small = f"p50 {milliseconds(found.p50)}, p99 {milliseconds(found.p99)}"
            if phase.name != ALONE.name and not report.warning:
                small += f"; p90 {ratio:.1f}× alone"
        parts += _heads(report, number, frame.left, big, kind, small)
        parts += latency_panel(frame, scale, phase)
        parts += [_boundary(report, frame), *_part_names(report, frame)]
    y = _LATENCY_TOP + _LATENCY_HEIGHT + 18
    return parts + _legend(
        LEFT, y, "Latency by the second, in ms (logarithmic):", (("p90", "p90"), ("p50", "p50"))
    )


def _losses(report: Report) -> list[str]:
    most = max([p.lost.worst for p in report.phases if p.lost] + [0.25]) * 1.1
    places = frames(_LATENCY_TOP, _LATENCY_HEIGHT, report.phases, most)
    parts = []
    for number, (phase, frame) in enumerate(zip(report.phases, places, strict=True)):
        lost = phase.lost.mean if phase.lost else 0.0
        kind = "good" if lost < 0.05 else "bad"
        parts += _heads(
            report, number, frame.left, f"lost {lost:.2f} CPUs", kind, "by the service, on average"
        )
        parts += lost_panel(frame, phase)
        parts += [_boundary(report, frame), *_part_names(report, frame)]
    y = _LATENCY_TOP + _LATENCY_HEIGHT + 18
    what = "CPUs that the service wanted and did not get"
    return [*parts, text(LEFT, y, what, "faint")]


def _boundary(report: Report, frame: Frame) -> str:
    """Where the service's calm part ends and its busy part begins."""
    x, end = frame.x(frame.seconds * report.load.calm_share), frame.top + frame.height
    return f'<line class="part" x1="{x}" y1="{frame.top}" x2="{x}" y2="{end}"/>'


def _part_names(report: Report, frame: Frame) -> list[str]:
    x, y = frame.x(frame.seconds * report.load.calm_share), frame.top - 5
    return [text(x - 6, y, "calm", "faint end"), text(x + 6, y, "busy", "faint")]


def _cpus(report: Report) -> list[str]:
    places = frames(_CPU_TOP, _CPU_HEIGHT, report.phases, float(report.machine.cpus))
    parts = []
    for phase, frame in zip(report.phases, places, strict=True):
        parts += _cpu_head(phase, frame)
        parts += cpu_panel(frame, phase)
        parts.append(_boundary(report, frame))
        parts.append(text(frame.left, _CPU_TOP + _CPU_HEIGHT + 16, "0 s", "faint"))
        end = f"{phase.seconds:g} s"
        parts.append(text(frame.left + frame.width, _CPU_TOP + _CPU_HEIGHT + 16, end, "faint end"))
    y = _CPU_TOP + _CPU_HEIGHT + 38
    named = (("hog", "batch"), ("service", "service"), ("other", "other (client, agent, system)"),
             ("idle", "idle"))  # fmt: skip
    parts += _legend(LEFT, y, "CPUs in use:", named)
    x = LEFT + 600
    parts += [line(x, y - 4, x + 18, "quota"), text(x + 26, y, "batch's quota", "faint")]
    return parts


def _cpu_head(phase: PhaseReport, frame: Frame) -> list[str]:
    busy = f"node {100 * phase.utilisation:.0f} % busy"
    batch = f"batch {phase.cpu.hog:.2f} CPUs, {busy}" if phase.cpu.hog >= 0.005 else busy
    return [text(frame.left, _CPU_TOP - 9, batch, "sub")]


def _legend(left: int, y: int, words: str, named: tuple[tuple[str, str], ...]) -> list[str]:
    parts = [text(left, y, words, "faint")]
    x = left + 10 + round(6.6 * len(words))
    for kind, name in named:
        if kind in ("p50", "p90"):
            parts.append(line(x, y - 4, x + 18, kind))
        else:
            parts.append(
                f'<rect class="{kind}" x="{x}" y="{y - 11}" width="18" height="13" rx="2"/>'
            )
        parts.append(text(x + 26, y, name, "faint"))
        x += 44 + round(7 * len(name))
    return parts


def _said(report: Report) -> list[Line]:
    """The agent's changes of the quota: the largest ones, in their order."""
    changes = _moves(report)
    largest = sorted(changes, key=_size, reverse=True)[:_MOST_LINES]
    return [each for each in changes if each in largest]


def _moves(report: Report) -> list[Line]:
    return [x for x in report.agent if x.after and "quota" in x.what and x.at >= 0]


def _size(each: Line) -> float:
    before, after = _milli(each.before), _milli(each.after)
    return abs(after - before) if before is not None and after is not None else 1e9


def _milli(word: str) -> int | None:
    digits = word.removesuffix("m")
    return int(digits) if digits.isdigit() else None


def _lines(said: list[Line], moves: int) -> list[str]:
    part = f" ({len(said)} of {moves} moves)" if moves > len(said) else ""
    head = f"Why the quota moved, in the agent's words{part}:"
    head = head if said else "The agent changed no quota."
    parts = [text(LEFT, _SAID_TOP, head, "head")]
    for number, each in enumerate(said, 1):
        because = each.because.partition(": ")[2] or each.because
        words = f"{each.at:5.1f} s   {each.before} → {each.after}   because {because}"
        parts.append(text(LEFT, _SAID_TOP + _LINE_HEIGHT * number, words))
    return parts


def _footer(report: Report) -> str:
    about, load = report.machine, report.load
    size = f"{about.cpus} CPUs"
    if about.simulated_because is not None:
        because = about.simulated_because
        return f"Simulated kernel of {size}, because {because}; the agent is the real one."
    noise = [phase.noise for phase in report.phases if phase.noise]
    steal, foreign = (max((getattr(n, k) for n in noise), default=0) for k in ("steal", "foreign"))
    return (
        f"{about.model or 'unknown CPU'}, {size}, Linux {about.kernel}, cgroup {about.cgroup}; "
        f"open loop, {load.calm:g} then {load.busy:g} CPUs of requests; latency from the intended "
        f"time; steal ≤ {steal:.2f}, foreign work ≤ {foreign:.2f} CPUs"
    )
