"""How long the tasks of pods and containers waited for a CPU, task by task.

The kernel lists the tasks of a cgroup by the numbers that they have in the reader's own PID
namespace, and leaves out those that have none there. An agent in a pod has a namespace of its own,
so there /proc is searched instead: every process says which cgroup it is in.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from slackwater.bounded_read import read_start
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.metric import Samples
from slackwater.model.units import Micros
from slackwater.observation.cgroups.files import GroupFolders
from slackwater.observation.cgroups.paths import container_id
from slackwater.observation.host import Roots
from slackwater.observation.metrics import proc_text
from slackwater.observation.metrics.node_metrics import read_proc
from slackwater.observation.metrics.pod_metrics import (
    GroupSeries,
    SeriesOfWorkloads,
    SeriesSamples,
)
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, MetricAges, TickView
from slackwater.observation.metrics.turns import GroupTurns

#: Tasks that a tick looks at; one takes some 10 us, listing those of a container four times that.
_TASKS_IN_A_TICK = 256
_LISTING = 4
_NANOS_PER_MICRO = 1000
_MICROS_PER_SECOND = 1_000_000
_NO_CONTAINER = Gap("it has no container that is known")
#: Groups below a container's own are looked into this far, as a systemd inside makes them.
_DEEPEST = 8
#: A tick must not become slow because of one container; one with more has no sample.
_MOST_TASKS = 2000
_TOO_MANY = Gap(f"it has more than {_MOST_TASKS} tasks")
#: Groups below one group, and bytes of one list.
_MOST_GROUPS = 64
_LONGEST_LIST = 16 * 1024
_OWN_LINKS = 2
_LONGEST_LINES = 16 * 1024
#: In so many searches every process is asked again: its number may be another one's by now.
_TURNS = 64
_PARTS = re.compile(r"[/\n]")


class TasksOfGroups(Protocol):
    def tasks(self, ref: CgroupRef) -> list[int] | Gap:
        """Threads of the container's processes, also of those in groups below its own."""
        ...


def sees_all_tasks(proc: str) -> bool:
    """Whether this /proc calls us by the number that we know: then it is of our PID namespace."""
    try:
        return os.readlink(f"{proc}/self") == str(os.getpid())
    except OSError:
        return False


class ListedTasks:
    """As the cgroup itself lists them."""

    def __init__(self, mounts: CgroupMounts) -> None:
        self._folders = GroupFolders(mounts)
        home = mounts.identity()
        v1 = not isinstance(home, Gap) and home.version is CgroupVersion.V1
        self._file = "tasks" if v1 else "cgroup.threads"

    def tasks(self, ref: CgroupRef) -> list[int] | Gap:
        try:
            folder = self._folders.open(CgroupController.CPU, ref.path, ref.id)
        except OSError as error:
            return self._folders.refusal(self._file, ref.path, ref.id, error)
        if isinstance(folder, Gap):
            return folder
        try:
            return _bounded(_tasks_below(folder, self._file, _DEEPEST))
        except OSError as error:
            return self._folders.refusal(self._file, ref.path, ref.id, error)
        finally:
            os.close(folder)


def _bounded(tasks: Iterator[int]) -> list[int] | Gap:
    found = list(islice(tasks, _MOST_TASKS + 1))
    return found if len(found) <= _MOST_TASKS else _TOO_MANY


def _read_list(fd: int) -> bytes:
    """Whole lines, up to a bound: more tasks than that are too many anyway."""
    text = b""
    while len(text) < _LONGEST_LIST and (piece := os.read(fd, _LONGEST_LIST)):
        text += piece
    return text


