"""A kernel in memory: a tree of cgroups that accepts, rejects and enforces values as Linux does.

It has the methods of execution.knob_writer.KnobFiles with the outcomes of the real writer,
plus what a real node gets from elsewhere: cgroups made and removed, tasks started and ended, time
passing. It reads no clock: virtual time passes when `advance` is called. The scheduler divides CPU
time in steps that end where a quota's period ends or a demand changes; where nothing changes from
one round of periods to the next, it multiplies one round, with the same result.

tests/kernel/test_rules.py compares it with real kernels, rule by rule. Not modelled: memory usage,
PSI, systemd, kernel threads.
"""

import errno
import math
import os

from slackwater.execution.knob_writer import GONE, Attempt, Note, no_note
from slackwater.model.cgroup import (
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuTimes,
    Level,
    Tier,
)
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import BURST, QUOTA, Knob, KnobFile, KnobValue
from slackwater.model.knob_text import COMMON_PAGE, KnobRangeError, decode, encode, settle_in_file
from slackwater.model.machine import NodeUsage, NodeUsageSource
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import DEFAULT_PERIOD, Micros, Unlimited
from slackwater.simulation.demand import FOREVER
from slackwater.simulation.fair_share import Claim, Pool, divide, pools_of
from slackwater.simulation.fake_cgroup import (
    NANOS,
    NICE_0_SHARES,
    FakeCgroup,
    SimulatedTask,
    check_value,
    write_sequences,
)


class _Layout:
    """The tree as the scheduler walks it; rebuilt after each change of the tree."""

    def __init__(self, root: FakeCgroup) -> None:
        self.groups = list(root.below())
        self.find_limits()
        self.work: list[tuple[SimulatedTask, Claim]] = []
        for group in self.groups:
            mask = group.effective_cpus().mask
            own = [Claim(NICE_0_SHARES * task.threads, mask) for task in group.tasks.values()]
            self.work += zip(group.tasks.values(), own, strict=True)
            claim = group.claim = Claim(group.shares(), mask)
            claim.claims = own
        for group in self.groups:
            group.claim.claims = [*group.claim.claims, *(c.claim for c in group.children.values())]
        self.claims = [group.claim for group in self.groups]
        self.widths = [(claim, claim.mask.bit_count()) for claim in self.claims]
        self.pools: list[Pool] = pools_of([claim for _, claim in self.work], root.cpus.mask)

    def find_limits(self) -> None:
        """Which groups have a quota, and their periods: all that a change of a quota affects."""
        self.limited = [g for g in self.groups if not isinstance(g.runtime.quota, Unlimited)]
        self.periods = sorted({g.runtime.period for g in self.limited} | {DEFAULT_PERIOD})
        #: After so long all periods end together, and the round starts anew.
        self.round = Micros(math.lcm(*self.periods))


