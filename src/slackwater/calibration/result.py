"""The result of a calibration: speeds with their spread, what disturbed them, and one score.

A speed is pieces of work per second of CPU time. The score is the geometric mean over all kernels,
so that no kernel's unit matters; two scores compare if they are over the same kernels.
"""

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

API_VERSION = "slackwater.io/v1"
KIND = "CalibrationResult"
#: A slice in which the work got less of its CPU than this was disturbed.
UNDISTURBED = 0.97


class Slice(msgspec.Struct, frozen=True):
    """One kernel on one CPU for a moment: pieces done, seconds passed, seconds of CPU time."""

    kernel: str
    cpu: int
    pieces: int
    seconds: float
    cpu_seconds: float

    def speed(self) -> float:
        """By the CPU time, which a neighbour on the same CPU takes nothing of but caches."""
        return self.pieces / self.cpu_seconds

    def is_disturbed(self) -> bool:
        return self.cpu_seconds < UNDISTURBED * self.seconds


class Speed(msgspec.Struct, frozen=True):
    """Pieces per second of CPU time: the median of all slices, and the quartiles around it."""

    median: float
    low: float
    high: float

    def spread(self) -> float:
        """Between the quartiles, as a share of the median."""
        return (self.high - self.low) / self.median


class KernelSpeed(msgspec.Struct, frozen=True, rename="camel"):
    """`single` is with one CPU busy, `all` with all of them, for each."""

    kernel: str
    single: Speed
    all: Speed


class MeasuredMachine(msgspec.Struct, frozen=True, rename="camel"):
    """Null where the machine does not tell."""

    cpu_model: str | None
    vendor: str | None
    cpus: int
    hyper_thread: bool | None
    turbo: bool | None


class Score(msgspec.Struct, frozen=True):
    single: float
    all: float


class CalibrationResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What `slackwater calibrate` prints and `slackwater normalize model` reads."""

    api_version: str = API_VERSION
    kind: str = KIND
    version: str
    machine: MeasuredMachine
    kernels: tuple[KernelSpeed, ...]
    score: Score
    #: One sentence each: what made the figures less sure.
    disturbances: tuple[str, ...] = ()


def summarize(
    version: str,
    machine: MeasuredMachine,
    single: Sequence[Slice],
    everywhere: Sequence[Slice],
    stolen: float = 0.0,
) -> CalibrationResult:
    """`stolen` is the share of CPU time that the hypervisor gave to others meanwhile."""
    names = tuple(dict.fromkeys(each.kernel for each in single))
    speeds = tuple(
        KernelSpeed(name, speed_of(_of(name, single)), speed_of(_of(name, everywhere)))
        for name in names
    )
    score = Score(
        geometric_mean(each.single.median for each in speeds),
        geometric_mean(each.all.median for each in speeds),
    )
    return CalibrationResult(
        version=version,
        machine=machine,
        kernels=speeds,
        score=score,
        disturbances=tuple(_disturbances(speeds, (*single, *everywhere), stolen)),
    )


def speed_of(slices: Sequence[Slice]) -> Speed:
    """Of the slices that were not disturbed, or of all where every one was."""
    quiet = [each for each in slices if not each.is_disturbed()] or slices
    speeds = [each.speed() for each in quiet]
    if len(speeds) == 1:
        return Speed(speeds[0], speeds[0], speeds[0])
    low, median, high = statistics.quantiles(speeds, n=4, method="inclusive")
    return Speed(median, low, high)


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def _of(kernel: str, slices: Sequence[Slice]) -> list[Slice]:
    return [each for each in slices if each.kernel == kernel]


_MANY_DISTURBED = 0.2
_WIDE = 0.1
_MUCH_STOLEN = 0.02


def _disturbances(
    speeds: Sequence[KernelSpeed], slices: Sequence[Slice], stolen: float
) -> Iterable[str]:
    disturbed = sum(each.is_disturbed() for each in slices)
    if disturbed > _MANY_DISTURBED * len(slices):
        yield (
            f"in {disturbed} of {len(slices)} slices another process used the CPU: measure again "
            "on a quiet machine"
        )
    if stolen > _MUCH_STOLEN:
        yield f"the hypervisor gave {stolen:.0%} of the CPU time to others (steal)"
    wide = [
        f"{each.kernel} on {mode} by {speed.spread():.0%}"
        for each in speeds
        for mode, speed in (("one CPU", each.single), ("all CPUs", each.all))
        if speed.spread() > _WIDE
    ]
    if wide:
        yield f"speeds vary between their quartiles: {', '.join(wide)}"
