"""Units of CPU, time and memory, Kubernetes quantities, durations, and the one rounding rule.

Owns every conversion between units. Refuses floats: a quantity is exact until it is rounded,
and it is rounded once, here.

The rounding rule: rounding favours whoever was promised something. What a pod was promised
(its request, its limit) rounds up; what is left for others rounds down.
"""

import enum
import re
from typing import Annotated, NewType

import msgspec

from slackwater.model.problem import Problem, quoted

MilliCpu = NewType("MilliCpu", int)
Micros = NewType("Micros", int)
Bytes = NewType("Bytes", int)
Percent = NewType("Percent", int)
Permille = NewType("Permille", int)


class Unlimited(enum.Enum):
    """No limit. The kernel's spellings, -1 and "max", stay at the kernel's edge."""

    UNLIMITED = "unlimited"


UNLIMITED = Unlimited.UNLIMITED

#: CFS period that the kubelet and every runtime use unless told otherwise.
DEFAULT_PERIOD = Micros(100_000)
#: min_cfs_quota_period in kernel/sched/core.c: the kernel answers EINVAL below 1 ms.
SMALLEST_QUOTA = Micros(1_000)


def promised(numerator: int, denominator: int) -> int:
    """The quotient in whole units, rounded up: nobody gets less than was promised."""
    return -(-numerator // denominator)


def left_over(numerator: int, denominator: int) -> int:
    """The quotient in whole units, rounded down: nothing is handed out that is not there."""
    return numerator // denominator


class Bandwidth(msgspec.Struct, frozen=True, gc=False, tag="bandwidth", omit_defaults=True):
    """CPU time per period: what cpu.max, or cfs_quota_us with cfs_period_us, holds."""

    limit: Micros | Unlimited
    period: Annotated[Micros, msgspec.Meta(ge=1)] = DEFAULT_PERIOD

    def milli(self) -> MilliCpu | Unlimited:
        """The same in milliCPU (limit in us x 1000 / period in us)."""
        if isinstance(self.limit, Unlimited):
            return UNLIMITED
        return MilliCpu(promised(self.limit * 1000, self.period))

    def exceeds(self, other: "Bandwidth") -> bool:
        """Whether this lets more CPU time through than `other`, whatever their periods."""
        if isinstance(other.limit, Unlimited):
            return False
        if isinstance(self.limit, Unlimited):
            return True
        return self.limit * other.period > other.limit * self.period


def bandwidth(milli: MilliCpu, period: Micros = DEFAULT_PERIOD) -> Bandwidth:
    """milliCPU as CPU time per period (milli x period / 1000); zero or less means unlimited.

    The conversion is that of Volcano's CPU throttling. A policy never asks for zero: an exhausted
    budget is granted SMALLEST_QUOTA, to which any positive amount below it is raised as well.
    """
    if milli <= 0:
        return Bandwidth(UNLIMITED, period)
    return Bandwidth(Micros(max(promised(milli * period, 1000), SMALLEST_QUOTA)), period)


def smallest_milli(period: Micros = DEFAULT_PERIOD) -> MilliCpu:
    """The kernel's smallest quota in milliCPU of this period."""
    return MilliCpu(promised(SMALLEST_QUOTA * 1000, period))


class Ratio(msgspec.Struct, frozen=True, tag="ratio"):
    """An exact ratio of two integers; the denominator is positive."""

    numerator: int
    denominator: Annotated[int, msgspec.Meta(ge=1)] = 1

    def of(self, amount: int) -> int:
        """That part of a promised amount."""
        return promised(amount * self.numerator, self.denominator)

    def left_of(self, amount: int) -> int:
        """That part of a left-over amount."""
        return left_over(amount * self.numerator, self.denominator)


def percent(value: int) -> Ratio:
    return Ratio(value, 100)


_SUFFIXES: dict[str, tuple[int, int]] = {
    "n": (1, 10**9),
    "u": (1, 10**6),
    "m": (1, 10**3),
    "": (1, 1),
    **{s: (10 ** (3 * i), 1) for i, s in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{s: (1 << (10 * i), 1) for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
# k8s.io/apimachinery resource.ParseQuantity: sign, digits with at most one point, then a suffix
# or an exponent, never both. A lone point is not a number.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)
#: Quantities are int64 in Kubernetes; longer digit strings are an attack or a mistake.
_LONGEST_QUANTITY = 64
_LARGEST_EXPONENT = 18


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity; str() is one sentence with the text in it."""


def parse_quantity(text: str) -> Ratio:
    """A Kubernetes quantity ("250m", "1.5Gi", "1e3") as an exact number of base units."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_QUANTITY else None
    digits = (match["whole"] + (match["part"] or "")) if match else ""
    if match is None or not digits:
        raise QuantityError(
            f"{text[:_LONGEST_QUANTITY]!r} is not a quantity such as 250m, 0.5 or 2Gi"
        )
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _LARGEST_EXPONENT:
        raise QuantityError(f"{text!r} has an exponent beyond 10^±{_LARGEST_EXPONENT}")
    multiplier, divisor = _SUFFIXES[match["suffix"] or ""]
    numerator = int(digits) * multiplier * 10 ** max(exponent, 0)
    denominator = divisor * 10 ** (len(match["part"] or "") + max(-exponent, 0))
    return Ratio(-numerator if match["sign"] == "-" else numerator, denominator)


def parse_milli_cpu(text: str) -> MilliCpu:
    """A CPU quantity in milliCPU, rounded up as Kubernetes' MilliValue does."""
    return MilliCpu(parse_quantity(text).of(1000))


def parse_bytes(text: str) -> Bytes:
    """A memory quantity in bytes, rounded up as Kubernetes' Value does."""
    return Bytes(parse_quantity(text).of(1))


#: In nanoseconds, and in the order in which they are written. Go takes both of Unicode's mu.
_UNITS = {"h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1_000}
_READ = {**_UNITS, "ns": 1, "\u00b5s": 1_000, "\u03bcs": 1_000}
_PART = r"([0-9]{1,12})?(?:\.([0-9]{0,9}))?(h|ms|m|s|us|ns|\u00b5s|\u03bcs)"
_DURATION = re.compile(rf"(?:(?=\.?[0-9]){_PART})+", re.ASCII)
_LONGEST = 40
_AGE_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))
EXAMPLES = "a duration such as 500ms, 1s or 1m30s"


class DurationError(ValueError):
    """A text that is not a duration; str() is one sentence with the text in it."""


def parse_duration(text: str, where: str) -> Micros:
    """Go's spelling of a duration, exact to the microsecond."""
    total, scale = 0, 10**9 * _UNITS["us"]
    if len(text) <= _LONGEST and _DURATION.fullmatch(text):
        for whole, part, unit in re.findall(_PART, text):
            digits = int(whole + part) * 10 ** (9 - len(part))
            total += digits * _READ[unit]
        if total % scale == 0:
            return Micros(total // scale)
    raise DurationError(Problem(where, quoted(text), EXAMPLES).sentence())


def format_duration(duration: Micros) -> str:
    """The same back, in the largest units first; zero is "0s"."""
    parts, rest = [], int(duration) * _UNITS["us"]
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_age(age: Micros) -> str:
    """For people, in the largest unit only: 12 s, 3 min, 2 h, 4 d. Negative ages, of clocks that
    disagree, are 0 s."""
    seconds = max(int(age) // 1_000_000, 0)
    size, unit = next((step for step in _AGE_STEPS if seconds >= step[0]), (1, "s"))
    return f"{seconds // size} {unit}"
