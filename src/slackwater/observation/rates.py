"""Counters to rates. A counter that went backwards, or a group seen once, has no rate yet; nor has
one that was read a moment ago: the kernel brings counters up to date once in some milliseconds."""

from collections.abc import Mapping

from slackwater.model.cgroup import CgroupReading, CpuTimes
from slackwater.model.gap import Gap
from slackwater.model.machine import NodeUsage
from slackwater.model.snapshot import Rate
from slackwater.model.units import Micros, MilliCpu, left_over

_PER_MILLE = 1000
#: Two readings that are closer than this make no rate: over 0.6 ms a node of two busy CPUs was seen
#: at 0m and at 3063m.
SHORTEST = Micros(50_000)
_AT_REST = Rate(MilliCpu(0), 0)


class Rates:
    """Keeps the readings before, of the groups and of the node."""

    def __init__(self) -> None:
        self._groups: Mapping[int, CgroupReading] = {}
        self._groups_at = Micros(0)
        #: Counters that were read once, to be compared with next time, and when.
        self._started: Mapping[int, CpuTimes] = {}
        self._started_at = Micros(0)
        self._node: tuple[Micros, NodeUsage] | None = None

    def start(self, times: Mapping[int, CpuTimes], at: Micros) -> None:
        """Counters of groups that have not been read so far, by cgroup id."""
        self._started, self._started_at = times, at

    def of_groups(self, readings: Mapping[int, CgroupReading], at: Micros) -> dict[int, Rate]:
        """By cgroup id; a group that was not read this time is forgotten. All counters are those of
        `at`, also in a reading that is older because nothing moved since."""
        before, then = self._groups, self._groups_at
        if before and 0 <= at - then < SHORTEST:
            return {}  # the next rate begins where this one would have
        self._groups, self._groups_at = readings, at
        found: dict[int, Rate] = {}
        for identity, reading in readings.items():
            times = reading.times
            if isinstance(times, Gap) or identity not in before:
                continue
            earlier = before[identity].times
            if not isinstance(earlier, Gap):
                rate = _rate(then, earlier, at, times)
                if rate is not None:
                    found[identity] = rate
        found |= self._of_started(readings, at)
        return found

    def _of_started(self, readings: Mapping[int, CgroupReading], at: Micros) -> dict[int, Rate]:
        found: dict[int, Rate] = {}
        started, self._started = self._started, {}
        if at - self._started_at < SHORTEST:
            return found
        for identity, earlier in started.items():
            times = readings[identity].times if identity in readings else None
            if isinstance(times, CpuTimes):
                rate = _rate(self._started_at, earlier, at, times)
                if rate is not None:
                    found[identity] = rate
        return found

    def of_node(self, usage: NodeUsage | Gap, at: Micros) -> MilliCpu | Gap:
        """Usages of two sources do not compare: after a change of source there is a gap."""
        before = self._node
        if isinstance(usage, Gap):
            return usage
        if before is not None and 0 <= at - before[0] < SHORTEST:
            return Gap("the node was read a moment ago, too soon for a rate")
        self._node = (at, usage)
        if before is None:
            return Gap("the node was read only once so far")
        then, earlier = before
        if earlier.source is not usage.source or usage.usage < earlier.usage or at <= then:
            return Gap("the node's usage cannot be compared with the reading before")
        return MilliCpu(left_over((usage.usage - earlier.usage) * 1000, at - then))


def _rate(then: Micros, earlier: CpuTimes, at: Micros, now: CpuTimes) -> Rate | None:
    elapsed = at - then
    if now is earlier and elapsed > 0:
        return _AT_REST
    if elapsed <= 0 or now.usage < earlier.usage or now.throttled < earlier.throttled:
        return None
    usage = left_over((now.usage - earlier.usage) * 1000, elapsed)
    throttled = left_over((now.throttled - earlier.throttled) * _PER_MILLE, elapsed)
    return Rate(MilliCpu(usage), throttled, _throttled_periods(earlier, now))


def _throttled_periods(earlier: CpuTimes, now: CpuTimes) -> int:
    """Never more than all of them: the two counters are not read at one instant."""
    periods = now.periods - earlier.periods
    throttled = now.throttled_periods - earlier.throttled_periods
    if periods <= 0 or throttled <= 0:
        return 0
    return min(left_over(throttled * _PER_MILLE, periods), _PER_MILLE)
