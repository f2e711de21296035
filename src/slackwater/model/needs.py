"""What has to be read: fields of the cgroup tree, at which level; and metrics."""

import enum
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.model.cgroup import Level
from slackwater.model.metric import MetricRequest


class ReadingField(enum.Enum):
    """The parts of a CgroupReading that can be asked for; a knob's is called as the knob is."""

    TIMES = "times"
    QUOTA = "quota"
    BURST = "burst"
    WEIGHT = "weight"
    IDLE = "idle"
    CPUS = "cpus"
    PRESSURE = "pressure"
    MEMORY_MAX = "memory-max"
    MEMORY_HIGH = "memory-high"
    MEMORY_LOW = "memory-low"
    MEMORY_MIN = "memory-min"
    CPU_QOS_LEVEL = "cpu-qos-level"
    MEMORY_QOS_LEVEL = "memory-qos-level"

    # Enum's own is a Python function that hashes the name: it is asked for each group in each tick.
    __hash__ = object.__hash__


#: Counters move all the time; knobs only when somebody writes them.
EACH_TICK = frozenset({ReadingField.TIMES, ReadingField.PRESSURE})


class Needs(msgspec.Struct, frozen=True):
    """Fields by level; a level that is not named is not read, nor is any below it listed."""

    fields: Mapping[Level, frozenset[ReadingField]] = {}
    metrics: frozenset[MetricRequest] = frozenset()
    #: The machine's topology, its reserved CPUs and the kubelet's CPU manager.
    topology: bool = False

    def at(self, level: Level) -> frozenset[ReadingField]:
        return self.fields.get(level, frozenset())


_TIMES = frozenset({ReadingField.TIMES})
_WITH_QUOTA = frozenset({ReadingField.TIMES, ReadingField.QUOTA})
_WITH_PRESSURE = frozenset({ReadingField.TIMES, ReadingField.QUOTA, ReadingField.PRESSURE})

#: The node, its tiers, and the tiers' quotas.
TIERS = Needs({Level.NODE: _TIMES, Level.TIER: _WITH_QUOTA})
#: The same, and every pod's quota.
PODS = Needs({**TIERS.fields, Level.POD: _WITH_QUOTA})
#: What people look at: usage, quota and pressure of everything, and the machine.
EVERYTHING = Needs(dict.fromkeys(Level, _WITH_PRESSURE), topology=True)


def merge_needs(needs: Iterable[Needs]) -> Needs:
    """All that anybody needs."""
    needs = tuple(needs)
    union: dict[Level, frozenset[ReadingField]] = {}
    metrics: frozenset[MetricRequest] = frozenset()
    for each in needs:
        metrics |= each.metrics
        for level, fields in each.fields.items():
            union[level] = union.get(level, frozenset()) | fields
    return Needs(union, metrics, any(each.topology for each in needs))
