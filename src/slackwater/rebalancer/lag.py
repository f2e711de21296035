"""How far a consumer group is behind, as one number, and whether it may be disturbed now.

Owns what a partition's lag is, how partitions become one number, and the sentence of the gate.
Reads nothing: the numbers come from Prometheus or from a broker. A rotation makes the group hand
its partitions out anew, and nobody consumes meanwhile: a group far behind is left alone.
"""

import math
from collections.abc import Iterable

from slackwater.settings.rebalancer import LagSum


def partition_lag(committed: int | None, begin: int, end: int) -> int:
    """Messages that are still to be read. What was never committed, and what the log does not hold
    (any more, after retention; not again, after a topic was made anew), is all that there is."""
    if committed is None or not begin <= committed <= end:
        return end - begin
    return end - committed


def aggregate_lag(partitions: Iterable[float], aggregate: LagSum) -> int:
    """Rounded up, so that 1000.5 is above 1000. There has to be at least one."""
    fold = max if aggregate is LagSum.MAX else math.fsum
    return math.ceil(fold(partitions))


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
