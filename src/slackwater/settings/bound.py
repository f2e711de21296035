"""Bounds: what a setting is called, what it may be, what it is if nobody says, and why.

Owns the check of one value and the words for it. Refuses to guess: true is not 1, 0.5 is not 0,
and "80" in a file is a text; only a flag or a variable, which is always a text, is read as one.
"""

import enum
import re

import msgspec

from slackwater.model.duration import EXAMPLES, DurationError, format_duration, parse_duration
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import Micros

#: An open bound ends where 64 bits end.
LARGEST = 2**63 - 1
#: More digits are none of 64 bits.
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

_MANY_DIGITS = re.compile(r"[+-]?[0-9]{20,}", re.ASCII)


class Unit(enum.Enum):
    """What a bound's numbers count. A duration is held in microseconds and written as 1s."""

    PERCENT = "%"
    PERMILLE = "‰"
    COUNT = "count"
    DURATION = "duration"


class Bound(msgspec.Struct, frozen=True):
    """A setting that is a number. `low` and `high` are inside; None is open."""

    name: str
    default: int
    low: int | None
    high: int | None
    unit: Unit
    prose: str

    def shown(self, number: int) -> str:
        """A number with its unit, as the documents show it."""
        match self.unit:
            case Unit.DURATION:
                return format_duration(Micros(number))
            case Unit.COUNT:
                return str(number)
            case unit:
                return f"{number} {unit.value}"

    def written(self, number: int) -> int | str:
        """A number as a settings file holds it."""
        return format_duration(Micros(number)) if self.unit is Unit.DURATION else number

    def span(self) -> str:
        """The bound in words: "1 % to 100 %", "at least 0 %"."""
        match self.low, self.high:
            case int(low), int(high):
                return f"{self.shown(low)} to {self.shown(high)}"
            case int(low), _:
                return f"at least {self.shown(low)}"
            case _, int(high):
                return f"at most {self.shown(high)}"
            case _:
                return "any of 64 bits"

    def holds(self, number: int) -> bool:
        low = -LARGEST if self.low is None else self.low
        high = LARGEST if self.high is None else self.high
        return low <= number <= high

    def refusal(self, value: object, where: str) -> InvalidError:
        if self.unit is Unit.DURATION:
            return InvalidError(Problem(where, quoted(value), f"{EXAMPLES}, {self.span()}"))
        bound = self._closed() if _is_beyond(value) else self
        return InvalidError(Problem(where, quoted(value), f"a whole number, {bound.span()}"))

    def _closed(self) -> "Bound":
        """With both ends, for whom "at least 1" tells nothing; "any of 64 bits" tells both."""
        match self.low, self.high:
            case int(), None:
                return msgspec.structs.replace(self, high=LARGEST)
            case None, int():
                return msgspec.structs.replace(self, low=-LARGEST)
            case _:
                return self


def _is_beyond(value: object) -> bool:
    """Whether it is a whole number that 64 bits do not hold."""
    if isinstance(value, str):
        return _MANY_DIGITS.fullmatch(value) is not None
    return isinstance(value, int) and abs(value) > LARGEST


def check(bound: Bound, value: object, where: str) -> int:
    """The value if it is a whole number inside the bound, a duration's text included."""
    if bound.unit is Unit.DURATION:
        return _check_duration(bound, value, where)
    if isinstance(value, bool) or not isinstance(value, int) or not bound.holds(value):
        raise bound.refusal(value, where)
    return value


def check_text(bound: Bound, text: str, where: str) -> int:
    """The same for a flag or an environment variable."""
    if bound.unit is not Unit.DURATION and not _WHOLE.fullmatch(text):
        raise bound.refusal(text, where)
    return check(bound, text if bound.unit is Unit.DURATION else int(text), where)


def _check_duration(bound: Bound, value: object, where: str) -> int:
    if not isinstance(value, str):
        raise bound.refusal(value, where)
    try:
        duration = parse_duration(value, where)
    except DurationError:
        raise bound.refusal(value, where) from None
    if not bound.holds(duration):
        raise bound.refusal(value, where)
    return duration
