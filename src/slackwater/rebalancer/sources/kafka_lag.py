"""Computes the lag of a consumer group from that of its partitions."""

import math
from collections.abc import Iterable

from slackwater.settings.rebalancer import LagSum


def partition_lag(committed: int | None, begin: int, end: int) -> int:
    """Messages that are still to be read. If nothing was committed, or the log does not contain the
    committed offset (after retention, or a topic that was created again), all that there are."""
    if committed is None or not begin <= committed <= end:
        return end - begin
    return end - committed


def aggregate_lag(partitions: Iterable[float], aggregate: LagSum) -> int:
    """Rounded up, so that 1000.5 is above 1000. At least one partition is needed."""
    fold = max if aggregate is LagSum.MAX else math.fsum
    return math.ceil(fold(partitions))
