"""A tier's quota and the CPU used around it as a series, and what a load's onset did to it. Pure.

Owns the definitions. The formula: what is allowed, less what everyone else used while the load
was steady, at least the kernel's smallest quota. First cut: the first quota below the one at the
onset. Settled: from here on within 5 % of the formula. A swing: a reversal of direction after the
first cut by more than those 5 %. Recovered, after the load's end: from here on at least 90 % of the
budget, which is the formula for the load's absence; a swing there is a reversal on the way up.
"""

import bisect
from collections.abc import Sequence

import msgspec

BAND = 0.05
#: The part of its budget from which on a tier has its CPU back.
RECOVERED = 0.9
#: The load needs a moment to have its CPU; the formula is about the time after it.
STEADY_AFTER = 500_000
SMALLEST = 10.0
#: A quota that is unlimited, in milliCPU.
UNLIMITED = -1
#: A usage that was not looked at in this sample.
NOT_LOOKED_AT = -1


class Sample(msgspec.Struct, frozen=True):
    """Microseconds of one clock; the tier's quota in milliCPU; CPU time used so far by all, and
    by the tier, in microseconds."""

    at: int
    quota: int
    all_used: int
    tier_used: int


class Reaction(msgspec.Struct, frozen=True):
    """Seconds after the onset; None where it did not happen. milliCPU."""

    first_cut: float | None
    settled: float | None
    swings: int
    before: int
    formula: float
    path: tuple[int, ...]


def reaction(samples: Sequence[Sample], onset: int, end: int, allowed: float) -> Reaction:
    """What happened between the onset and the end, in microseconds of the samples' clock."""
    goal = formula(between(samples, onset + STEADY_AFTER, end), allowed)
    before = samples[max(bisect.bisect_right(samples, onset, key=_at) - 1, 0)].quota
    changes = quota_changes(between(samples, onset, end))
    after = changes[1:] if changes[0][1] == before else changes
    first = next((at for at, quota in after if quota < before or before == UNLIMITED), None)
    path = [quota for at, quota in after if first is not None and at >= first]
    settled = None if first is None else _settled(after, before, goal, onset)
    return Reaction(
        None if first is None else (first - onset) / 1e6,
        None if settled is None else (settled - onset) / 1e6,
        swings(path, BAND * goal),
        before,
        goal,
        tuple(path),
    )


class Recovery(msgspec.Struct, frozen=True):
    """After the load's end. Seconds, None where it did not happen; milliCPU."""

    recovered: float | None
    swings: int
    before: int
    formula: float
    path: tuple[int, ...]


def recovery(samples: Sequence[Sample], load_end: int, end: int, allowed: float) -> Recovery:
    """How the quota came back between the load's end and the end of the watch."""
    goal = formula(between(samples, load_end + STEADY_AFTER, end), allowed)
    changes = quota_changes(between(samples, load_end, end))
    since: int | None = None
    for at, quota in changes:
        enough = quota == UNLIMITED or quota >= RECOVERED * goal
        since = (at if since is None else since) if enough else None
    path = tuple(quota for _, quota in changes)
    return Recovery(
        None if since is None else (since - load_end) / 1e6,
        swings(path, BAND * goal, direction=1),
        path[0],
        goal,
        path[1:],
    )


def formula(samples: Sequence[Sample], allowed: float) -> float:
    return max(allowed - others(samples), SMALLEST)


def others(samples: Sequence[Sample]) -> float:
    """CPU used by all but the tier, in milliCPU."""
    first, last = _ends(samples)
    used = (last.all_used - first.all_used) - (last.tier_used - first.tier_used)
    return 1000 * used / (last.at - first.at)


def tier(samples: Sequence[Sample]) -> float:
    """CPU used by the tier, in milliCPU."""
    first, last = _ends(samples)
    return 1000 * (last.tier_used - first.tier_used) / (last.at - first.at)


def shares_of_budget(samples: Sequence[Sample], allowed: float, window: int) -> tuple[float, float]:
    """The part of its budget that the tier got: overall, and in the worst window."""
    parts = [
        between(samples, at, at + window)
        for at in range(samples[0].at, samples[-1].at - window + 1, window // 5)
    ]
    shares = [tier(part) / formula(part, allowed) for part in parts if len(part) > 1]
    return tier(samples) / formula(samples, allowed), min(shares)


def between(samples: Sequence[Sample], start: int, end: int) -> Sequence[Sample]:
    low = bisect.bisect_left(samples, start, key=_at)
    return samples[low : bisect.bisect_right(samples, end, key=_at)]


def quota_changes(samples: Sequence[Sample]) -> list[tuple[int, int]]:
    """When the quota became what; the first one is the quota that stood there."""
    found: list[tuple[int, int]] = []
    for sample in samples:
        if not found or found[-1][1] != sample.quota:
            found.append((sample.at, sample.quota))
    return found


def swings(path: Sequence[int], band: float, direction: int = -1) -> int:
    """Reversals by more than the band, from the last turning point. Before the first one the path
    goes down (-1) or up (1)."""
    found = 0
    turn = path[0] if path else 0
    for quota in path:
        if (quota - turn) * direction >= 0:
            turn = quota
        elif abs(quota - turn) > band:
            found, direction, turn = found + 1, -direction, quota
    return found


def _ends(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """The first and the last whose usage was looked at."""
    looked = [sample for sample in samples if sample.all_used != NOT_LOOKED_AT]
    return looked[0], looked[-1]


def _settled(after: Sequence[tuple[int, int]], before: int, goal: float, onset: int) -> int | None:
    """The start of the last stretch within the band, if it lasts to the end."""
    since: int | None = None
    for at, quota in [(onset, before), *after]:
        inside = abs(quota - goal) <= BAND * goal
        since = (at if since is None else since) if inside else None
    return since


def _at(sample: Sample) -> int:
    return sample.at
