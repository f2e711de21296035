"""Metrics of pods and containers from files that nothing else reads: working sets, and how long
their tasks waited for a CPU.

On a full node that is thousands of files, so a tick reads a part of them, in turn; what was read
before counts until its turn comes again, unless it is older than a sample may be.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.metric import Samples
from slackwater.model.units import Micros
from slackwater.observation.cgroups.files import GroupFolders, HeldFiles
from slackwater.observation.host import Roots
from slackwater.observation.kernel_text import garbage, number
from slackwater.observation.metrics import proc_text
from slackwater.observation.metrics.node_metrics import ELASTIC_MEMORY, read_proc
from slackwater.observation.metrics.pod_metrics import (
    GroupSeries,
    SeriesOfWorkloads,
    SeriesSamples,
    total_of,
)
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, MetricAges, TickView

#: Groups whose memory a tick reads. A reading takes some 20 us: memory.stat is summed up for it.
_GROUPS_IN_A_TICK = 100
#: Tasks that a tick looks at; one takes some 15 us.
_TASKS_IN_A_TICK = 256
#: Groups below a container's own are looked into this far, as a systemd inside makes them.
_DEEPEST = 8
#: memory.stat has 1 to 3 KiB, and each reading of it sums it up anew: one has to be enough.
_STAT_BUFFER = 8192
_OWN_LINKS = 2
_NANOS_PER_MICRO = 1000
_MICROS_PER_SECOND = 1_000_000
_NO_CONTAINER = Gap("it has no container that is known")


class _Value(msgspec.Struct, frozen=True, gc=False):
    """What was read last, and when. A Gap counts until the next reading."""

    at: Micros
    value: float | Gap


class _Turns:
    """Whose turn it is, and the last value of each group."""

    def __init__(self) -> None:
        self.series: tuple[GroupSeries, ...] = ()
        self.values: dict[int, _Value] = {}
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

    def value(self, ref: CgroupRef, at: Micros, oldest: Micros) -> float | Gap:
        """`oldest` is how old it may be; 0 sets no bound."""
        known = self.values.get(ref.id)
        if known is None:
            return NEEDS_SECOND
        if oldest and at - known.at > oldest:
            seconds = (at - known.at) // _MICROS_PER_SECOND
            return Gap(f"its last sample is {seconds} s old")
        return known.value


class WorkingSets:
    """Bytes that a group uses less those of files that nobody used for a while: what the kubelet
    and Crane call its working set. Guards the descriptors."""

    names = frozenset({"container_mem_total_usage", "ext_res_container_mem_total_usage"})

    def __init__(self, mounts: CgroupMounts, series: SeriesOfWorkloads) -> None:
        mount = mounts.mount(CgroupController.MEMORY)
        self._unmounted = mount if isinstance(mount, Gap) else None
        v1 = not isinstance(mount, Gap) and mount.version is CgroupVersion.V1
        self._usage = "memory.usage_in_bytes" if v1 else "memory.current"
        self._inactive = _INACTIVE_V1 if v1 else _INACTIVE_V2
        files = dict.fromkeys((self._usage, _STAT), CgroupController.MEMORY)
        self._held = HeldFiles(GroupFolders(mounts), files, _STAT_BUFFER)
        self._series = series
        self._turns = _Turns()
        self._samples = SeriesSamples()

    def measure(
        self, at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        if self._unmounted is not None:
            return dict.fromkeys(wanted, self._unmounted)
        if self._turns.follow(self._series.series(view.workloads)):
            self._held.keep(frozenset(each.ref.id for each in self._turns.series))
        due = self._turns.due(at, wanted)
        for each in due:
            self._read(each.ref, at)
        room = range(_GROUPS_IN_A_TICK - len(due))
        for _, each in zip(room, self._turns.in_turn(at), strict=False):
            self._read(each.ref, at)
        self._samples.keep(wanted)
        return {name: self._one(name, at, oldest) for name, oldest in wanted.items()}

    def forget(self) -> None:
        self._held.close()
        self._turns, self._samples = _Turns(), SeriesSamples()

    def _one(self, name: str, at: Micros, oldest: Micros) -> Samples | Gap:
        def value(each: GroupSeries) -> float | Gap:
            return self._turns.value(each.ref, at, oldest)

        if name == "container_mem_total_usage":
            return self._samples.make(name, self._turns.series, value)
        return total_of(self._turns.series, ELASTIC_MEMORY, value)

    def _read(self, ref: CgroupRef, at: Micros) -> None:
        self._turns.values[ref.id] = _Value(at, self._working_set(ref))

    def _working_set(self, ref: CgroupRef) -> float | Gap:
        usage = self._held.text(self._usage, ref.path, ref.id)
        stat = self._held.text(_STAT, ref.path, ref.id)
        if isinstance(usage, Gap):
            return usage
        if isinstance(stat, Gap):
            return stat
        used, inactive = number(self._usage, usage), self._inactive.search(stat)
        if isinstance(used, Gap):
            return used
        if inactive is None:
            return garbage(_STAT, stat)
        return float(max(used - int(inactive[1]), 0))


_STAT = "memory.stat"
# On v1 the lines without total_ leave out the groups below (memcg_stat_show in mm/memcontrol.c).
_INACTIVE_V1 = re.compile(rb"^total_inactive_file ([0-9]{1,20})$", re.MULTILINE)
_INACTIVE_V2 = re.compile(rb"^inactive_file ([0-9]{1,20})$", re.MULTILINE)


class _Waited(msgspec.Struct, frozen=True, gc=False):
    """Nanoseconds that each task has waited since it began."""

    at: Micros
    by_task: Mapping[int, int]


class RunQueueTimes:
    """How long a container's tasks were ready to run and did not, in microseconds per second: from
    the schedstat of each of them. A pod's is the sum of its containers'."""

    names = frozenset({"container_sched_run_queue_time"})

    def __init__(self, roots: Roots, mounts: CgroupMounts, series: SeriesOfWorkloads) -> None:
        self._proc = roots.proc
        self._folders = GroupFolders(mounts)
        home = mounts.identity()
        v1 = not isinstance(home, Gap) and home.version is CgroupVersion.V1
        self._list = "tasks" if v1 else "cgroup.threads"
        self._series = series
        self._turns = _Turns()
        self._waited: dict[int, _Waited] = {}
        self._samples = SeriesSamples()
        self._of: tuple[GroupSeries, ...] = ()
        self._containers: tuple[GroupSeries, ...] = ()

    def measure(
        self, at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        series = self._series.series(view.workloads)
        if series is not self._of:
            self._of = series
            self._containers = tuple(each for each in series if each.is_container)
        if self._turns.follow(self._containers):
            living = {each.ref.id for each in self._containers}
            self._waited = {i: each for i, each in self._waited.items() if i in living}
        looked = sum(self._look_at(each.ref, at) for each in self._turns.due(at, wanted))
        for each in self._turns.in_turn(at) if looked < _TASKS_IN_A_TICK else ():
            looked += self._look_at(each.ref, at)
            if looked >= _TASKS_IN_A_TICK:
                break
        return {name: self._one(name, at, oldest) for name, oldest in wanted.items()}

    def forget(self) -> None:
        self._turns, self._samples, self._waited = _Turns(), SeriesSamples(), {}
        self._of = self._containers = ()

    def _one(self, name: str, at: Micros, oldest: Micros) -> Samples | Gap:
        inside: dict[str, list[float | Gap]] = {}
        for each in self._containers:
            value = self._turns.value(each.ref, at, oldest)
            inside.setdefault(each.ref.owner, []).append(value)

        def value_of(each: GroupSeries) -> float | Gap:
            if each.is_container:
                return self._turns.value(each.ref, at, oldest)
            return _sum(inside.get(each.ref.owner, ()))

        return self._samples.make(name, self._of, value_of)

    def _look_at(self, ref: CgroupRef, at: Micros) -> int:
        """How many tasks were looked at, one for the look itself."""
        now = self._read(ref)
        if isinstance(now, Gap):
            self._turns.values[ref.id] = _Value(at, now)
            return 1
        before = self._waited.get(ref.id)
        self._waited[ref.id] = _Waited(at, now)
        value: float | Gap = NEEDS_SECOND
        if before is not None and at > before.at:
            # A task that is new began in between. A number that fell is another task's.
            grown = (
                waited - earlier if waited >= (earlier := before.by_task.get(task, 0)) else waited
                for task, waited in now.items()
            )
            value = sum(grown) / _NANOS_PER_MICRO * _MICROS_PER_SECOND / (at - before.at)
        self._turns.values[ref.id] = _Value(at, value)
        return 1 + len(now)

    def _read(self, ref: CgroupRef) -> dict[int, int] | Gap:
        try:
            folder = self._folders.open(CgroupController.CPU, ref.path, ref.id)
        except OSError as error:
            return self._folders.refusal(self._list, ref.path, ref.id, error)
        if isinstance(folder, Gap):
            return folder
        try:
            tasks = list(_tasks_below(folder, self._list, _DEEPEST))
        except OSError as error:
            return self._folders.refusal(self._list, ref.path, ref.id, error)
        finally:
            os.close(folder)
        if 0 in tasks:  # the kernel's number for a task that our PID namespace does not have
            return Gap("its tasks are not seen from here: the agent needs the host's PID namespace")
        return self._waiting_times(tasks)

    def _waiting_times(self, tasks: Sequence[int]) -> dict[int, int] | Gap:
        found: dict[int, int] = {}
        refused: Gap | None = None
        for task in tasks:
            text = read_proc(f"{self._proc}/{task}/schedstat")
            waited = text if isinstance(text, Gap) else proc_text.nanoseconds_waited(text)
            if isinstance(waited, Gap):
                refused = waited  # mostly it has ended
            else:
                found[task] = waited
        return refused if refused is not None and not found else found


def _sum(values: Sequence[float | Gap]) -> float | Gap:
    total = 0.0
    for value in values:
        if isinstance(value, Gap):
            return value
        total += value
    return total if values else _NO_CONTAINER


def _tasks_below(folder: int, name: str, deepest: int) -> Iterator[int]:
    """Of this group and of those below it. OSError is passed on."""
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        text = b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    finally:
        os.close(fd)
    yield from map(int, text.split())
    if not deepest or os.fstat(folder).st_nlink <= _OWN_LINKS:
        return
    with os.scandir(folder) as entries:
        below = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    for child in below:
        inner = os.open(child, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield from _tasks_below(inner, name, deepest - 1)
        finally:
            os.close(inner)
