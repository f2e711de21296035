"""Where metrics besides the node's own come from: a value for each kind of source.

A source has the title of the object that describes it, such as NodeQOS/latency. What is wrong with
an object was said when it was read; here it is only turned into what has to be asked.
"""

from collections.abc import Iterable, Mapping

import msgspec

from slackwater.contract.crane.ensurance_set import EnsuranceObjects, pod_qos_title, policy_title
from slackwater.contract.crane.fields import HttpGet, Selector
from slackwater.contract.crane.pod_qos import PodQos
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
    `token_file` holds a bearer token and is read at each query."""

    url: str
    query: str
    token_file: str = ""
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


def describe_probes(objects: EnsuranceObjects) -> dict[str, SourceDescription]:
    """The HTTP probes of all objects. One that no rule of this node names is never asked."""
    found: dict[str, SourceDescription] = {}
    for policy in objects.policies():
        probe = policy.spec.node_quality_probe
        if probe.http_get is not None:
            times = SourceTimes(float(probe.timeout_seconds or PROBE_TIMEOUT))
            found[policy_title(policy)] = NodeProbe(probe.http_get, times)
    found.update(_describe_pod_probes(objects.pod_qos))
    return found


def _describe_pod_probes(all_pod_qos: Iterable[PodQos]) -> dict[str, SourceDescription]:
    found: dict[str, SourceDescription] = {}
    for pod_qos in all_pod_qos:
        probe = pod_qos.spec.pod_quality_probe
        if probe is not None and probe.http_get is not None:
            times = SourceTimes(float(probe.timeout_seconds or PROBE_TIMEOUT))
            found[pod_qos_title(pod_qos)] = PodProbe(probe.http_get, pod_qos, times)
    return found
