"""The picture's panels: columns of phases, each with its latency and its CPU use, as SVG text.

Owns the places on the page and the scales. Knows values of the report, decides nothing.
"""

import math
from collections.abc import Sequence

import msgspec

from slackwater.demo.latency import Bin
from slackwater.demo.measured import Sample
from slackwater.demo.report import PhaseReport
from slackwater.simulation.svg import Frame, area, line, steps, text

WIDTH = 1200
LEFT, RIGHT, GAP = 64, 24, 20
#: Steps of a logarithmic axis that people read easily.
_NICE = (1, 2, 5)


class Scale(msgspec.Struct, frozen=True):
    """Milliseconds on a logarithmic axis, from `low` to `high`."""

    low: float
    high: float

    def place(self, milliseconds: float) -> float:
        """0 at the bottom, 1 at the top."""
        inside = min(max(milliseconds, self.low), self.high)
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


def scale_of(phases: Sequence[PhaseReport]) -> Scale:
    """Wide enough for every point, and for at least one power of ten."""
    values = [v for p in phases for b in p.curve for v in (b.p50, b.p90) if v > 0] or [1.0]
    low = _nice_below(min(values))
    return Scale(low, max(_nice_above(max(values)), low * 10))


def _nice_below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(unit * power for unit in _NICE if unit * power <= value * 1.0001)


def _nice_above(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min(unit * power for unit in (*_NICE, 10) if unit * power >= value * 0.9999)


def frames(top: int, height: int, phases: Sequence[PhaseReport], most: float) -> list[Frame]:
    """One beside the other, all of the same width."""
    room = WIDTH - LEFT - RIGHT - GAP * (len(phases) - 1)
    width = room // max(len(phases), 1)
    return [
        Frame(LEFT + number * (width + GAP), top, width, height, phase.seconds, most)
        for number, phase in enumerate(phases)
    ]


def panel(frame: Frame, ticks: Sequence[tuple[float, str]], unit: str) -> list[str]:
    """A ground with rules; the first column has the labels, and what they count."""
    size = f'width="{frame.width}" height="{frame.height}"'
    parts = [f'<rect class="panel" x="{frame.left}" y="{frame.top}" {size}/>']
    if frame.left == LEFT:
        parts.append(text(frame.left - 8, frame.top - 9, unit, "faint end"))
    for value, label in ticks:
        y = frame.y(value)
        parts.append(line(frame.left, y, frame.left + frame.width, "rule"))
        if frame.left == LEFT:
            parts.append(text(frame.left - 8, y + 4, label, "faint end"))
    return parts


def latency_panel(frame: Frame, scale: Scale, phase: PhaseReport) -> list[str]:
    """p50 and p90 of each second; `frame.most` is 1."""
    ticks = [(scale.place(tick), f"{tick:g}") for tick in scale.ticks()]
    return [
        *panel(frame, ticks, "ms"),
        _curve(frame, scale, phase.curve, "p90"),
        _curve(frame, scale, phase.curve, "p50"),
    ]


def _curve(frame: Frame, scale: Scale, curve: Sequence[Bin], name: str) -> str:
    points = []
    for each in curve:
        middle = min((each.at + each.until) / 2, frame.seconds)
        points.append(f"{frame.x(middle)},{frame.y(scale.place(getattr(each, name)))}")
    return f'<polyline class="{name}" points="{" ".join(points)}"/>' if points else ""


def lost_panel(frame: Frame, phase: PhaseReport) -> list[str]:
    """CPUs that the service wanted and did not get."""
    lost = [sample.lost or 0.0 for sample in phase.samples]
    ticks = [(tick, f"{tick:g}") for tick in whole_ticks(frame.most)]
    return [
        *panel(frame, ticks, "CPUs"),
        area(frame, _edges(phase.samples, frame.seconds), [0.0] * len(lost), lost, "lost"),
    ]


def cpu_panel(frame: Frame, phase: PhaseReport) -> list[str]:
    """Batch at the bottom, so that its quota is the line on top of it."""
    edges = _edges(phase.samples, frame.seconds)
    floor = [0.0] * len(phase.samples)
    parts = panel(frame, [(tick, f"{tick:g}") for tick in whole_ticks(frame.most)], "CPUs")
    for name in ("hog", "service", "other"):
        top = [low + getattr(s.cpu, name) for low, s in zip(floor, phase.samples, strict=True)]
        parts.append(area(frame, edges, floor, top, name))
        floor = top
    quota = [None if s.quota is None else min(s.quota, frame.most) for s in phase.samples]
    parts.append(steps(frame, edges, quota, "quota"))
    return parts


def whole_ticks(most: float) -> list[float]:
    """About four of them."""
    step = next((s for s in (0.25, 0.5, 1, 2, 5, 10, 20, 50) if most / s <= 4.5), 100)
    return [step * number for number in range(int(most / step + 1e-9) + 1)]


def _edges(samples: Sequence[Sample], seconds: float) -> list[float]:
    """Where each begins, and where the last one ends; never past the frame."""
    if not samples:
        return [0.0]
    return [min(s.at, seconds) for s in samples] + [min(samples[-1].until, seconds)]
