"""What the report reads of Prometheus: nodes' usage, pods' usage, and Slackwater's own metrics.

Each query is bounded (report_queries). The first answer decides whether the server can be asked at
all: its error is raised. Later ones become notes, and the report does without.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from slackwater.http.prometheus_api import PrometheusError, SeriesRange
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.report import report_queries as queries
from slackwater.report.cluster_report import ReportPeriod
from slackwater.report.fetch_objects import ListedObjects
from slackwater.report.report_queries import (
    Matchers,
    QueryRange,
    choose_step,
    looks_of,
    split_range,
)

T = TypeVar("T")

#: Shorter rates miss samples of the usual scrape intervals.
_SHORTEST_RATE = 300.0
_HOUR = 3600.0
_PORT = re.compile(r":[0-9]+\Z")


class NodeSamples(msgspec.Struct, frozen=True):
    """`cpus`: how many the node exporter counts."""

    node: str
    cpus: float
    times: Sequence[float]
    values: Sequence[float]


class PodSamples(msgspec.Struct, frozen=True):
    """One value for each moment that was looked at; NaN where the pod was not there."""

    namespace: str
    pod: str
    times: Sequence[float]
    values: Sequence[float]


class OwnSamples(msgspec.Struct, frozen=True):
    """Slackwater's metrics: agents and policies that are on now, and what was seen at each look."""

    agents: float
    policies: Mapping[str, float]
    ticks: Mapping[tuple[str, str], float]
    means: Mapping[str, float]
    totals: Mapping[str, float]


class ClusterSeries(msgspec.Struct, frozen=True):
    """`own` is None where there are no metrics of Slackwater."""

    period: ReportPeriod
    nodes: tuple[NodeSamples, ...]
    pods: tuple[PodSamples, ...]
    own: OwnSamples | None
    notes: tuple[str, ...]


class SeriesReader:
    """Asks one server about one cluster; remembers what it could not be told."""

    def __init__(self, client: PrometheusClient, matchers: Matchers, end: float) -> None:
        self._client = client
        self._matchers = matchers
        self._end = end
        self.notes: list[str] = []

    def collect(self, seconds: float, objects: ListedObjects) -> ClusterSeries:
        """Raises PrometheusError where the first query fails."""
        cpus = self._by(queries.node_cpus(self._matchers), "instance")
        step = choose_step(len(cpus), seconds)
        end = self._end // step * step
        period = ReportPeriod(end - seconds, end, step)
        nodes = self._nodes(period, cpus, objects) if cpus else ()
        no_pods: tuple[PodSamples, ...] = ()
        pods = self._attempt("pods", lambda: self._pods(period), no_pods)
        own = self._attempt("Slackwater's metrics", lambda: self._own(period), None)
        return ClusterSeries(period, nodes, pods, own, tuple(self.notes))

    def _attempt(self, what: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except PrometheusError as error:
            self.notes.append(f"{what} could not be asked for: {error}")
            return otherwise

    def _by(self, query: str, label: str) -> dict[str, float]:
        """A vector by one label."""
        found = self._client.query(query, self._end)
        return {each.labels.get(label, ""): each.value for each in found}

    def _range(self, query: str, whole: QueryRange, series: int) -> list[SeriesRange]:
        """Parts of one series are joined."""
        joined: dict[tuple[tuple[str, str], ...], SeriesRange] = {}
        for part in split_range(whole, series):
            for each in self._client.ask_range(query, part.start, part.end, part.step).series:
                key = tuple(sorted(each.labels.items()))
                if key in joined:
                    joined[key].times.extend(each.times)
                    joined[key].values.extend(each.values)
                else:
                    joined[key] = each
        return list(joined.values())

    def _nodes(
        self, period: ReportPeriod, cpus: Mapping[str, float], objects: ListedObjects
    ) -> tuple[NodeSamples, ...]:
        """Without those of the node exporter that are no nodes of the cluster, where that is
        known."""
        names = self._names(cpus, objects)
        query = queries.node_usage(self._matchers, max(period.step, _SHORTEST_RATE))
        whole = QueryRange(period.start + period.step, period.end, period.step)
        found = {}
        for each in self._range(query, whole, len(cpus)):
            instance = each.labels.get("instance", "")
            if name := names.get(instance):
                found[name] = NodeSamples(name, cpus.get(instance, 0.0), each.times, each.values)
        if strangers := len(cpus) - len(names):
            self.notes.append(
                f"{strangers} of {len(cpus)} instances of the node exporter are no nodes of this "
                "cluster, and are left out"
            )
        return tuple(found[name] for name in sorted(found))

    def _names(self, instances: Mapping[str, float], objects: ListedObjects) -> dict[str, str]:
        """Of nodes by instance. Where the API server does not tell, the instance's own word."""
        known = objects.names()
        bare = {each: _PORT.sub("", each) for each in instances}
        if not known:
            return bare
        found = {each: known[name] for each, name in bare.items() if name in known}
        if len(found) < len(instances):
            nobody: list[tuple[str, str]] = []
            for instance, name in self._attempt("node names", self._uname, nobody):
                if instance in instances and instance not in found and name in known:
                    found[instance] = known[name]
        return found

    def _uname(self) -> list[tuple[str, str]]:
        answer = self._client.query(queries.node_names(self._matchers), self._end)
        return [
            (each.labels.get("instance", ""), each.labels.get("nodename", "")) for each in answer
        ]

    def _pods(self, period: ReportPeriod) -> tuple[PodSamples, ...]:
        counted = self._client.query(queries.pod_count(self._matchers), self._end)
        if not counted:
            self.notes.append(
                "Prometheus has no series of container_cpu_usage_seconds_total (the kubelet's "
                "cAdvisor), so nothing is said about workloads"
            )
            return ()
        pods = int(counted[0].value)
        looks = looks_of(period.start, period.end, pods)
        found = self._range(queries.pod_usage(self._matchers, min(looks.step, _HOUR)), looks, pods)
        return tuple(
            PodSamples(
                each.labels.get("namespace", ""), each.labels.get("pod", ""),
                each.times, each.values,
            )
            for each in found
        )  # fmt: skip

    def _own(self, period: ReportPeriod) -> OwnSamples | None:
        counted = self._client.query(queries.agents(self._matchers), self._end)
        if not counted:
            return None
        looks = looks_of(period.start, period.end, 1)
        ticks = {
            (each.labels.get("policy", ""), each.labels.get("course", "")): _total(each.values)
            for each in self._range(queries.policy_ticks(self._matchers, looks.step), looks, 50)
        }
        means, totals = {}, {}
        for name, query in queries.deeds(self._matchers, looks.step).items():
            values = [value for each in self._range(query, looks, 1) for value in each.values]
            totals[name] = _total(values)
            if known := [value for value in values if math.isfinite(value)]:
                means[name] = math.fsum(known) / len(known)
        on = self._by(queries.policies_on(self._matchers), "policy")
        return OwnSamples(counted[0].value, on, ticks, means, totals)


def _total(values: Sequence[float]) -> float:
    return math.fsum(value for value in values if math.isfinite(value))
