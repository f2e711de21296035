"""Measurements of a phase, real or simulated: CPU use from exact counters, latencies, samples.

Latency is from the intended send time to the last byte of the answer, in milliseconds; a request
without an answer counts with the time waited for it. Noise is CPU time that is not the demo's:
steal (from /proc/stat, there is no exact source) and other work on this machine.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from slackwater.demo.cgroup_tree import DemoTree
from slackwater.demo.demo_plan import DemoPhase
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.observation.host import NodeUsageMeter, Roots, read_ticks
from slackwater.record.journal import TimedEntry

_MICROS = 1e6
_USER_HZ = os.sysconf("SC_CLK_TCK")


class MeasurementError(Exception):
    """One sentence about what could not be measured."""


class CpuCounters(msgspec.Struct, frozen=True):
    """CPU seconds so far, and when. `own` is this process's, `tree` everything else of ours."""

    at: float
    node: float
    tree: float
    service: float
    hog: float
    own: float
    steal: float


class CpuUse(msgspec.Struct, frozen=True, rename="camel"):
    """In CPUs. `other` is all that is neither service nor hog: client, agent, foreign work."""

    service: float
    hog: float
    other: float
    idle: float


class Noise(msgspec.Struct, frozen=True, rename="camel"):
    """In CPUs: what the hypervisor took, and what other work of this machine used."""

    steal: float
    foreign: float


def use_between(before: CpuCounters, after: CpuCounters, cpus: int) -> CpuUse:
    """`before` must be earlier than `after`."""
    service, hog = (_rate(before, after, name) for name in ("service", "hog"))
    node, steal = (_rate(before, after, name) for name in ("node", "steal"))
    other = max(node - service - hog, 0.0)
    idle = max(cpus - service - hog - other - steal, 0.0)
    return CpuUse(round(service, 4), round(hog, 4), round(other, 4), round(idle, 4))


def noise_between(before: CpuCounters, after: CpuCounters) -> Noise:
    foreign = _rate(before, after, "node") - _rate(before, after, "tree")
    foreign -= _rate(before, after, "own")
    return Noise(round(_rate(before, after, "steal"), 4), round(max(foreign, 0.0), 4))


def _rate(before: CpuCounters, after: CpuCounters, name: str) -> float:
    moved: float = getattr(after, name) - getattr(before, name)
    return moved / (after.at - before.at)


class CpuMeter:
    """Reads the counters; owns their file descriptors."""

    def __init__(self, mounts: CgroupMounts, roots: Roots, tree: DemoTree) -> None:
        self._roots = roots
        self._tree = tree
        self._meter = NodeUsageMeter(mounts, roots)

    def read(self) -> CpuCounters:
        node, ticks = self._meter.read(), read_ticks(self._roots)
        if isinstance(node, Gap) or isinstance(ticks, Gap):
            reason = node.reason if isinstance(node, Gap) else f"{ticks}"
            raise MeasurementError(f"the node's CPU time cannot be read: {reason}")
        tree = self._tree
        return CpuCounters(
            at=time.monotonic(),
            node=node.usage / _MICROS,
            tree=tree.usage(tree.top) / _MICROS,
            service=tree.usage(tree.service) / _MICROS,
            hog=tree.batch_usage() / _MICROS,
            own=time.process_time(),
            steal=ticks.total.steal / _USER_HZ,
        )

    def close(self) -> None:
        self._meter.close()


class RequestResult(msgspec.Struct, frozen=True, array_like=True):
    """`at` is the intended time in seconds after the phase's start."""

    at: float
    milliseconds: float
    ok: bool = True


class Percentiles(msgspec.Struct, frozen=True, rename="camel"):
    """In milliseconds."""

    p50: float
    p90: float
    p99: float
    worst: float


class LatencyBin(msgspec.Struct, frozen=True, rename="camel"):
    """The answers to what was meant to be sent in one stretch of time."""

    at: float
    until: float
    p50: float
    p90: float


def percentile(ascending: Sequence[float], percent: float) -> float:
    """Nearest rank."""
    rank = math.ceil(percent / 100 * len(ascending))
    return ascending[min(max(rank, 1), len(ascending)) - 1]


def find_percentiles(answers: Iterable[RequestResult]) -> Percentiles | None:
    """None where there was no request."""
    ascending = sorted(answer.milliseconds for answer in answers)
    if not ascending:
        return None
    p50, p90, p99 = (round(percentile(ascending, p), 3) for p in (50, 90, 99))
    return Percentiles(p50, p90, p99, round(ascending[-1], 3))


