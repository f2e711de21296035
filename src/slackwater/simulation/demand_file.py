"""Demands as a scenario writes them: a quantity, or one shape with its numbers.

Chance comes in as a name: the same seed and pod draw the same noise, whatever other pods there are.
"""

import random
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field, elements, members
from slackwater.contract.kubernetes import CpuQuantity, milli_cpu
from slackwater.contract.schema import Count, Duration, SettingsStruct
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import MilliCpu, Ratio
from slackwater.simulation.demand import (
    LONGEST,
    SECOND,
    SHORTEST_STEP,
    Daily,
    Demand,
    Spike,
    Square,
    Steady,
    Steps,
    Sum,
    noise,
)

_MOST_STEPS = 100_000
_MOST_PARTS = 16
#: Sums within sums; more is a mistake or an attack.
_DEEPEST = 8

_Step = Annotated[Duration, Meta(ge=SHORTEST_STEP, le=LONGEST)]


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
_SHAPES: dict[str, type[_Shape]] = {
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
    names = ("steady", *_SHAPES, "sum")
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
            shape = read_struct(inner, _SHAPES[name])
            return shape if isinstance(shape, Daily | Spike) else shape.demand(chance)


def _read_sum(field: Field, chance: Chance) -> Demand:
    parts = elements(field)
    if not 1 <= len(parts) <= _MOST_PARTS:
        raise field.refused(f"a list of 1 to {_MOST_PARTS} demands")
    if chance.depth >= _DEEPEST:
        raise field.refused(f"at most {_DEEPEST} sums deep")
    return Sum(tuple(read_demand(each, chance.inner(place)) for place, each in enumerate(parts)))
