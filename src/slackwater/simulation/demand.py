"""Demand for CPU as a function of virtual time: steady, daily, spike, square, noise, and sums.

Time is an argument, and noise is drawn once from the random numbers that are passed in. A demand
also says how long its current level lasts: until then the fake kernel need not look again.

A scenario's file states a quantity, or one shape with its numbers. Its noise is drawn by name: the
same seed and pod draw the same noise, whatever other pods there are.
"""

import math
import random
from collections.abc import Iterator
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field, elements, members
from slackwater.contract.kubernetes import CpuQuantity, milli_cpu
from slackwater.contract.schema import Count, Duration, SettingsStruct
from slackwater.model.problem import InvalidError, Problem, quoted
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


_MOST_STEPS = 100_000
_MOST_PARTS = 16
#: Sums within sums; more is a mistake or an attack.
_DEEPEST = 8


class Chance(msgspec.Struct, frozen=True):
    """Whose noise this is: a name that no other noise of the scenario has."""

    name: str
    depth: int = 0

    def inner(self, place: int) -> "Chance":
        return Chance(f"{self.name}/{place}", self.depth + 1)

    def numbers(self) -> random.Random:
        return random.Random(self.name)  # noqa: S311 - noise, not a secret


class _SquareShape(SettingsStruct, frozen=True):
    period: _Step
    high: CpuQuantity
    low: CpuQuantity = MilliCpu(0)
    duty: Annotated[Count, Meta(ge=1, le=99)] = 50

    def demand(self, _: Chance) -> Demand:
        return Square(self.period, Ratio(self.duty, 100), self.high, self.low)


class _StepsShape(SettingsStruct, frozen=True):
    levels: Annotated[
        tuple[CpuQuantity, ...],
        Meta(min_length=1, max_length=_MOST_STEPS),
    ]
    step: _Step = SECOND

    def demand(self, _: Chance) -> Demand:
        return Steps(self.levels, self.step)


class _NoiseShape(SettingsStruct, frozen=True):
    high: CpuQuantity
    low: CpuQuantity = MilliCpu(0)
    step: _Step = SECOND
    steps: Annotated[Count, Meta(ge=1, le=_MOST_STEPS)] = 3600

    def conflicts(self) -> Iterator[Problem]:
        if self.high < self.low:
            yield Problem("high", f"{self.high}m", f"at least low, which is {self.low}m")

    def demand(self, chance: Chance) -> Demand:
        return noise(chance.numbers(), self.low, self.high, self.step, self.steps)


#: Shapes that a file states just as the simulation uses them, and those that are converted.
_Shape = Daily | Spike | _SquareShape | _StepsShape | _NoiseShape
SHAPES: dict[str, type[_Shape]] = {
    "daily": Daily,
    "spike": Spike,
    "square": _SquareShape,
    "steps": _StepsShape,
    "noise": _NoiseShape,
}


def read_demand(field: Field, chance: Chance) -> Demand:
    """A bare quantity is steady."""
    if not isinstance(field.value, dict):
        return Steady(milli_cpu(field))
    names = ("steady", *SHAPES, "sum")
    shapes = members(field)
    if len(shapes) != 1 or shapes[0][0] not in names:
        seen = quoted(", ".join(key for key, _ in shapes))
        raise InvalidError(field.problem(f"a quantity or exactly one of {', '.join(names)}", seen))
    ((name, inner),) = shapes
    match name:
        case "steady":
            return Steady(milli_cpu(inner))
        case "sum":
            return _read_sum(inner, chance)
        case _:
            shape = read_struct(inner, SHAPES[name])
            return shape if isinstance(shape, Daily | Spike) else shape.demand(chance)


def _read_sum(field: Field, chance: Chance) -> Demand:
    parts = elements(field)
    if not 1 <= len(parts) <= _MOST_PARTS:
        raise field.refused(f"a list of 1 to {_MOST_PARTS} demands")
    if chance.depth >= _DEEPEST:
        raise field.refused(f"at most {_DEEPEST} sums deep")
    return Sum(tuple(read_demand(each, chance.inner(place)) for place, each in enumerate(parts)))
