"""The demo as one picture: a column for each phase, and the agent's reasons below."""

import itertools
import math
from collections.abc import Sequence

import msgspec

from slackwater.demo.demo_plan import ALONE
from slackwater.demo.demo_report import DemoReport, PhaseReport, format_milliseconds
from slackwater.demo.measurements import AgentEntry, LatencyBin, PhaseSample
from slackwater.drawing.legend import area_key, legend_row, line_key
from slackwater.drawing.page import LEFT, WIDTH, line, page, text
from slackwater.drawing.plot import (
    Frame,
    area,
    band,
    bare_grid,
    cpu_ticks,
    curve,
    labelled_grid,
    steps,
    vertical_line,
)

RIGHT, GAP = 24, 20
#: Steps of a logarithmic axis that people read easily.
_NICE = (1, 2, 5)
_HEAD_TOP, _LATENCY_TOP, _LATENCY_HEIGHT = 148, 258, 150
_CPU_TOP, _CPU_HEIGHT = 468, 170
_SAID_TOP = 718
_LINE_HEIGHT = 20
_MOST_LINES = 5
#: Letters in one line of text across the page, at its size.
_LETTERS = 160
_MOST_TEXT = 4
#: Height of the band that says that batch is demoted.
_BAND = 8
#: p90 against the service alone: up to here it is good, up to there fair.
_GOOD, _FAIR = 1.25, 2.0


