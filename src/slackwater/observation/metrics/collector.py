"""Measures the metrics that somebody asked for, each tick, and nothing else.

A metric that cannot be measured now keeps its last samples for as long as whoever asked for it
accepts their age; then it is a Gap that says how old they are. Metrics of other sources than the
node come from elsewhere: they need the network, and a tick never waits for it.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.metric import NODE, MetricKey, MetricRequest, Samples, stamp
from slackwater.model.units import Micros
from slackwater.observation.host import Roots, read_online
from slackwater.observation.metrics.exclusive_cpus import ExclusiveCpuMetrics
from slackwater.observation.metrics.node_metrics import (
    CpuMetrics,
    ElasticCpuMetrics,
    LoadMetrics,
    MemoryMetrics,
    disk_metrics,
    interface_metrics,
)
from slackwater.observation.metrics.pod_metrics import PodCpuMetrics, SeriesOfWorkloads
from slackwater.observation.metrics.run_queue import RunQueueTimes
from slackwater.observation.metrics.tick_view import NodeMetricFamily, TickView
from slackwater.observation.metrics.working_sets import WorkingSets

_MICROS_PER_SECOND = 1_000_000


class RemoteSource(Protocol):
    """Samples of sources that some object describes: probes, queries, files. It answers at once,
    with what it has, and decides itself how old that may be."""

    def samples(self, key: MetricKey, at: Micros) -> Samples | Gap: ...


class NoRemoteSource:
    """Where there are no such objects."""

    def samples(self, key: MetricKey, _at: Micros) -> Samples | Gap:
        return Gap(f"nothing asks {key.source}")


def node_families(roots: Roots, mounts: CgroupMounts) -> tuple[NodeMetricFamily, ...]:
    """All that a real node measures. Nothing is opened before it is asked for."""

    def count_cpus() -> int | Gap:
        cpus = read_online(roots)
        return cpus if isinstance(cpus, Gap) else len(cpus)

    series = SeriesOfWorkloads()
    return (
        CpuMetrics(count_cpus),
        ExclusiveCpuMetrics(),
        LoadMetrics(roots),
        MemoryMetrics(roots),
        disk_metrics(roots),
        interface_metrics(roots),
        ElasticCpuMetrics(),
        PodCpuMetrics(series),
        WorkingSets(mounts, series),
        RunQueueTimes(roots, mounts, series),
    )


class _LastSamples(msgspec.Struct, frozen=True):
    at: Micros
    samples: Samples


class _Plan(msgspec.Struct, frozen=True):
    """What the requests amount to. Ages are in microseconds; of two requests for one metric the
    stricter counts."""

    requests: frozenset[MetricRequest]
    families: tuple[tuple[NodeMetricFamily, dict[str, Micros]], ...]
    ages: dict[str, Micros]
    remote: tuple[MetricKey, ...]
    unknown: tuple[str, ...]


class MetricCollector:
    """Guards what metrics hold open, and remembers their last samples."""

    def __init__(
        self, families: tuple[NodeMetricFamily, ...], remote: RemoteSource | None = None
    ) -> None:
        """`families` are those of the node; see node_families."""
        self._families = families
        self._remote = remote or NoRemoteSource()
        self._plan = _Plan(frozenset(), (), {}, (), ())
        self._last: dict[str, _LastSamples] = {}

    def collect(
        self, at: Micros, requests: frozenset[MetricRequest], view: TickView
    ) -> dict[str, Samples | Gap]:
        """By MetricKey.title()."""
        if requests != self._plan.requests:
            self._follow(requests)
        found = dict(self._measure(at, view))
        for name in self._plan.unknown:
            found[name] = Gap(f"this node measures no {name}")
        for key in self._plan.remote:
            found[key.title()] = self._remote.samples(key, at)
        return found

    def close(self) -> None:
        """Also where nobody asks for anything any more: nothing stays open, or remembered."""
        if self._plan.requests:
            self._follow(frozenset())

    def _measure(self, at: Micros, view: TickView) -> Iterator[tuple[str, Samples | Gap]]:
        for family, wanted in self._plan.families:
            measured = family.measure(at, wanted, view)
            for name in wanted:
                samples = measured[name]
                if not family.keeps_samples:
                    samples = self._within_age(name, at, samples)
                yield name, samples

    def _within_age(self, name: str, at: Micros, found: Samples | Gap) -> Samples | Gap:
        if not isinstance(found, Gap):
            self._last[name] = _LastSamples(at, found)
            return found
        last = self._last.get(name)
        if last is None:
            return found
        age = at - last.at
        if age <= self._plan.ages[name]:
            return stamp(last.samples, last.at)
        return Gap(f"{found.reason}; the last sample is {age // _MICROS_PER_SECOND} s old")

    def _follow(self, requests: frozenset[MetricRequest]) -> None:
        self._plan = _plan_of(requests, self._families)
        active = [family for family, _ in self._plan.families]
        for family in self._families:
            if family not in active:
                family.forget()
        self._last = {name: last for name, last in self._last.items() if name in self._plan.ages}


def _plan_of(requests: frozenset[MetricRequest], families: tuple[NodeMetricFamily, ...]) -> _Plan:
    ages = _ages_of(requests)
    wanted = [
        (family, {name: age for name, age in ages.items() if name in family.names})
        for family in families
    ]
    known = frozenset().union(*(family.names for family in families))
    return _Plan(
        requests,
        tuple((family, names) for family, names in wanted if names),
        ages,
        tuple(sorted({each.key for each in requests if each.key.source != NODE})),
        tuple(sorted(ages.keys() - known)),
    )


def _ages_of(requests: frozenset[MetricRequest]) -> dict[str, Micros]:
    """How old a sample of each of the node's metrics may be: the smallest age that is stated. Where
    none is, 0: it is this tick's or none."""
    stated: dict[str, set[int]] = {}
    for each in requests:
        if each.key.source == NODE:
            stated.setdefault(each.key.name, set()).add(each.max_age_seconds)
    return {
        name: Micros(min(ages - {0}, default=0) * _MICROS_PER_SECOND)
        for name, ages in sorted(stated.items())
    }
