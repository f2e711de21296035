"""What a simulated node measures: its CPU, container by container, and what the scenario states.

Series have Crane's names, units and labels. What a simulation has no model of, memory, disks and
networks, is a Gap, unless the scenario states a series of that name.
"""

from collections.abc import Iterable, Iterator, Mapping

from slackwater.contract.crane.metrics import is_known
from slackwater.model.decision import CpuPlacement
from slackwater.model.gap import Gap
from slackwater.model.metric import NODE, MetricKey, MetricRequest, Sample, Samples
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.workload import Workload
from slackwater.observation.metrics.collector import MetricCollector
from slackwater.observation.metrics.exclusive_cpus import (
    ExclusiveCpuMetrics,
    find_sets_held_alone,
)
from slackwater.observation.metrics.node_metrics import CpuMetrics, ElasticCpuMetrics
from slackwater.observation.metrics.pod_metrics import PodCpuMetrics, SeriesOfWorkloads
from slackwater.observation.metrics.tick_view import view_of
from slackwater.simulation.scenario import ScenarioMetric


class SimulatedMetrics:
    """Measures by a real node's formulas. `stated` are the metrics that the scenario gives; they
    come before what is measured."""

    def __init__(self, cpus: int, stated: Iterable[ScenarioMetric]) -> None:
        families = (
            CpuMetrics(lambda: cpus),
            ExclusiveCpuMetrics(),
            ElasticCpuMetrics(),
            PodCpuMetrics(SeriesOfWorkloads()),
        )
        self._own = frozenset[str]().union(*(each.names for each in families))
        self._collector = MetricCollector(families)
        self._stated = tuple(stated)

    def measure(
        self,
        requests: frozenset[MetricRequest],
        snapshot: NodeSnapshot,
        placement: CpuPlacement | Gap | None = None,
    ) -> dict[str, Samples | Gap]:
        """Exactly those that are asked for, by their titles."""
        view = view_of(snapshot, find_sets_held_alone(snapshot, placement))
        own = frozenset(
            each for each in requests if each.key.source == NODE and each.key.name in self._own
        )
        measured = self._collector.collect(snapshot.at, own, view)
        keys = sorted({request.key for request in requests})
        return {key.title(): self._one(key, snapshot, measured) for key in keys}

    def _one(
        self, key: MetricKey, snapshot: NodeSnapshot, measured: Mapping[str, Samples | Gap]
    ) -> Samples | Gap:
        named = [each for each in self._stated if each.name == key.name]
        series = [each for each in named if each.source in ("", key.source)]
        if series:
            found = tuple(_stated_samples(series, snapshot))
            return found or Gap(f"the scenario states no value of {key.name} now")
        if key.source != NODE:
            return Gap(f"the scenario states no {key.name} under spec.metrics")
        if key.name in self._own:
            return measured[key.title()]
        if is_known(key.name):
            return Gap(f"a simulation has no {key.name}; a series under spec.metrics states it")
        return Gap(f"there is no metric {key.name}")


def _stated_samples(series: Iterable[ScenarioMetric], snapshot: NodeSnapshot) -> Iterator[Sample]:
    pods = {each.name: each for each in snapshot.workloads}
    for each in series:
        pod = pods.get(each.pod)
        if not each.starts <= snapshot.at < each.ends or (each.pod and pod is None):
            continue
        labels = {**each.labels, **(_pod_labels(pod) if pod else {})}
        yield Sample(each.series(snapshot.at) / 1000, labels)


def _pod_labels(pod: Workload) -> dict[str, str]:
    return {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUid": pod.uid}