class LogScale(msgspec.Struct, frozen=True):
    """Milliseconds on a logarithmic axis, from `low` to `high`."""

    low: float
    high: float

    def place(self, format_milliseconds: float) -> float:
        """0 at the bottom, 1 at the top."""
        inside = min(max(format_milliseconds, self.low), self.high)
        return math.log(inside / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        found = [
            unit * 10.0**power
            for power in range(-2, 6)
            for unit in _NICE
            if self.low <= unit * 10.0**power <= self.high * 1.0001
        ]
        return found if len(found) <= 7 else [tick for tick in found if _is_power(tick)]


def _is_power(value: float) -> bool:
    return abs(math.log10(value) - round(math.log10(value))) < 1e-6


def log_scale_for(phases: Sequence[PhaseReport], objective: float | None = None) -> LogScale:
    """Wide enough for every point and the objective, and for at least one power of ten."""
    values = [v for p in phases for b in p.curve for v in (b.p50, b.p90) if v > 0] or [1.0]
    values += [] if objective is None else [objective]
    low = _nice_below(min(values))
    return LogScale(low, max(_nice_above(max(values)), low * 10))


def _nice_below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(unit * power for unit in _NICE if unit * power <= value * 1.0001)


def _nice_above(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min(unit * power for unit in (*_NICE, 10) if unit * power >= value * 0.9999)


def phase_frames(top: int, height: int, phases: Sequence[PhaseReport], most: float) -> list[Frame]:
    """One beside the other, all of the same width."""
    room = WIDTH - LEFT - RIGHT - GAP * (len(phases) - 1)
    width = room // max(len(phases), 1)
    return [
        Frame(LEFT + number * (width + GAP), top, width, height, phase.seconds, most)
        for number, phase in enumerate(phases)
    ]


def draw_panel(frame: Frame, ticks: Sequence[tuple[float, str]], unit: str) -> list[str]:
    """A ground with rules; the first column has the labels, and what they count."""
    if frame.left == LEFT:
        return labelled_grid(frame, ticks, unit)
    return bare_grid(frame, [value for value, _ in ticks])


def draw_latency_panel(
    frame: Frame, scale: LogScale, phase: PhaseReport, objective: float | None
) -> list[str]:
    """p50 and p90 of each second, and the objective for the p90; `frame.most` is 1."""
    ticks = [(scale.place(tick), f"{tick:g}") for tick in scale.ticks()]
    parts = draw_panel(frame, ticks, "ms")
    if objective is not None:
        y = frame.y(scale.place(objective))
        parts.append(line(frame.left, y, frame.left + frame.width, "threshold"))
    for bins in _curves_of_slices(phase):
        middles = [min((each.at + each.until) / 2, frame.seconds) for each in bins]
        for kind, values in (("p90", [b.p90 for b in bins]), ("p50", [b.p50 for b in bins])):
            heights = map(scale.place, values)
            parts.append(curve(frame, zip(middles, heights, strict=True), kind))
    return parts


def _curves_of_slices(phase: PhaseReport) -> list[list[LatencyBin]]:
    """A line from one slice to the next would show what was never measured."""
    ends = [each.until for each in phase.slices] or [phase.seconds]
    starts = [0.0, *ends[:-1]]
    found = [
        [each for each in phase.curve if start <= (each.at + each.until) / 2 < end]
        for start, end in zip(starts, ends, strict=True)
    ]
    return [bins for bins in found if bins]


def draw_loss_panel(frame: Frame, phase: PhaseReport) -> list[str]:
    """CPUs that the service wanted and did not get."""
    lost = [sample.lost or 0.0 for sample in phase.samples]
    return [
        *draw_panel(frame, _cpu_labels(frame), "CPUs"),
        area(frame, _sample_edges(phase.samples, frame.seconds), [0.0] * len(lost), lost, "lost"),
    ]


def draw_cpu_panel(frame: Frame, phase: PhaseReport) -> list[str]:
    """Batch at the bottom, so that its quota is the line on top of it; hatched while demoted."""
    edges = _sample_edges(phase.samples, frame.seconds)
    floor = [0.0] * len(phase.samples)
    parts = draw_panel(frame, _cpu_labels(frame), "CPUs")
    for name in ("hog", "service", "other"):
        top = [low + getattr(s.cpu, name) for low, s in zip(floor, phase.samples, strict=True)]
        parts.append(area(frame, edges, floor, top, name))
        floor = top
    for demoted, group in itertools.groupby(phase.samples, lambda sample: sample.demoted):
        if demoted:
            samples = list(group)
            parts.append(band(frame, samples[0].at, samples[-1].until, _BAND, "demoted"))
    quota = [None if s.quota is None else min(s.quota, frame.most) for s in phase.samples]
    parts.append(steps(frame, edges, quota, "quota"))
    return parts


def _cpu_labels(frame: Frame) -> list[tuple[float, str]]:
    return [(tick, f"{tick:g}") for tick in cpu_ticks(frame, 4)]


def _sample_edges(samples: Sequence[PhaseSample], seconds: float) -> list[float]:
    """Where each begins, and where the last one ends; never past the frame."""
    if not samples:
        return [0.0]
    return [min(s.at, seconds) for s in samples] + [min(samples[-1].until, seconds)]


def draw_demo(report: DemoReport) -> str:
    """The whole SVG document."""
    said = _first_and_last_changes(report)
    height = _SAID_TOP + _LINE_HEIGHT * (len(said) + 1) + 32
    real = report.machine.simulated_because is None
    title = "Batch work beside a service, and one rule about its latency"
    if not real:
        title += " (simulated kernel)"
    parts = [
        text(LEFT, 40, title, "title"),
        *_draw_sentences(report),
        *(_draw_latencies(report) if real else _draw_losses(report)),
        *_draw_cpu_use(report),
        *_draw_reasons(said, len(_agent_changes(report))),
        text(LEFT, height - 16, _footer_text(report), "faint"),
    ]
    return page(title, height, parts)


def _draw_sentences(report: DemoReport) -> list[str]:
    """Below the title, folded to the page; whether they can be trusted last, in red."""
    folded = [part for sentence in report.meaning for part in _wrap(sentence, _LETTERS)]
    parts = [text(LEFT, 64 + 18 * number, part) for number, part in enumerate(folded[:_MOST_TEXT])]
    if report.warning:
        parts.append(text(LEFT, 64 + 18 * len(parts), report.warning, "bad"))
    return parts


def _wrap(sentence: str, letters: int) -> list[str]:
    found = [""]
    for word in sentence.split():
        if found[-1] and len(found[-1]) + 1 + len(word) > letters:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    return found


def _draw_heads(
    report: DemoReport, number: int, left: int, big: str, kind: str, small: str
) -> list[str]:
    phase = report.phases[number]
    return [
        text(left, _HEAD_TOP + 10, phase.title, "head"),
        text(left, _HEAD_TOP + 27, phase.hint, "faint"),
        text(left, _HEAD_TOP + 60, big, f"big {kind}"),
        text(left, _HEAD_TOP + 80, small, "faint"),
    ]


def _draw_latencies(report: DemoReport) -> list[str]:
    objective = None if report.objective is None else report.objective.milliseconds
    scale = log_scale_for(report.phases, objective)
    places = phase_frames(_LATENCY_TOP, _LATENCY_HEIGHT, report.phases, 1.0)
    alone = next((p.latency for p in report.phases if p.name == ALONE.name), None)
    parts = []
    for number, (phase, frame) in enumerate(zip(report.phases, places, strict=True)):
        big, kind, small = "no answers", "bad", ""
        if phase.latency is not None:
            found = phase.latency
            ratio = found.p90 / alone.p90 if alone is not None and alone.p90 else 1.0
            kind = "good" if ratio <= _GOOD else "fair" if ratio <= _FAIR else "bad"
            kind = "" if report.warning else kind  # nothing follows from such numbers
            big = f"p90 {format_milliseconds(found.p90)}"
            small = _describe_spread(phase)
            if phase.name != ALONE.name and not report.warning:
                small += f"; {ratio:.1f}× alone"
        parts += _draw_heads(report, number, frame.left, big, kind, small)
        parts += draw_latency_panel(frame, scale, phase, objective)
        parts += [*_draw_boundaries(report, phase, frame), *_draw_part_names(report, phase, frame)]
    y = _LATENCY_TOP + _LATENCY_HEIGHT + 18
    keys = (("p90", "p90"), ("p50", "p50"), ("threshold", "the objective for the p90"))
    return parts + legend_row(LEFT, y, "Latency by the second, in ms (logarithmic):", keys)


def _describe_spread(phase: PhaseReport) -> str:
    parts = []
    if phase.above is not None:
        parts.append(f"{100 * phase.above:.0f} % of seconds above")
    slices = phase.p90_range()
    if slices is not None:
        low, high = map(format_milliseconds, slices)
        parts.append(f"slices {low.removesuffix(' ms')}–{high}")
    return "; ".join(parts)


def _draw_losses(report: DemoReport) -> list[str]:
    most = max([p.lost.worst for p in report.phases if p.lost] + [0.25]) * 1.1
    places = phase_frames(_LATENCY_TOP, _LATENCY_HEIGHT, report.phases, most)
    parts = []
    for number, (phase, frame) in enumerate(zip(report.phases, places, strict=True)):
        lost = phase.lost.mean if phase.lost else 0.0
        kind = "good" if lost < 0.05 else "bad"
        parts += _draw_heads(
            report, number, frame.left, f"lost {lost:.2f} CPUs", kind, "by the service, on average"
        )
        parts += draw_loss_panel(frame, phase)
        parts += [*_draw_boundaries(report, phase, frame), *_draw_part_names(report, phase, frame)]
    y = _LATENCY_TOP + _LATENCY_HEIGHT + 18
    what = "CPUs that the service wanted and did not get"
    return [*parts, text(LEFT, y, what, "faint")]


def _draw_boundaries(report: DemoReport, phase: PhaseReport, frame: Frame) -> list[str]:
    """Where the service's busy part ends in each slice, and where the next slice begins."""
    parts = [vertical_line(frame.x(calm), frame, "part") for _, calm, _ in _parts(report, phase)]
    ends = [end for _, _, end in _parts(report, phase)]
    return parts + [vertical_line(frame.x(end), frame, "event") for end in ends[:-1]]


def _draw_part_names(report: DemoReport, phase: PhaseReport, frame: Frame) -> list[str]:
    y = frame.top - 5
    found = []
    for _, calm, _ in _parts(report, phase):
        found.append(text(frame.x(calm) - 6, y, "busy", "faint end"))
        found.append(text(frame.x(calm) + 6, y, "calm", "faint"))
    return found


def _parts(report: DemoReport, phase: PhaseReport) -> list[tuple[float, float, float]]:
    """Of each slice: where it begins, where its calm part does, and where it ends."""
    slices = [(each.at, each.until) for each in phase.slices] or [(0.0, phase.seconds)]
    calm = report.load.calm_share
    return [(start, end - calm * (end - start), end) for start, end in slices]


def _draw_cpu_use(report: DemoReport) -> list[str]:
    places = phase_frames(_CPU_TOP, _CPU_HEIGHT, report.phases, float(report.machine.cpus))
    parts = []
    for phase, frame in zip(report.phases, places, strict=True):
        parts += _draw_cpu_head(phase, frame)
        parts += draw_cpu_panel(frame, phase)
        parts += _draw_boundaries(report, phase, frame)
        parts.append(text(frame.left, _CPU_TOP + _CPU_HEIGHT + 16, "0 s", "faint"))
        end = f"{phase.seconds:g} s"
        parts.append(text(frame.left + frame.width, _CPU_TOP + _CPU_HEIGHT + 16, end, "faint end"))
    y = _CPU_TOP + _CPU_HEIGHT + 38
    named = (("hog", "batch"), ("service", "service"), ("other", "other (client, agent, system)"),
             ("idle", "idle"))  # fmt: skip
    parts += legend_row(LEFT, y, "CPUs in use:", named)
    parts += area_key(LEFT + 600, y, "demoted", "batch demoted to the lowest weight")
    return parts + line_key(LEFT + 880, y, "quota", "batch's quota")


def _draw_cpu_head(phase: PhaseReport, frame: Frame) -> list[str]:
    busy = f"node {100 * phase.utilisation:.0f} % busy"
    batch = f"batch {phase.cpu.hog:.2f} CPUs, {busy}" if phase.cpu.hog >= 0.005 else busy
    return [text(frame.left, _CPU_TOP - 9, batch, "sub")]


def _first_and_last_changes(report: DemoReport) -> list[AgentEntry]:
    """The agent's changes: the first ones, and the last one, which gives everything back."""
    changes = _agent_changes(report)
    if len(changes) <= _MOST_LINES:
        return changes
    return [*changes[: _MOST_LINES - 1], changes[-1]]


def _agent_changes(report: DemoReport) -> list[AgentEntry]:
    """One for all pods and groups that were changed in the same way at the same time."""
    found: dict[tuple[float, str, str, str], AgentEntry] = {}
    for each in report.agent:
        if each.after and each.at >= 0:
            found.setdefault((round(each.at), _knob_of(each), each.before, each.after), each)
    return list(found.values())


def _knob_of(each: AgentEntry) -> str:
    return each.what.partition(" of ")[0]


def _draw_reasons(said: list[AgentEntry], moves: int) -> list[str]:
    part = f" ({len(said)} of {moves} changes)" if moves > len(said) else ""
    head = f"What the agent did to the batch pods, in its own words{part}:"
    head = head if said else "The agent changed nothing."
    parts = [text(LEFT, _SAID_TOP, head, "head")]
    for number, each in enumerate(said, 1):
        because = each.because.partition(": ")[2] or each.because
        change = f"{_knob_of(each)} {each.before} → {each.after}"
        words = f"{each.at:5.1f} s   {change}   because {because}"
        parts.append(text(LEFT, _SAID_TOP + _LINE_HEIGHT * number, words))
    return parts


def _footer_text(report: DemoReport) -> str:
    about, load = report.machine, report.load
    size = f"{about.cpus} CPUs"
    if about.simulated_because is not None:
        because = about.simulated_because
        return f"Simulated kernel of {size}, because {because}; the agent is the real one."
    noise = [phase.noise for phase in report.phases if phase.noise]
    steal, foreign = (max((getattr(n, k) for n in noise), default=0) for k in ("steal", "foreign"))
    return (
        f"{about.model or 'unknown CPU'}, {size}, Linux {about.kernel}, cgroup {about.cgroup}; "
        f"open loop, {load.busy:g} then {load.calm:g} CPUs of requests; latency from the intended "
        f"time; steal ≤ {steal:.2f}, foreign work ≤ {foreign:.2f} CPUs"
    )
