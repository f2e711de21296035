"""How many replicas an HPA would need, given how evenly the load lies. Pure.

Owns the formula: enough for the mean to be at the target, and enough for the hottest pod not to be
above the threshold, if load divides among more pods in the proportions that it has.
"""

import math
from collections.abc import Sequence

import msgspec

from slackwater.rebalancer.fleet import Cores, PercentOf, Seconds

_HOUR = 3600.0
#: A quotient that is whole but for rounding needs no further replica.
_SLACK = 1e-9


class Saved(msgspec.Struct, frozen=True, rename="camel"):
    """By an HPA that scales on the flatter fleet: replicas x time, the same in requested CPU, and
    as a part of what it would need without rotation."""

    replica_hours: float
    core_hours: float
    percent: PercentOf


def replicas(usages: Sequence[float], target: Cores, threshold: Cores) -> int:
    """max(total / target, total x (hottest / mean) / threshold), rounded up; at least one.
    total x hottest / mean is hottest x pods. All in cores."""
    total, hottest = math.fsum(usages), max(usages)
    needed = max(total / target, hottest * len(usages) / threshold)
    return max(math.ceil(needed * (1 - _SLACK)), 1)


def saved(
    without: Sequence[int], rotated: Sequence[int], requests: Sequence[Cores], step: Seconds
) -> Saved:
    """Step by step: replicas needed without and with rotation, and one pod's request."""
    fewer = [one - other for one, other in zip(without, rotated, strict=True)]
    cores = math.fsum(f * request for f, request in zip(fewer, requests, strict=True))
    all_cores = math.fsum(n * request for n, request in zip(without, requests, strict=True))
    hours = step / _HOUR
    percent = PercentOf(round(100 * cores / all_cores if all_cores else 0.0, 2))
    return Saved(round(sum(fewer) * hours, 2), round(cores * hours, 2), percent)
