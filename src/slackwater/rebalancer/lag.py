"""How far a consumer group is behind, as one number, and whether it may be disturbed now.

Owns what a partition's lag is, how partitions become one number, and the sentence of the gate.
Reads nothing: the numbers come from Prometheus or from a broker. A rotation makes the group hand
its partitions out anew, and nobody consumes meanwhile: a group far behind is left alone.
"""

import math
from collections.abc import Iterable

from slackwater.model.gap import Gap
from slackwater.rebalancer.proposal import Guard
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.seen import Lag
from slackwater.settings.rotation import KafkaSettings, LagMode, LagSum

GUARD = "kafka_lag"
#: Consumers are usually called like their pod; a Deployment's new pod has a new name (KIP-345).
_KEEPS_NAMES = "StatefulSet"
_IN_VAIN = (
    "a pod of a StatefulSet comes back under its name and gets the same partitions, so nothing "
    "would move"
)


def partition_lag(committed: int | None, begin: int, end: int) -> int:
    """Messages that are still to be read. What was never committed, and what the log does not hold
    (any more, after retention; not again, after a topic was made anew), is all that there is."""
    if committed is None or not begin <= committed <= end:
        return end - begin
    return end - committed


def as_one(partitions: Iterable[float], aggregate: LagSum) -> int:
    """Rounded up, so that 1000.5 is above 1000. There has to be at least one."""
    fold = max if aggregate is LagSum.MAX else math.fsum
    return math.ceil(fold(partitions))


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def lag_guard(lag: Lag | Gap, settings: KafkaSettings, group: str, kind: str = "") -> Guard:
    """What is not known forbids: who is behind would only fall back further. `kind`: of the
    workload."""
    whose = _whose(settings, group)
    if isinstance(lag, Gap):
        because = f"the lag of {whose} is not known: {lag.reason}"
        return Guard(GUARD, False, because, Reason.KAFKA_LAG_UNKNOWN)
    if lag.unsettled:
        because = f"{whose} is not settled: {lag.unsettled} ({lag.source})"
        return Guard(GUARD, False, because, Reason.KAFKA_REBALANCING)
    if lag.static_members and kind == _KEEPS_NAMES:
        because = f"{whose} has {counted(lag.static_members, 'static member')} ({lag.source})"
        return Guard(GUARD, False, f"{because}: {_IN_VAIN}", Reason.KAFKA_STATIC_MEMBERS)
    above = lag.messages > settings.threshold
    relation = "above" if above else "not above"
    where = " in one partition" if settings.aggregate is LagSum.MAX else ""
    because = (
        f"{whose} is {counted(lag.messages, 'message')} behind{where}, {relation} "
        f"{settings.threshold} ({lag.source})"
    )
    return _judged(above, settings.mode, because)


def _judged(above: bool, mode: LagMode, because: str) -> Guard:
    if mode is LagMode.BLOCK_ABOVE and above:
        return Guard(GUARD, False, because, Reason.KAFKA_LAG_HIGH)
    if mode is LagMode.REQUIRE_ABOVE and not above:
        return Guard(GUARD, False, because, Reason.KAFKA_LAG_LOW)
    return Guard(GUARD, True, because)


def _whose(settings: KafkaSettings, group: str) -> str:
    on = f" on topic {settings.topic}" if settings.topic else ""
    return f"consumer group {group}{on}"
