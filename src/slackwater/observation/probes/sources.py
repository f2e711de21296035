"""Where metrics besides the node's own come from: a value for each kind of source.

A source has the title of the object that describes it, such as NodeQOS/latency. What is wrong with
an object was said when it was read; here it is only turned into what has to be asked.
"""

from collections.abc import Mapping

import msgspec

from slackwater.contract.crane.ensurance_set import EnsuranceObjects, pod_qos_title, policy_title
from slackwater.contract.crane.fields import HttpGet, Selector
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.ensurance_metric import NODE_NAME, MetricSource, metric_title
from slackwater.model.cgroup import Tier
from slackwater.model.workload import Workload

#: As Kubernetes' own probes have it.
PROBE_TIMEOUT = 1.0
QUERY_TIMEOUT = 10.0
QUERY_PERIOD = 15.0


class SourceTimes(msgspec.Struct, frozen=True):
    """In seconds. A period of 0 is the agent's own; an age of 0 is three periods."""

    timeout: float = PROBE_TIMEOUT
    period: float = 0.0
    max_age: float = 0.0


class NodeProbe(msgspec.Struct, frozen=True):
    """An HTTP request; without a host to the node itself."""

    get: HttpGet
    times: SourceTimes = SourceTimes()


class PodProbe(msgspec.Struct, frozen=True):
    """An HTTP request to each pod that a PodQOS selects, at its own address."""

    get: HttpGet
    pod_qos: PodQos
    times: SourceTimes = SourceTimes()


class PrometheusQuery(msgspec.Struct, frozen=True):
    """An instant query; each element of the vector is a series, whatever the metric is called.
    `token_name` is a file with a bearer token in `token_folder`, read at each query."""

    url: str
    query: str
    token_name: str = ""
    token_folder: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    times: SourceTimes = SourceTimes(QUERY_TIMEOUT, QUERY_PERIOD)


class NodeFile(msgspec.Struct, frozen=True):
    """A file in Prometheus' text format, as node_exporter's textfile collector reads them. It must
    be a regular file in this folder, not a link; it is as old as its last change."""

    folder: str
    name: str
    times: SourceTimes = SourceTimes()


class PressureSource(msgspec.Struct, frozen=True):
    """How much the work of pods waits for a CPU. Without a selector: of all pods that are not best
    effort."""

    selector: Selector | None = None
    times: SourceTimes = SourceTimes()

    def selects(self, pod: Workload) -> bool:
        if self.selector is None:
            return pod.tier is not Tier.BESTEFFORT
        return self.selector.selects(pod.labels)


SourceDescription = NodeProbe | PodProbe | PrometheusQuery | NodeFile | PressureSource
#: By the title of the object.
Sources = Mapping[str, SourceDescription]


class SourcePlaces(msgspec.Struct, frozen=True):
    """What an object leaves to the node: its name, and the folders in which metric files and bearer
    tokens are. Where a folder is not set, nothing is read from it."""

    node_name: str = ""
    metric_folder: str = ""
    token_folder: str = ""


_NO_PLACES = SourcePlaces()


def describe_sources(
    objects: EnsuranceObjects, places: SourcePlaces = _NO_PLACES
) -> dict[str, SourceDescription]:
    """All sources that objects describe. One that no rule of this node names is never asked."""
    found: dict[str, SourceDescription] = {}
    for policy in objects.policies():
        probe = policy.spec.node_quality_probe
        if probe.http_get is not None:
            times = SourceTimes(float(probe.timeout_seconds or PROBE_TIMEOUT))
            found[policy_title(policy)] = NodeProbe(probe.http_get, times)
    for pod_qos in objects.pod_qos:
        asked = pod_qos.spec.pod_quality_probe
        if asked is not None and asked.http_get is not None:
            times = SourceTimes(float(asked.timeout_seconds or PROBE_TIMEOUT))
            found[pod_qos_title(pod_qos)] = PodProbe(asked.http_get, pod_qos, times)
    for metric in objects.metrics:
        source = _describe_metric(metric.spec.source, places)
        if source is not None:
            found[metric_title(metric)] = source
    return found


def _describe_metric(source: MetricSource, places: SourcePlaces) -> SourceDescription | None:
    """None of one that refers to the probe of another object, which is a source by itself."""
    if source.http_get is not None:
        return NodeProbe(source.http_get, _times(source, PROBE_TIMEOUT))
    if source.promql is not None:
        return PrometheusQuery(
            source.promql.url,
            source.promql.query.replace(NODE_NAME, places.node_name),
            source.promql.bearer_token_file or "",
            places.token_folder,
            times=_times(source, QUERY_TIMEOUT, QUERY_PERIOD),
        )
    if source.file is not None:
        return NodeFile(places.metric_folder, source.file.name, _times(source, PROBE_TIMEOUT))
    if source.pressure is not None:
        times = SourceTimes(max_age=float(source.max_age_seconds))
        return PressureSource(source.pressure.selector, times)
    return None


def _times(source: MetricSource, timeout: float, period: float = 0.0) -> SourceTimes:
    return SourceTimes(
        float(source.timeout_seconds or timeout),
        float(source.period_seconds or period),
        float(source.max_age_seconds),
    )
