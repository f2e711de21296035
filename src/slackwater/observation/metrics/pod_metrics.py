"""Metrics of pods and containers, from what the survey has read of their cgroups.

A pod's own series has an empty container. Static pods have theirs like all others, and a pod of
the tree without an object is called by its uid. Sandboxes, which no status names, have none.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.elastic import ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.metric import Sample, Samples
from slackwater.model.units import Micros, Unlimited
from slackwater.model.weight import SMALLEST_WEIGHT, Weight, WeightFormula, shares_from
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.observation.cgroups.paths import container_id
from slackwater.observation.metrics.node_metrics import only
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, MetricAges, TickView

_MILLI = 1000
#: What the kernel's own file says of a quota that is none; Crane's metric has it so.
_NO_QUOTA = -1.0
_HIDDEN_WEIGHT = Gap("an idle cgroup shows no weight")


class GroupSeries(msgspec.Struct, frozen=True):
    """One pod's or container's cgroup, and the labels of its series. `elastic` are the extended
    resources of Crane that it asks for."""

    ref: CgroupRef
    labels: Mapping[str, str]
    elastic: frozenset[str] = frozenset()

    @property
    def is_container(self) -> bool:
        return self.ref.level is Level.CONTAINER


class SeriesOfWorkloads:
    """Keeps the labels: workloads are the same object while no pod and no group changed."""

    def __init__(self) -> None:
        self._of: tuple[Workload, ...] | None = None
        self._found: tuple[GroupSeries, ...] = ()

    def series(self, workloads: tuple[Workload, ...]) -> tuple[GroupSeries, ...]:
        """The same object again while the workloads are."""
        if self._of is not workloads:
            self._of = workloads
            self._found = tuple(each for pod in workloads for each in _series_of(pod))
        return self._found


def _series_of(pod: Workload) -> Sequence[GroupSeries]:
    elastic = {each.name: _elastic(each) for each in pod.containers}
    found: list[GroupSeries] = []
    if not isinstance(pod.ref, Gap):
        whole = frozenset().union(*elastic.values())
        found.append(GroupSeries(pod.ref, _labels(pod, "", "", whole), whole))
    for each in pod.containers:
        if not isinstance(each.ref, Gap):
            identity = container_id(each.ref.name()) or each.ref.name()
            asked = elastic[each.name]
            labels = _labels(pod, each.name, identity, asked)
            found.append(GroupSeries(each.ref, labels, asked))
    return found


def _elastic(container: WorkloadContainer) -> frozenset[str]:
    """An amount that cannot be read is asked for too; zero is not."""
    stated = {**container.extended_requests, **container.extended_limits}
    return frozenset(name for name in (ELASTIC_CPU, ELASTIC_MEMORY) if stated.get(name, 0))


def _labels(
    pod: Workload, container: str, identity: str, elastic: frozenset[str]
) -> Mapping[str, str]:
    return {
        "PodName": pod.name,
        "PodNamespace": pod.namespace,
        "PodUid": pod.uid,
        "ContainerName": container,
        "ContainerId": identity,
        "HasExtRes": "true" if elastic else "false",
    }


class SeriesSamples:
    """Makes samples, the same objects again where a value is as before: ticks are kept, and most
    pods do little."""

    def __init__(self) -> None:
        self._before: dict[str, dict[int, Sample]] = {}

    def make(
        self,
        name: str,
        series: Sequence[GroupSeries],
        value_of: Callable[[GroupSeries], float | Gap],
    ) -> Samples | Gap:
        """A series without a value is left out; where none has one, the first reason counts."""
        before, now = self._before.get(name, {}), {}
        missing: Gap | None = None
        for each in series:
            value = value_of(each)
            if isinstance(value, Gap):
                missing = missing or value
                continue
            old = before.get(each.ref.id)
            same = old is not None and old.value == value and old.labels is each.labels
            now[each.ref.id] = old if old is not None and same else Sample(value, each.labels)
        self._before[name] = now
        return missing if missing is not None and not now else tuple(now.values())

    def keep(self, names: MetricAges) -> None:
        for gone in self._before.keys() - names.keys():
            del self._before[gone]


def total_of(
    series: Sequence[GroupSeries], resource: str, value_of: Callable[[GroupSeries], float | Gap]
) -> Samples | Gap:
    """The sum over all containers that ask for the resource; a Gap where one of them is missing."""
    total = 0.0
    for each in series:
        if each.is_container and resource in each.elastic:
            value = value_of(each)
            if value is VANISHED:
                continue
            if isinstance(value, Gap):
                return Gap(f"{each.ref.path}: {value.reason}")
            total += value
    return only(total)


class PodCpuMetrics:
    """Everything about a group's CPU that the survey reads anyway where it is asked for."""

    names = frozenset(
        {
            "container_cpu_total_usage",
            "container_cpu_limit",
            "container_cpu_quota",
            "container_cpu_period",
            "ext_res_container_cpu_total_usage",
        }
    )
    keeps_samples = False

    def __init__(self, series: SeriesOfWorkloads) -> None:
        self._series = series
        self._samples = SeriesSamples()
        self._shares: dict[tuple[int, WeightFormula], int] = {}

    def measure(
        self, _at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        series = self._series.series(view.workloads)
        self._samples.keep(wanted)

        def usage(each: GroupSeries) -> float | Gap:
            return usage_of(view, each.ref)

        def shares(each: GroupSeries) -> float | Gap:
            return self._shares_of(view, each.ref)

        def quota(each: GroupSeries) -> float | Gap:
            return quota_of(view, each.ref)

        def period(each: GroupSeries) -> float | Gap:
            return period_of(view, each.ref)

        made = {
            "container_cpu_total_usage": usage,
            "container_cpu_limit": shares,
            "container_cpu_quota": quota,
            "container_cpu_period": period,
        }
        return {
            name: self._samples.make(name, series, made[name])
            if name in made
            else total_of(series, ELASTIC_CPU, usage)
            for name in wanted
        }

    def forget(self) -> None:
        self._samples = SeriesSamples()
        self._shares.clear()

    def _shares_of(self, view: TickView, ref: CgroupRef) -> float | Gap:
        """cpu.shares; on cgroup v2 the smallest shares that have the group's weight."""
        reading = view.readings.get(ref.id)
        weight = NOT_ASKED if reading is None else reading.weight
        if isinstance(weight, Gap):
            return weight
        if reading is not None and reading.hides("weight"):
            return _HIDDEN_WEIGHT
        if view.version is CgroupVersion.V1:
            return float(weight)
        if weight < SMALLEST_WEIGHT:
            return _HIDDEN_WEIGHT
        formula = view.pod_formula if ref.level is Level.POD else view.container_formula
        key = (weight, formula)
        if key not in self._shares:
            self._shares[key] = shares_from(Weight(weight), formula)
        return float(self._shares[key])


def usage_of(view: TickView, ref: CgroupRef) -> float | Gap:
    """In CPUs."""
    rate = view.rates.get(ref.id)
    if rate is not None:
        return rate.usage / _MILLI
    reading = view.readings.get(ref.id)
    times = NOT_ASKED if reading is None else reading.times
    return times if isinstance(times, Gap) else NEEDS_SECOND


def quota_of(view: TickView, ref: CgroupRef) -> float | Gap:
    """In microseconds."""
    reading = view.readings.get(ref.id)
    quota = NOT_ASKED if reading is None else reading.quota
    if isinstance(quota, Gap):
        return quota
    return _NO_QUOTA if isinstance(quota.limit, Unlimited) else float(quota.limit)


def period_of(view: TickView, ref: CgroupRef) -> float | Gap:
    """In microseconds."""
    reading = view.readings.get(ref.id)
    quota = NOT_ASKED if reading is None else reading.quota
    return quota if isinstance(quota, Gap) else float(quota.period)
