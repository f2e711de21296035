"""Settings that are numbers with a fraction: what they may be, and what they are if nobody says.

Owns their check. Refuses what is no finite number: NaN passes every comparison that forbids
something, and infinity switches a setting off without saying so.
"""

import math
import re

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted

_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?", re.ASCII)


class Real(msgspec.Struct, frozen=True):
    """`low` and `high` are inside; None is open. `unit` is what stands behind a number."""

    name: str
    default: float
    low: float
    high: float | None
    prose: str
    unit: str = ""

    def shown(self, number: float) -> str:
        return f"{number:g}{self.unit}"

    def span(self) -> str:
        if self.high is None:
            return f"at least {self.shown(self.low)}"
        return f"{self.shown(self.low)} to {self.shown(self.high)}"


def check_real(real: Real, value: object, where: str) -> float:
    """The value if it is a finite number inside the bound."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refusal(real, value, where)
    high = math.inf if real.high is None else real.high
    try:
        number = float(value)
    except OverflowError:
        raise _refusal(real, value, where) from None
    if not math.isfinite(number) or not real.low <= number <= high:
        raise _refusal(real, value, where)
    return number


def check_real_text(real: Real, text: str, where: str) -> float:
    """The same for a flag or an environment variable, in plain decimals."""
    if not _DECIMAL.fullmatch(text):
        raise _refusal(real, text, where)
    try:
        return check_real(real, float(text), where)
    except InvalidError:
        raise _refusal(real, text, where) from None


def _refusal(real: Real, value: object, where: str) -> InvalidError:
    return InvalidError(Problem(where, quoted(value), f"a number, {real.span()}"))
