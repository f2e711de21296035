"""Taking turns: on a full node pods and containers have thousands of files, so a tick reads some of
them. What was read before counts until the group's turn comes again, unless it is older than a
sample may be.
"""

from collections.abc import Iterator

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.units import Micros
from slackwater.observation.metrics.pod_metrics import GroupSeries
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, MetricAges

_MICROS_PER_SECOND = 1_000_000


class GroupValue(msgspec.Struct, frozen=True, gc=False):
    """What was read last, and when; `failed` is why it could not be read since then."""

    at: Micros
    value: float | Gap
    failed: Gap | None = None


class GroupTurns:
    """Whose turn it is, and the last value of each group."""

    def __init__(self) -> None:
        self.series: tuple[GroupSeries, ...] = ()
        self.values: dict[int, GroupValue] = {}
        self._next = 0

    def follow(self, series: tuple[GroupSeries, ...]) -> bool:
        """Whether the groups are others than before; those that went are forgotten."""
        if series is self.series:
            return False
        self.series = series
        living = {each.ref.id for each in series}
        for gone in self.values.keys() - living:
            del self.values[gone]
        return True

    def due(self, at: Micros, ages: MetricAges) -> list[GroupSeries]:
        """Groups that were never read, and those that will soon be too old."""
        half = min((age for age in ages.values() if age), default=0) // 2
        return [
            each
            for each in self.series
            if (known := self.values.get(each.ref.id)) is None or (half and at - known.at > half)
        ]

    def in_turn(self, at: Micros) -> Iterator[GroupSeries]:
        """All that were not read at this time yet, after the one that was last."""
        for _ in self.series:
            self._next = (self._next + 1) % len(self.series)
            each = self.series[self._next]
            if self.values[each.ref.id].at != at:
                yield each

    def note(self, ref: CgroupRef, at: Micros, found: float | Gap, ages: MetricAges) -> None:
        """What was read. Where that failed, and samples may be old, the last value stays."""
        known, made = self.values.get(ref.id), GroupValue(at, found)
        is_kept = known is not None and not isinstance(known.value, Gap) and any(ages.values())
        if known is not None and is_kept and isinstance(found, Gap) and found is not VANISHED:
            made = GroupValue(known.at, known.value, found)
        self.values[ref.id] = made

    def value(self, ref: CgroupRef, at: Micros, oldest: Micros) -> float | Gap:
        """`oldest` is how old it may be; 0 sets no bound."""
        known = self.values.get(ref.id)
        if known is None:
            return NEEDS_SECOND
        if oldest and at - known.at > oldest:
            seconds = (at - known.at) // _MICROS_PER_SECOND
            why = f"{known.failed.reason}; " if known.failed else ""
            return Gap(f"{why}the last sample is {seconds} s old")
        return known.value