class Scheduler:
    """Virtual time, and the division of CPU time."""

    def __init__(self, root: FakeCgroup) -> None:
        self.now = Micros(0)
        self._root = root
        self._layout: _Layout | None = None
        self._levels: list[tuple[Claim, int]] = []

    def forget_layout(self) -> None:
        """Call it after each change of a group, a task, or a setting other than a quota."""
        self._layout = None

    def forget_limits(self) -> None:
        """Call it after each change of a quota or a burst."""
        if self._layout is not None:
            self._layout.find_limits()

    def advance(self, micros: Micros) -> None:
        end = Micros(self.now + micros)
        while self.now < end:
            layout = self._layout = self._layout or _Layout(self._root)
            changes = [task.demand.holds_until(self.now) for task, _ in layout.work]
            until = Micros(min(end, *changes, FOREVER))
            self._levels = [(claim, task.level(self.now)) for task, claim in layout.work]
            self._run(layout, until)

    def _run(self, layout: _Layout, until: Micros) -> None:
        """Until a time up to which every demand is constant."""
        while self.now < until:
            if self.now % layout.round == 0 and until - self.now >= 2 * layout.round:
                self._run_rounds(layout, until)
            else:
                self._step(layout, until)

    def _run_rounds(self, layout: _Layout, until: Micros) -> None:
        """One round; if it leaves every budget unchanged, all identical rounds that follow."""
        start = [group.runtime.state() for group in layout.limited]
        counted = [group.runtime.counters() for group in layout.limited]
        used = [(group, group.used, group.lost) for group in layout.groups]
        end = Micros(self.now + layout.round)
        while self.now < end:
            self._step(layout, end)
        if start != [group.runtime.state() for group in layout.limited]:
            return
        times = (until - self.now) // layout.round
        for group, before in zip(layout.limited, counted, strict=True):
            group.runtime.repeat(before, times)
        for group, used_before, lost_before in used:
            group.used += times * (group.used - used_before)
            group.lost += times * (group.lost - lost_before)
        self.now = Micros(self.now + times * layout.round)

    def _step(self, layout: _Layout, until: Micros) -> None:
        now = self.now
        end = min(until, *(now - now % period + period for period in layout.periods))
        micros = end - now
        duration = micros * NANOS
        for claim, width in layout.widths:
            claim.limit = width * duration
        for group in layout.limited:
            group.claim.limit = min(group.claim.limit, group.runtime.left)
        for claim, level in self._levels:
            # milliCPU × us = ns
            claim.wanted = level * micros
            claim.usable = min(claim.wanted, claim.mask.bit_count() * duration)
        divide(layout.claims, layout.pools, duration)
        for group in layout.groups:
            claim = group.claim
            group.used += claim.got
            group.lost += claim.wanted - claim.got
        self.now = Micros(end)
        for group in layout.limited:
            possible = min(group.claim.asked, group.claim.mask.bit_count() * duration)
            group.runtime.spend(group.claim.got, possible, duration)
            if end % group.runtime.period == 0:
                group.runtime.end_period()


NO_PRESSURE = Gap("the fake kernel has no PSI; it counts lost CPU time")
_APPLIED = Attempt(Result.APPLIED)
#: kernfs numbers the root 1.
_ROOT_ID = 1


class TreeError(ValueError):
    """A cgroup that cannot be made: a mistake in the scenario."""


