"""When requests are meant to be sent: Poisson arrivals in parts of different load. Pure.

Owns the open loop's promise: the times are fixed before the first request is sent, so a slow
answer delays no later request, and latency counts from the intended time.
"""

import random
from collections.abc import Sequence

from slackwater.demo.plan import Part


def intended_times(parts: Sequence[Part], seconds: float, cost: float, seed: int) -> list[float]:
    """Seconds after the start, ascending. `cost` is the CPU time of one request in seconds, so a
    part's load in CPUs asks for load / cost requests a second."""
    chance = random.Random(seed)  # noqa: S311 - arrivals, not secrets
    times: list[float] = []
    start = 0.0
    for part in parts:
        end = start + part.share * seconds
        at = start
        while (at := at + chance.expovariate(part.load / cost)) < end:
            times.append(at)
        start = end
    return times


def parts_of(parts: Sequence[Part], seconds: float) -> list[tuple[Part, float, float]]:
    """Each part with its first and its last second."""
    found, start = [], 0.0
    for part in parts:
        found.append((part, start, start + part.share * seconds))
        start += part.share * seconds
    return found
