"""Demand for CPU as a function of virtual time: steady, daily, spike, square, noise, and sums.

Time is an argument, and noise is drawn once from the random numbers that are passed in. A demand
also says how long its current level lasts: until then the fake kernel need not look again.
"""

import math
import random
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from slackwater.contract.kubernetes import CpuQuantity
from slackwater.contract.schema import Duration, SettingsStruct
from slackwater.model.units import Micros, MilliCpu, Ratio

SECOND = Micros(1_000_000)
DAY = Micros(86_400 * SECOND)
#: Later than any simulation ends: 292,000 years.
FOREVER = Micros(2**63)


class Demand(Protocol):
    """milliCPU wanted at a virtual time."""

    def __call__(self, at: Micros, /) -> MilliCpu: ...

    def holds_until(self, at: Micros, /) -> Micros:
        """A time after `at` before which the level does not change."""


class Steady(msgspec.Struct, frozen=True):
    """The same at all times."""

    level: MilliCpu

    def __call__(self, _at: Micros, /) -> MilliCpu:
        return self.level

    def holds_until(self, _at: Micros, /) -> Micros:
        return FOREVER


#: One CFS period: what moves faster is below what a quota can see.
SHORTEST_STEP = 100_000
#: A week is the longest simulation; a demand's own times may lie a little beyond.
LONGEST = 31 * DAY
#: Bounds of what a scenario's file may say.
_Time = Annotated[Duration, Meta(ge=0, le=LONGEST)]
_Step = Annotated[Duration, Meta(ge=SHORTEST_STEP, le=LONGEST)]


class Daily(SettingsStruct, frozen=True):
    """A sine around `mean`, highest at `peak` and each `period` later; never below zero.

    It moves in steps: demand is measured in seconds anyway, and a step is cheap to simulate.
    """

    mean: CpuQuantity
    swing: CpuQuantity
    period: Annotated[Duration, Meta(ge=SECOND, le=LONGEST)] = DAY
    peak: _Time = Micros(DAY // 2)
    step: _Step = SECOND

    def __call__(self, at: Micros, /) -> MilliCpu:
        turn = (at - at % self.step - self.peak) % self.period / self.period
        return MilliCpu(max(0, round(self.mean + self.swing * math.cos(2 * math.pi * turn))))

    def holds_until(self, at: Micros, /) -> Micros:
        return _next_multiple(at, self.step)


class Spike(SettingsStruct, frozen=True):
    """`height` from `at` on for `length`, else `base`."""

    at: _Time
    height: CpuQuantity
    length: _Step = msgspec.field(name="for")
    base: CpuQuantity = MilliCpu(0)

    def __call__(self, at: Micros, /) -> MilliCpu:
        return self.height if self.at <= at < self.at + self.length else self.base

    def holds_until(self, at: Micros, /) -> Micros:
        edges = (self.at, Micros(self.at + self.length))
        return next((edge for edge in edges if edge > at), FOREVER)


class Square(msgspec.Struct, frozen=True):
    """`high` for the first part (`duty`) of each `period`, `low` for the rest."""

    period: Micros
    duty: Ratio
    high: MilliCpu
    low: MilliCpu = MilliCpu(0)

    def __call__(self, at: Micros, /) -> MilliCpu:
        return self.high if at % self.period < self.duty.of(self.period) else self.low

    def holds_until(self, at: Micros, /) -> Micros:
        phase, busy = at % self.period, self.duty.of(self.period)
        return Micros(at - phase + (busy if phase < busy else self.period))


class Steps(msgspec.Struct, frozen=True):
    """Levels one after the other, `step` each, from time zero, over and over."""

    levels: tuple[MilliCpu, ...]
    step: Micros = SECOND

    def __call__(self, at: Micros, /) -> MilliCpu:
        return self.levels[at // self.step % len(self.levels)]

    def holds_until(self, at: Micros, /) -> Micros:
        return _next_multiple(at, self.step)


class Sum(msgspec.Struct, frozen=True):
    """Several demands of one piece of work: a day with spikes and noise."""

    parts: tuple[Demand, ...]

    def __call__(self, at: Micros, /) -> MilliCpu:
        return MilliCpu(sum(part(at) for part in self.parts))

    def holds_until(self, at: Micros, /) -> Micros:
        return min((part.holds_until(at) for part in self.parts), default=FOREVER)


def noise(
    chance: random.Random,
    low: MilliCpu,
    high: MilliCpu,
    step: Micros = SECOND,
    steps: int = 3600,
) -> Steps:
    """Even chances between `low` and `high`, another draw each step; repeats after `steps`."""
    return Steps(tuple(MilliCpu(chance.randint(low, high)) for _ in range(steps)), step)


def _next_multiple(at: Micros, step: Micros) -> Micros:
    return Micros(at - at % step + step)
