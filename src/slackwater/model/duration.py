"""Durations as people write them: "1s", "500ms", "1m30s". Text to microseconds and back.

A number without a unit is refused, because nobody knows which one was meant.
"""

import re

from slackwater.model.problem import Problem, quoted
from slackwater.model.units import Micros

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
