"""Demands as a scenario writes them: a quantity, or one shape with its numbers.

Owns the shapes' keys, defaults and bounds. Chance comes in as a name: the same seed and pod draw
the same noise, whatever other pods there are.
"""

import random
from collections.abc import Callable

import msgspec

from slackwater.contract.document import Field, elements, members, text, whole
from slackwater.contract.kubernetes import milli_cpu
from slackwater.model.duration import EXAMPLES, DurationError, format_duration, parse_duration
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import Micros, MilliCpu, Ratio
from slackwater.simulation.demand import (
    DAY,
    SECOND,
    Daily,
    Demand,
    Spike,
    Square,
    Steady,
    Steps,
    Sum,
    noise,
)

#: One CFS period: what moves faster is below what a quota can see.
SHORTEST_STEP = Micros(100_000)
#: A week is the longest simulation; a demand's own times may lie a little beyond.
LONGEST = Micros(31 * DAY)
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


def known(field: Field, *names: str) -> dict[str, Field]:
    """What a mapping says, null left out; a key that nobody knows is refused."""
    found = members(field)
    for key, _ in found:
        if key not in names:
            wanted = f"one of {', '.join(names)}"
            raise InvalidError(Problem(f"a key of {field.where()}", quoted(key), wanted))
    return {key: each for key, each in found if each.value is not None}


def needed(field: Field, said: dict[str, Field], key: str, wanted: str) -> Field:
    """A key that has to be there."""
    if key not in said:
        raise field.at(key, None).refused(wanted)
    return said[key]


def duration(field: Field, low: Micros, high: Micros) -> Micros:
    wanted = f"{EXAMPLES}, {format_duration(low)} to {format_duration(high)}"
    if not isinstance(field.value, str):
        raise field.refused(wanted)
    try:
        length = parse_duration(field.value, field.where())
    except DurationError:
        raise field.refused(wanted) from None
    if not low <= length <= high:
        raise field.refused(wanted)
    return length


def number(field: Field, low: int, high: int) -> int:
    if not low <= whole(field) <= high:
        raise field.refused(f"a whole number, {low} to {high}")
    return whole(field)


def read_demand(field: Field, chance: Chance) -> Demand:
    """A bare quantity is steady."""
    if not isinstance(field.value, dict):
        return Steady(milli_cpu(field))
    shapes = members(field)
    if len(shapes) != 1 or shapes[0][0] not in _SHAPES:
        wanted = f"a quantity or exactly one of {', '.join(_SHAPES)}"
        seen = ", ".join(str(key) for key, _ in shapes)
        raise InvalidError(Problem(field.where(), quoted(seen), wanted))
    ((shape, inner),) = shapes
    return _SHAPES[shape](inner, chance)


def _steady(field: Field, _: Chance) -> Demand:
    return Steady(milli_cpu(field))


def _daily(field: Field, _: Chance) -> Demand:
    said = known(field, "mean", "swing", "period", "peak", "step")
    return Daily(
        milli_cpu(needed(field, said, "mean", "a quantity such as 2 or 500m")),
        milli_cpu(needed(field, said, "swing", "a quantity such as 2 or 500m")),
        _time(said, "period", Micros(SECOND), DAY),
        _time(said, "peak", Micros(0), Micros(DAY // 2)),
        _time(said, "step", SHORTEST_STEP, SECOND),
    )


def _spike(field: Field, _: Chance) -> Demand:
    said = known(field, "at", "height", "for", "base")
    at = needed(field, said, "at", EXAMPLES)
    length = needed(field, said, "for", EXAMPLES)
    return Spike(
        duration(at, Micros(0), LONGEST),
        milli_cpu(needed(field, said, "height", "a quantity such as 2 or 500m")),
        duration(length, SHORTEST_STEP, LONGEST),
        _level(said, "base"),
    )


def _square(field: Field, _: Chance) -> Demand:
    said = known(field, "period", "duty", "high", "low")
    period = needed(field, said, "period", EXAMPLES)
    percent = number(said["duty"], 1, 99) if "duty" in said else 50
    return Square(
        duration(period, SHORTEST_STEP, LONGEST),
        Ratio(percent, 100),
        milli_cpu(needed(field, said, "high", "a quantity such as 2 or 500m")),
        _level(said, "low"),
    )


def _steps(field: Field, _: Chance) -> Demand:
    said = known(field, "levels", "step")
    levels = needed(field, said, "levels", "a list of quantities")
    listed = tuple(milli_cpu(each) for each in elements(levels))
    if not 1 <= len(listed) <= _MOST_STEPS:
        raise levels.refused(f"a list of 1 to {_MOST_STEPS} quantities")
    return Steps(listed, _time(said, "step", SHORTEST_STEP, SECOND))


def _noise(field: Field, chance: Chance) -> Demand:
    said = known(field, "low", "high", "step", "steps")
    low, high = _level(said, "low"), needed(field, said, "high", "a quantity such as 2 or 500m")
    if milli_cpu(high) < low:
        raise high.refused(f"at least low, which is {low}m")
    count = number(said["steps"], 1, _MOST_STEPS) if "steps" in said else 3600
    step = _time(said, "step", SHORTEST_STEP, SECOND)
    return noise(chance.numbers(), low, milli_cpu(high), step, count)


def _sum(field: Field, chance: Chance) -> Demand:
    parts = elements(field)
    if not 1 <= len(parts) <= _MOST_PARTS:
        raise field.refused(f"a list of 1 to {_MOST_PARTS} demands")
    if chance.depth >= _DEEPEST:
        raise field.refused(f"at most {_DEEPEST} sums deep")
    return Sum(tuple(read_demand(each, chance.inner(place)) for place, each in enumerate(parts)))


def _level(said: dict[str, Field], key: str) -> MilliCpu:
    return milli_cpu(said[key]) if key in said else MilliCpu(0)


def _time(said: dict[str, Field], key: str, low: Micros, default: Micros) -> Micros:
    return duration(said[key], low, LONGEST) if key in said else default


_SHAPES: dict[str, Callable[[Field, Chance], Demand]] = {
    "steady": _steady,
    "daily": _daily,
    "spike": _spike,
    "square": _square,
    "steps": _steps,
    "noise": _noise,
    "sum": _sum,
}


def word(field: Field, words: dict[str, object]) -> str:
    """One of these words."""
    if not isinstance(field.value, str) or field.value not in words:
        raise field.refused(f"one of {', '.join(words)}")
    return text(field)
