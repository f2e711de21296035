"""How long the tasks of pods and containers waited for a CPU, task by task."""

from collections.abc import Mapping, Sequence

import msgspec

from slackwater.model.cgroup import CgroupMounts, CgroupRef
from slackwater.model.gap import Gap
from slackwater.model.metric import Samples
from slackwater.model.units import Micros
from slackwater.observation.host import Roots
from slackwater.observation.metrics import proc_text
from slackwater.observation.metrics.group_tasks import (
    ListedTasks,
    ScannedTasks,
    TasksOfGroups,
    sees_all_tasks,
)
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