def latency_bins(answers: Iterable[RequestResult], length: float) -> tuple[LatencyBin, ...]:
    """Stretches without a request are left out."""
    by_bin: dict[int, list[float]] = {}
    for answer in answers:
        by_bin.setdefault(int(answer.at / length), []).append(answer.milliseconds)
    found = []
    for number, values in sorted(by_bin.items()):
        values.sort()
        p50, p90 = (round(percentile(values, p), 3) for p in (50, 90))
        found.append(
            LatencyBin(round(number * length, 3), round((number + 1) * length, 3), p50, p90)
        )
    return tuple(found)


def share_above(curve: Sequence[LatencyBin], objective: float) -> float:
    """The part of these stretches, 0 to 1, whose p90 is above the objective in milliseconds."""
    return round(sum(each.p90 > objective for each in curve) / max(len(curve), 1), 4)


class PhaseSample(msgspec.Struct, frozen=True, rename="camel"):
    """A stretch of a phase, in seconds after its start: CPU use, and batch's quota at its end in
    CPUs, None while it is unlimited. `lost` is what the service wanted and did not get, in CPUs;
    only a simulation knows it. `demoted`: batch was at the lowest weight at its end. `noise` is
    what was measured of it, null in a simulation."""

    at: float
    until: float
    cpu: CpuUse
    quota: float | None = None
    lost: float | None = None
    demoted: bool = False
    noise: Noise | None = None


class AgentEntry(TimedEntry[float], frozen=True):
    """An entry that the agent printed, and when in the phase."""


class PhaseMeasurement(msgspec.Struct, frozen=True):
    """One phase, or a slice of it. A simulation has no answers and no noise. `slices` is how long
    each of the slices is that it was joined of."""

    phase: DemoPhase
    seconds: float
    cpu: CpuUse
    samples: tuple[PhaseSample, ...]
    answers: tuple[RequestResult, ...] = ()
    noise: Noise | None = None
    lines: tuple[AgentEntry, ...] = ()
    slices: tuple[float, ...] = ()


def join_slices(slices: Sequence[PhaseMeasurement]) -> PhaseMeasurement:
    """At least one slice of a phase, one after the other, as if nothing had been in between."""
    starts = [sum(each.seconds for each in slices[:number]) for number in range(len(slices))]
    pairs = list(zip(starts, slices, strict=True))
    noises = [each.noise for each in slices if each.noise is not None]
    return PhaseMeasurement(
        slices[0].phase,
        sum(each.seconds for each in slices),
        CpuUse(*(_mean(slices, name) for name in CpuUse.__struct_fields__)),
        tuple(_shift(sample, at, one.seconds) for at, one in pairs for sample in one.samples),
        tuple(
            msgspec.structs.replace(answer, at=round(answer.at + at, 6))
            for at, one in pairs
            for answer in one.answers
        ),
        Noise(*(max(getattr(n, name) for n in noises) for name in Noise.__struct_fields__))
        if noises
        else None,
        tuple(
            msgspec.structs.replace(line, at=round(line.at + at, 3))
            for at, one in pairs
            for line in one.lines
            # What was said before a slice is told once.
            if line.at >= 0 or at == 0
        ),
        tuple(each.seconds for each in slices),
    )


def _mean(slices: Sequence[PhaseMeasurement], name: str) -> float:
    """Of a part of the CPU use, by the slices' length."""
    total = sum(each.seconds for each in slices)
    used = sum(float(getattr(each.cpu, name)) * each.seconds for each in slices)
    return round(used / total, 4)


def _shift(sample: PhaseSample, by: float, most: float) -> PhaseSample:
    """A slice's last sample may end a moment after it: here it must not overlap the next."""
    at, until = (round(min(each, most) + by, 3) for each in (sample.at, sample.until))
    return msgspec.structs.replace(sample, at=at, until=until)


class PhaseProgress(msgspec.Struct, frozen=True):
    """A running phase so far; the last one of a phase is complete."""

    phase: DemoPhase
    at: float
    seconds: float
    answers: tuple[RequestResult, ...] = ()
    sample: PhaseSample | None = None
    lines: tuple[AgentEntry, ...] = ()
    #: What `seconds` are.
    unit: str = "s"
    #: Which slice of the phase it is, of how many.
    number: int = 1
    slices: int = 1


ProgressObserver = Callable[[PhaseProgress], None]


def ignore_progress(_: PhaseProgress) -> None:
    """For callers without a view."""
