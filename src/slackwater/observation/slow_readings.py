"""Knobs of pods and containers, which change rarely: kept, and read again in turn.

Nobody but us and a restart writes them (real kubelets were watched for minutes), and opening the
files of 750 groups each second would cost more than the whole agent. A group's knobs are read
when it is new, after we wrote one of them, when others are asked for, and once in TURN ticks.
Counters are not this module's: they are read at each tick.
"""

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupRef
from slackwater.model.gap import NOT_ASKED, VANISHED
from slackwater.model.needs import EACH_TICK, Field
from slackwater.model.units import Micros
from slackwater.observation.cgroup_tree import CgroupTree

#: A foreign write is noticed within so many ticks.
TURN = 30


class Wanted(msgspec.Struct, frozen=True):
    """One level's fields, apart: those of each tick and those in turn."""

    all: frozenset[Field]
    fast: frozenset[Field]
    slow: frozenset[Field]


def wanted(fields: frozenset[Field]) -> Wanted:
    return Wanted(fields, fields & EACH_TICK, fields - EACH_TICK)


class _Kept(msgspec.Struct, frozen=True):
    fields: frozenset[Field]
    reading: CgroupReading


class SlowReadings:
    """Guards the last reading of each group's knobs."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._kept: dict[int, _Kept] = {}

    def read(self, ref: CgroupRef, wants: Wanted, at: Micros, due: bool) -> CgroupReading:
        """Counters of now, knobs of now or of a while ago."""
        kept = self._kept.get(ref.id)
        if wants.slow and (due or kept is None or not wants.slow <= kept.fields):
            reading = self._tree.read(ref, wants.all, at)
            self._kept[ref.id] = _Kept(wants.slow, reading)
            return reading
        quota = kept.reading.quota if kept is not None else NOT_ASKED
        times, pressure = self._tree.counters(ref, wants.fast, quota)
        if kept is None or not wants.slow or times is VANISHED:
            return CgroupReading(ref, at, times, pressure=pressure)
        old = kept.reading
        return CgroupReading(
            ref, at, times, old.quota, old.burst, old.weight, old.idle, old.cpus,
            pressure, old.others,
        )  # fmt: skip

    def keep(self, living: frozenset[int]) -> None:
        """Forgets all other groups."""
        for gone in self._kept.keys() - living:
            del self._kept[gone]
