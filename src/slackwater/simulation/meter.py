"""What a simulated node did: who wanted, got and lost how much CPU, and when.

Owns the sums, and the same in a few hundred equal stretches of time for a picture. Looks at the
fake kernel's counters, which know what was wanted; an agent never sees those.
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
STRETCHES = 450
_ONLINE = (Tier.GUARANTEED, Tier.BURSTABLE)


class CpuTime(msgspec.Struct):
    """CPU time of one tier, used and wanted in vain, in microseconds."""

    used: int = 0
    lost: int = 0


class Stretch(msgspec.Struct):
    """Some time. CPU times are sums over it; `quota` is that of `limited`, the part of it with a
    quota, and `allowed` the last that stood in it, None where there was none."""

    length: int = 0
    used: dict[str, int] = msgspec.field(default_factory=dict)
    lost: int = 0
    quota: int = 0
    limited: int = 0
    allowed: MilliCpu | None = None


class Meter:
    """Guards the sums. `look` ends a span of time, `note` says what the agent thinks of it."""

    def __init__(self, node: SimulatedNode, duration: Micros) -> None:
        self._node = node
        self._duration = duration
        self._then = Micros(0)
        self._before = {tier: CpuTime() for tier in Tier}
        self._system_before = 0
        self._allowed: MilliCpu | None = None
        self._allowed_by = ""
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
        #: How often, weighted by its length, the online tiers lost so many milliCPU together.
        self.lost: Counter[int] = Counter()
        #: The agent's rounds, what became of its changes, its repairs and truces, its policies.
        self.rounds: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.courses: Counter[str] = Counter()
        self.stretches = [Stretch() for _ in range(STRETCHES)]

    def note(self, done: TickRecord | Gap) -> None:
        """What all work together is allowed is what a policy said last; none while it is off."""
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

    def look(self, now: Micros) -> None:
        """Counts what happened since the last look."""
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
        self._draw(now, length, spent, system, lost)
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

    def _draw(
        self, now: Micros, length: int, spent: dict[Tier, CpuTime], system: int, lost: int
    ) -> None:
        middle = now - length // 2
        stretch = self.stretches[min(middle * STRETCHES // self._duration, STRETCHES - 1)]
        stretch.length += length
        for name, used in (("system", system), *((t.value, c.used) for t, c in spent.items())):
            stretch.used[name] = stretch.used.get(name, 0) + used
        stretch.lost += lost
        stretch.allowed = self._allowed
        quota = self._quota()
        if not isinstance(quota, Unlimited):
            stretch.quota += quota * length
            stretch.limited += length

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