class FakeKernel:
    """One node's cgroups. All of them take part in scheduling, the root included."""

    def __init__(self, version: CgroupVersion, cpus: int, page_size: int = COMMON_PAGE) -> None:
        self.page_size = page_size
        self._version = version
        self._root = FakeCgroup(CgroupRef("", _ROOT_ID, Level.NODE), None, version)
        self._root.cpus = CpuSet.of(range(cpus))
        self._groups = {"": self._root}
        self._last_id = _ROOT_ID
        #: All but the root, parents first; None after the tree changed.
        self._listed: tuple[CgroupRef, ...] | None = None
        #: CPU time of top groups that are gone.
        self._carried = 0
        self._scheduler = Scheduler(self._root)

    @property
    def now(self) -> Micros:
        return self._scheduler.now

    def root(self) -> CgroupRef:
        return self._root.ref

    def cpus(self) -> CpuSet:
        """The machine's CPUs."""
        return self._root.cpus

    def refs(self) -> tuple[CgroupRef, ...]:
        """Every cgroup but the root, parents before their children; the same tuple again if the
        tree did not change."""
        if self._listed is None:
            self._listed = tuple(group.ref for group in self._root.below())[1:]
        return self._listed

    def make(
        self, path: str, level: Level = Level.POD, tier: Tier = Tier.GUARANTEED, owner: str = ""
    ) -> CgroupRef:
        """A new cgroup, with an id that was never used before. Its parent must exist."""
        above, _, name = path.rpartition("/")
        parent = self._groups.get(above)
        if parent is None or not name or path in self._groups:
            raise TreeError(f"{path!r} cannot be made: it is there, or its parent is not")
        if self._version is CgroupVersion.V2 and parent.tasks and parent is not self._root:
            raise TreeError(f"{path!r} cannot be made: there are tasks in its parent")
        self._last_id += 1
        ref = CgroupRef(path, self._last_id, level, tier, owner)
        self._groups[path] = parent.children[name] = FakeCgroup(ref, parent, self._version)
        self._listed = None
        self._scheduler.forget_layout()
        return ref

    def remove(self, ref: CgroupRef) -> Attempt:
        """Its CPU time stays counted in the groups above."""
        group = self._find(ref)
        if group is None:
            return GONE
        if group.parent is None or group.children or group.tasks:
            return Attempt(Result.REFUSED, os.strerror(errno.EBUSY))
        del group.parent.children[ref.name()], self._groups[ref.path]
        self._carried += group.used if group.parent is self._root else 0
        self._listed = None
        self._scheduler.forget_layout()
        return _APPLIED

    def attach(self, ref: CgroupRef, task: SimulatedTask) -> Attempt:
        """Starts a task in a cgroup, replacing one of the same name."""
        group = self._find(ref)
        if group is None:
            return GONE
        if self._version is CgroupVersion.V1 and not group.cpus:
            return Attempt(Result.REFUSED, os.strerror(errno.ENOSPC))  # cpuset_can_attach
        if self._version is CgroupVersion.V2 and group.children and group.parent:
            return Attempt(Result.REFUSED, os.strerror(errno.EBUSY))  # no internal processes
        group.tasks[task.name] = task
        self._scheduler.forget_layout()
        return _APPLIED

    def detach(self, ref: CgroupRef, name: str) -> Attempt:
        """Ends a task."""
        group = self._find(ref)
        if group is None or group.tasks.pop(name, None) is None:
            return GONE
        self._scheduler.forget_layout()
        return _APPLIED

    def take_offline(self, cpus: CpuSet) -> None:
        """These CPUs are offline from now on, and all others online."""
        every = self._root.cpus | self._root.offline
        self._root.offline, self._root.cpus = cpus, CpuSet(every.mask & ~cpus.mask)
        for group in self._root.below():
            group.lose_offline_cpus()
        self._scheduler.forget_layout()

    def advance(self, micros: Micros) -> None:
        """Lets time pass."""
        self._scheduler.advance(micros)

    def version(self, _knob: Knob) -> CgroupVersion:
        """The same for every knob: hybrid hosts are not simulated."""
        return self._version

    def hierarchy(self) -> str:
        """The hierarchy's identity for the ledger: there is only one."""
        return f"fake:{_ROOT_ID}"

    def locate(self, path: str) -> int | None:
        group = self._groups.get(path)
        return None if group is None else group.ref.id

    def lives(self, ref: CgroupRef) -> bool:
        return self._find(ref) is not None

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap:
        match self._open(ref, knob):
            case Attempt(result=Result.VANISHED):
                return VANISHED
            case Attempt(detail=detail):
                return Gap(detail)
            case group, _:
                return group.value(knob)

    def text(self, ref: CgroupRef, knob: Knob) -> str | Attempt:
        match self._open(ref, knob):
            case Attempt() as attempt:
                return attempt
            case group, _:
                return encode(knob, self._version, group.value(knob))

    def value(self, knob: Knob, text: str) -> KnobValue | Gap:
        return decode(knob, self._version, text)

    def shows(self, knob: Knob, text: str, value: KnobValue) -> bool:
        """Whether the kernel shows that value as this text."""
        standing = self.value(knob, text)
        return not isinstance(standing, Gap) and self._is_shown(knob, standing, value)

    def write(self, change: Change, note: Note = no_note) -> Outcome:
        """One change, unless the knob already has that value."""
        opened = self._open(change.ref, change.knob)
        attempt = opened if isinstance(opened, Attempt) else self._write(*opened, change, note)
        return Outcome(change, attempt.result, attempt.detail)

    def restore(self, change: Change, _text: str) -> Outcome:
        """Restores a text that the kernel once showed; `change.new` is its value."""
        return self.write(change)

    def times(self, ref: CgroupRef) -> CpuTimes | Gap:
        group = self._find(ref)
        return VANISHED if group is None else group.times()

    def lost(self, ref: CgroupRef) -> Micros | Gap:
        """CPU time that its tasks wanted and could have used on idle CPUs, but did not get."""
        group = self._find(ref)
        return VANISHED if group is None else Micros(group.lost // NANOS)

    def effective_cpus(self, ref: CgroupRef) -> CpuSet | Gap:
        """Those that its tasks run on: cpuset.cpus.effective, cpuset.effective_cpus on v1."""
        group = self._find(ref)
        return VANISHED if group is None else group.effective_cpus()

    def reading(self, ref: CgroupRef, at: Micros) -> CgroupReading | Gap:
        group = self._find(ref)
        if group is None:
            return VANISHED
        return CgroupReading(
            ref=ref,
            at=at,
            times=group.times(),
            quota=group.quota,
            burst=group.burst,
            weight=group.weight,
            idle=group.idle,
            cpus=group.cpus,
            pressure=NO_PRESSURE,
        )

    def node_usage(self) -> NodeUsage:
        """As on a real node: v2 does not count tasks in the root cgroup."""
        if self._version is CgroupVersion.V1:
            return NodeUsage(Micros(self._root.used // NANOS), NodeUsageSource.ROOT_GROUP)
        used = self._carried + sum(child.used for child in self._root.children.values())
        return NodeUsage(Micros(used // NANOS), NodeUsageSource.TOP_GROUPS)

    def _find(self, ref: CgroupRef) -> FakeCgroup | None:
        group = self._groups.get(ref.path)
        return group if group is not None and group.ref.id == ref.id else None

    def _open(self, ref: CgroupRef, knob: Knob) -> tuple[FakeCgroup, KnobFile] | Attempt:
        """The cgroup and the file, or the error of the real writer without them."""
        file = knob.file(self._version)
        if isinstance(file, Gap):
            return Attempt(Result.UNSUPPORTED, file.reason)
        group = self._find(ref)
        if group is None:
            if ref.path in self._groups:
                return Attempt(Result.VANISHED, f"another cgroup stands at {ref.path} by now")
            return GONE
        on_root = group.parent is None and self._version is CgroupVersion.V2
        if knob.vendor or on_root:  # CFTYPE_NOT_ON_ROOT
            return Attempt(Result.UNSUPPORTED, f"this cgroup has no {file.name}")
        return group, file

    def _write(self, group: FakeCgroup, file: KnobFile, change: Change, note: Note) -> Attempt:
        knob, new = change.knob, change.new
        if self._is_shown(knob, group.value(knob), new):
            return Attempt(Result.UNCHANGED)
        try:
            text = encode(knob, self._version, new)
        except KnobRangeError as out_of_range:
            return Attempt(Result.REFUSED, str(out_of_range))
        refusal = note(encode(knob, self._version, group.value(knob)), text)
        if refusal is not None:
            return refusal
        error = self._put(group, knob, new)
        if error == errno.ENOSPC and new == CpuSet() and self._every_cpu():
            error = self._put(group, knob, self._every_cpu())
        if not error:
            return _APPLIED
        detail = f"the kernel refused {text!r} in {file.name}: {os.strerror(error)}"
        return Attempt(Result.REFUSED, detail)

    def _put(self, group: FakeCgroup, knob: Knob, new: KnobValue) -> int:
        """Tries one sequence of writes, then the other; the error if both fail."""
        error = 0
        for way in write_sequences(group, new):
            error = self._put_in_turn(group, knob, way)
            if not error:
                break
        if knob in (QUOTA, BURST):
            self._scheduler.forget_limits()
        else:
            self._scheduler.forget_layout()
        return error

    def _put_in_turn(self, group: FakeCgroup, knob: Knob, values: tuple[KnobValue, ...]) -> int:
        """One write after the other; if a later one is refused, the first is undone."""
        old = group.value(knob)
        for value in values:
            error = check_value(group, knob, value)
            if error:
                if group.value(knob) != old and not check_value(group, knob, old):
                    group.take(knob, old)
                return error
            group.take(knob, settle_in_file(knob, value, self.page_size))
        return 0

    def _is_shown(self, knob: Knob, standing: KnobValue, value: KnobValue) -> bool:
        """All CPUs stand for "as the parent", which v2 refuses for populated groups."""
        if standing == settle_in_file(knob, value, self.page_size):
            return True
        every = self._every_cpu()
        if value != CpuSet() or not isinstance(standing, CpuSet) or not every:
            return False
        return every.within(standing)

    def _every_cpu(self) -> CpuSet:
        """The v2 root's CPUs; none on v1, where an empty cpuset is really empty."""
        return CpuSet() if self._version is CgroupVersion.V1 else self._root.cpus
