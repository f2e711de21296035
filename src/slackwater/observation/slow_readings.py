"""Knobs of pods and containers, which change rarely: kept, and read again in turn.

Nobody but us and a restart writes them (real kubelets were watched for minutes), and opening the
files of 750 groups each second would cost more than the whole agent. A group's knobs are read
when it is new, after we wrote one of them, when others are asked for, and once in TURN ticks.
Counters are not this module's: they are read at each tick.
"""

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupRef
from slackwater.model.gap import VANISHED
from slackwater.model.needs import Field
from slackwater.model.units import Micros
from slackwater.observation.cgroup_tree import CgroupTree

#: A foreign write is noticed within so many ticks.
TURN = 30
EACH_TICK = frozenset({Field.TIMES, Field.PRESSURE})


class _Kept(msgspec.Struct, frozen=True):
    fields: frozenset[Field]
    reading: CgroupReading


class SlowReadings:
    """Guards the last reading of each group's knobs."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._kept: dict[int, _Kept] = {}

    def read(self, ref: CgroupRef, wants: frozenset[Field], at: Micros, due: bool) -> CgroupReading:
        """Counters of now, knobs of now or of a while ago."""
        fast, slow = wants & EACH_TICK, wants - EACH_TICK
        kept = self._kept.get(ref.id)
        if not slow:
            return self._tree.read(ref, fast, at)
        if due or kept is None or not slow <= kept.fields:
            reading = self._tree.read(ref, wants, at)
            self._kept[ref.id] = _Kept(slow, reading)
            return reading
        now = self._tree.read(ref, fast, at) if fast else kept.reading
        if now.times is VANISHED:
            return now
        old = kept.reading
        return CgroupReading(
            ref, at, now.times, old.quota, old.burst, old.weight, old.idle, old.cpus,
            now.pressure, old.others,
        )  # fmt: skip

    def keep(self, living: frozenset[int]) -> None:
        """Forgets all other groups."""
        for gone in self._kept.keys() - living:
            del self._kept[gone]