def _tasks_below(folder: int, name: str, deepest: int) -> Iterator[int]:
    """Of this group and of those below it. OSError is passed on."""
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        text = _read_list(fd)
    finally:
        os.close(fd)
    yield from map(int, text.split())
    if not deepest or os.fstat(folder).st_nlink <= _OWN_LINKS:
        return
    with os.scandir(folder) as entries:
        below = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    for child in below[:_MOST_GROUPS]:
        inner = os.open(child, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield from _tasks_below(inner, name, deepest - 1)
        finally:
            os.close(inner)


class ScannedTasks:
    """As the processes themselves say. Of a cgroup namespace other than the host's only the end of
    a path is the same: containers are told apart by their ids."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._ids: dict[int, frozenset[str]] = {}
        #: Found by the last search. They are asked once more: a container's first process may have
        #: been seen before it joined its cgroup.
        self._new: set[int] = set()
        self._processes: dict[str, list[int]] = {}
        self._turn = 0
        self._refused: Gap | None = None

    def refresh(self) -> None:
        """Searches /proc. New processes are asked twice, others in turn."""
        try:
            numbers = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError as error:
            self._refused = Gap(f"{self._proc}: {error.strerror}")
            return
        self._refused = None
        self._turn = (self._turn + 1) % _TURNS
        for gone in self._ids.keys() - numbers:
            del self._ids[gone]
        known = self._ids.keys() - self._new
        self._new = numbers - self._ids.keys()
        for number in numbers:
            if number not in known or number % _TURNS == self._turn:
                self._ids[number] = self._containers_of(number)
        self._processes = {}
        for number, ids in self._ids.items():
            for each in ids:
                self._processes.setdefault(each, []).append(number)

    def tasks(self, ref: CgroupRef) -> list[int] | Gap:
        if self._refused is not None:
            return self._refused
        return _bounded(self._threads(self._processes.get(container_id(ref.name()) or "", ())))

    def _threads(self, processes: Sequence[int]) -> Iterator[int]:
        for process in processes:
            try:
                yield from map(int, os.listdir(f"{self._proc}/{process}/task"))
            except OSError:
                continue  # it has ended

    def _containers_of(self, process: int) -> frozenset[str]:
        """The ids in the paths of its cgroups; several where containers run in containers."""
        contents = read_start(f"{self._proc}/{process}/cgroup", _LONGEST_LINES)
        if isinstance(contents, Gap):
            return frozenset()
        parts = _PARTS.split(contents.data.decode("ascii", "replace"))
        return frozenset(each for each in map(container_id, parts) if each)


class _Waited(msgspec.Struct, frozen=True, gc=False):
    """Nanoseconds that each task has waited since it began."""

    at: Micros
    by_task: Mapping[int, int]


class RunQueueTimes:
    """How long a container's tasks were ready to run and did not, in microseconds per second: from
    the schedstat of each of them. A pod's is the sum of its containers'."""

    names = frozenset({"container_sched_run_queue_time"})
    keeps_samples = True

    def __init__(self, roots: Roots, mounts: CgroupMounts, series: SeriesOfWorkloads) -> None:
        self._proc = roots.proc
        self._listed = ListedTasks(mounts)
        self._scanned = ScannedTasks(roots.proc)
        self._series = series
        self._turns = GroupTurns()
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
        tasks: TasksOfGroups = self._listed
        if not sees_all_tasks(self._proc):
            tasks = self._scanned
            tasks.refresh()
        looked = sum(
            self._look_at(tasks, each.ref, at, wanted) for each in self._turns.due(at, wanted)
        )
        for each in self._turns.in_turn(at) if looked < _TASKS_IN_A_TICK else ():
            looked += self._look_at(tasks, each.ref, at, wanted)
            if looked >= _TASKS_IN_A_TICK:
                break
        return {name: self._one(name, at, oldest) for name, oldest in wanted.items()}

    def forget(self) -> None:
        self._turns, self._samples, self._waited = GroupTurns(), SeriesSamples(), {}
        self._scanned = ScannedTasks(self._proc)
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

    def _look_at(self, tasks: TasksOfGroups, ref: CgroupRef, at: Micros, ages: MetricAges) -> int:
        """How many tasks were looked at; listing them counts, too."""
        listed = tasks.tasks(ref)
        now = listed if isinstance(listed, Gap) else self._waiting_times(listed)
        if isinstance(now, Gap):
            self._turns.note(ref, at, now, ages)
            return _LISTING
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
        self._turns.note(ref, at, value, ages)
        return _LISTING + len(now)

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
