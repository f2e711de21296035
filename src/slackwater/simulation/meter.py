"""Measures a simulated node: who wanted, got and lost how much CPU, and when.

Sums over the whole run, and the same for a few hundred equal intervals of it, for a picture. It
reads the fake kernel's counters of unmet demand, which an agent never sees.
"""

from collections import Counter

import msgspec

from slackwater.model.cgroup import CgroupRef, CpuTimes, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.record.journal import TickRecord
from slackwater.simulation.simulated_node import SimulatedNode

#: Enough for one picture across a screen.
INTERVALS = 450
_ONLINE = (Tier.GUARANTEED, Tier.BURSTABLE)


class CpuTime(msgspec.Struct):
    """CPU time of one tier, used and wanted in vain, in microseconds."""

    used: int = 0
    lost: int = 0


class Interval(msgspec.Struct):
    """CPU times are sums over it; `quota` is that of `limited`, the part of it with a
    quota, and `allowed` the last that stood in it, None where there was none. `offered` and
    `bought` are milliCPU of elastic CPU × microseconds, `waiting` jobs × microseconds."""

    length: int = 0
    used: dict[str, int] = msgspec.field(default_factory=dict)
    lost: int = 0
    quota: int = 0
    limited: int = 0
    allowed: MilliCpu | None = None
    offered: int = 0
    bought: int = 0
    waiting: int = 0


class UsageMeter:
    """The sums. `measure` ends a span of time, `add_round` adds what the agent did."""

    def __init__(self, node: SimulatedNode, duration: Micros) -> None:
        self._node = node
        self._duration = duration
        self._then = Micros(0)
        self._before = {tier: CpuTime() for tier in Tier}
        self._system_before = 0
        self._allowed: MilliCpu | None = None
        self._allowed_by = ""
        self._offered = MilliCpu(0)
        self._bought = MilliCpu(0)
        self._waiting = 0
        self.tiers = {tier: CpuTime() for tier in Tier}
        self.system = 0
        #: What others left of the machine, and what the quota's formula left of that.
        self.idle = 0
        self.budget = 0
        self.was_on = False
        #: What best effort wanted within that, got of it, and got beyond it.
        self.could = 0
        self.had = 0
        self.beyond = 0
        #: Time in which the online tiers together lost this many milliCPU.
        self.lost: Counter[int] = Counter()
        #: The agent's rounds, what became of its changes, its repairs and truces, its policies.
        self.rounds: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.courses: Counter[str] = Counter()
        self.intervals = [Interval() for _ in range(INTERVALS)]

    def add_round(self, done: TickRecord | Gap) -> None:
        """What a round did; a Gap for one that saw nothing. Keeps what the policy allows."""
        if isinstance(done, Gap):
            self.rounds["blind"] += 1
            return
        self.rounds["early" if done.snapshot.early else "regular"] += 1
        self.writes.update(outcome.result.value for outcome in done.outcomes)
        self.notes.update(note.kind.value for note in done.story.notes)
        self.courses.update(told.course.value for told in done.story.told)
        for report in done.story.told:
            if "allowed" in report.numbers:
                self._allowed = MilliCpu(report.numbers["allowed"])
                self._allowed_by = report.policy
                self.was_on = True
        if self._allowed_by not in {report.policy for report in done.story.told}:
            self._allowed = None

    def set_sold(self, offered: MilliCpu, bought: MilliCpu, waiting: int) -> None:
        """From now on: elastic CPU that the Node offers, what jobs have of it, and how many jobs
        wait for some."""
        self._offered, self._bought, self._waiting = offered, bought, waiting

    def measure(self, now: Micros) -> None:
        """Adds what happened since the last call."""
        length = now - self._then
        if not length:
            return
        now_at = self._counters()
        spent = {
            tier: CpuTime(c.used - self._before[tier].used, c.lost - self._before[tier].lost)
            for tier, c in now_at.items()
        }
        system_now = self._system()
        system = system_now - self._system_before
        for tier, each in spent.items():
            self.tiers[tier].used += each.used
            self.tiers[tier].lost += each.lost
        self.system += system
        online = sum(spent[tier].used for tier in _ONLINE) + system
        self._share(length, online, spent[Tier.BESTEFFORT])
        lost = sum(spent[tier].lost for tier in _ONLINE)
        self.lost[lost * 1000 // length] += length
        self._add_to_interval(now, length, spent, system, lost)
        self._then, self._before, self._system_before = now, now_at, system_now

    def _share(self, length: int, online: int, best: CpuTime) -> None:
        """What best effort could have had in this span: no more than it wanted."""
        idle = max(self._node.cpus * length - online, 0)
        self.idle += idle
        if self._allowed is None:
            room = idle
        else:
            room = max(self._allowed * length // 1000 - online, 0)
            self.budget += room
        could = min(best.used + best.lost, room)
        self.could += could
        self.had += min(best.used, could)
        self.beyond += max(best.used - room, 0)

    def _add_to_interval(
        self, now: Micros, length: int, spent: dict[Tier, CpuTime], system: int, lost: int
    ) -> None:
        middle = now - length // 2
        interval = self.intervals[min(middle * INTERVALS // self._duration, INTERVALS - 1)]
        interval.length += length
        for name, used in (("system", system), *((t.value, c.used) for t, c in spent.items())):
            interval.used[name] = interval.used.get(name, 0) + used
        interval.lost += lost
        interval.allowed = self._allowed
        interval.offered += self._offered * length
        interval.bought += self._bought * length
        interval.waiting += self._waiting * length
        quota = self._quota()
        if not isinstance(quota, Unlimited):
            interval.quota += quota * length
            interval.limited += length

    def _quota(self) -> MilliCpu | Unlimited:
        found = self._node.kernel.read(self._node.tiers[Tier.BESTEFFORT], QUOTA)
        return found.milli() if isinstance(found, Bandwidth) else UNLIMITED

    def _counters(self) -> dict[Tier, CpuTime]:
        """Guaranteed pods are what the tiers leave of the whole tree, those that ended too."""
        tree = self._read(self._node.kubepods)
        tiers = {tier: self._read(ref) for tier, ref in self._node.tiers.items()}
        used = tree.used - sum(each.used for each in tiers.values())
        lost = tree.lost - sum(each.lost for each in tiers.values())
        return {Tier.GUARANTEED: CpuTime(used, lost), **tiers}

    def _read(self, ref: CgroupRef) -> CpuTime:
        times, lost = self._node.kernel.times(ref), self._node.kernel.lost(ref)
        if not isinstance(times, CpuTimes) or isinstance(lost, Gap):
            return CpuTime()
        return CpuTime(times.usage, lost)

    def _system(self) -> int:
        usage = self._node.kernel.node_usage().usage
        return max(usage - self._read(self._node.kubepods).used, 0)
