"""What one phase showed, real or simulated, as values; and what a watcher sees meanwhile."""

from collections.abc import Callable

import msgspec

from slackwater.demo.gauges import CpuUse, Noise
from slackwater.demo.latency import Answer
from slackwater.demo.plan import Phase


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """A stretch of a phase, in seconds after its start: CPU use, and the hog's quota at its end in
    CPUs, None while it is unlimited. `lost` is what the service wanted and did not get, in CPUs;
    only a simulation knows it."""

    at: float
    until: float
    cpu: CpuUse
    quota: float | None = None
    lost: float | None = None


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """What the agent said, and when in the phase."""

    at: float
    what: str
    before: str = ""
    after: str = ""
    because: str = ""


class Measured(msgspec.Struct, frozen=True):
    """One phase. A simulation has no answers and no noise."""

    phase: Phase
    seconds: float
    cpu: CpuUse
    samples: tuple[Sample, ...]
    answers: tuple[Answer, ...] = ()
    noise: Noise | None = None
    lines: tuple[Line, ...] = ()


class Glimpse(msgspec.Struct, frozen=True):
    """What a watcher sees of a phase that runs; in the last one of a phase it is complete."""

    phase: Phase
    at: float
    seconds: float
    answers: tuple[Answer, ...] = ()
    sample: Sample | None = None
    lines: tuple[Line, ...] = ()
    #: What `seconds` are.
    unit: str = "s"


Watch = Callable[[Glimpse], None]


def unwatched(_: Glimpse) -> None:
    """For those who need no view."""
