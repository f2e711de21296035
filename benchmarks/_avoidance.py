"""What one onset above a waterline did to batch work's quota and to the node's usage. Pure.

Owns the definitions. First throttle: the first quota below the one at the onset. Ended: the node's
usage over the last seconds of the onset. A swing: a reversal of the quota by more than 10 % of the
waterline. Restored: no quota any more, after the load has ended.
"""

import math
from collections.abc import Sequence

import msgspec

from benchmarks._series import (
    NOT_LOOKED_AT,
    UNLIMITED,
    Sample,
    between,
    quota_changes,
    swings,
)

BAND = 0.10
#: The last part of an onset, in which usage has ended where it does, in microseconds.
END = 5_000_000


class Avoidance(msgspec.Struct, frozen=True):
    """Seconds after the onset, or after the load's end; None where it did not happen. milliCPU."""

    first_throttle: float | None
    ended: float
    swings: int
    lowest: int
    restored: float | None
    path: tuple[int, ...]


def avoidance(
    samples: Sequence[Sample], onset: int, end: int, watched: int, waterline: float
) -> Avoidance:
    """The load runs from `onset` to `end` and is watched until `watched`, in microseconds."""
    changes = quota_changes(between(samples, onset, watched))
    throttles = [(at, quota) for at, quota in changes if quota != UNLIMITED and at < end]
    path = [quota for _, quota in throttles]
    lifted = [at for at, quota in changes if quota == UNLIMITED and at >= end]
    return Avoidance(
        (throttles[0][0] - onset) / 1e6 if throttles else None,
        node_usage(between(samples, end - END, end)),
        swings(path, BAND * waterline),
        min(path, default=UNLIMITED),
        (lifted[-1] - end) / 1e6 if lifted and throttles else None,
        tuple(path),
    )


def node_usage(samples: Sequence[Sample]) -> float:
    """In milliCPU."""
    looked = [sample for sample in samples if sample.all_used != NOT_LOOKED_AT]
    first, last = looked[0], looked[-1]
    return 1000 * (last.all_used - first.all_used) / (last.at - first.at)


def steps_time(lowest: int, first: int, step: int, period: float) -> float:
    """Seconds that raising by `step` percent a tick takes, from the lowest quota to the first."""
    if lowest <= 0 or lowest >= first:
        return period
    return period * math.ceil(math.log(first / lowest) / math.log(1 + step / 100))
