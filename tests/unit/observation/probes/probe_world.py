"""What tests of probes share: a clock that is moved by hand, objects, pods, and texts."""

from typing import Any

from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.crane.fields import HttpGet
from slackwater.contract.crane.objects import (
    read_node_qos,
    read_node_qos_ensurance_policy,
    read_pod_qos,
)
from slackwater.model.cgroup import Tier
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample, Samples
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from slackwater.observation.probes.probe_set import ProbeContext, ProbeSet
from slackwater.observation.probes.sources import NodeProbe, SourceTimes
from tests.unit.kube.byte_server import Answer

SECOND = 1_000_000
#: Longer than any machine needs for a request to itself.
PATIENT = SourceTimes(60.0)


class HandClock:
    """In microseconds."""

    def __init__(self) -> None:
        self.now = Micros(1000 * SECOND)

    def __call__(self) -> Micros:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now = Micros(self.now + int(seconds * SECOND))


def text_answer(body: str) -> Answer:
    return lambda _request, wire: wire.answer(body.encode(), 200, "text/plain")


def probe_set(clock: HandClock, **context: Any) -> ProbeSet:
    return ProbeSet(ProbeContext(Micros(SECOND), clock, **context))


def node_probe(port: int, times: SourceTimes = PATIENT, **get: Any) -> NodeProbe:
    return NodeProbe(HttpGet(port, **get), times)


def make_pod(name: str, address: str = "127.0.0.1", **more: Any) -> Workload:
    return Workload(
        uid=f"uid-{name}",
        name=name,
        namespace="shop",
        tier=Tier.BURSTABLE,
        ref=Gap("none"),
        labels={"app": "web"},
        address=address,
        **more,
    )


def ensurance_objects(port: int | str, timeout: int | None = None) -> EnsuranceObjects:
    """A NodeQOS with a probe, one without, a policy of the older kind, and a PodQOS. A port's name
    is for the PodQOS alone."""
    limits = {} if timeout is None else {"timeoutSeconds": timeout}
    probe, pod_probe = (
        {"httpGet": {"port": each, "path": "/metrics"}, **limits}
        for each in (port if isinstance(port, int) else 80, port)
    )
    metric = {"name": "latency:p99", "value": "50m"}
    rule = {"name": "slow", "actionName": "throttle", "metricRule": metric}
    local = {**rule, "metricRule": {"name": "cpu_total_usage", "value": 1}}

    def named(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": spec}

    return EnsuranceObjects(
        node_qos=(
            read_node_qos(named("latency", nodeQualityProbe=probe, rules=[rule]), "test"),
            read_node_qos(
                named("local", nodeQualityProbe={"nodeLocalGet": {}}, rules=[local]), "test"
            ),
        ),
        ensurance_policies=(
            read_node_qos_ensurance_policy(
                named("old", nodeQualityProbe=probe, objectiveEnsurances=[rule]), "test"
            ),
        ),
        pod_qos=(
            read_pod_qos(
                named(
                    "web",
                    labelSelector={"matchLabels": {"app": "web"}},
                    podQualityProbe=pod_probe,
                ),
                "test",
            ),
            read_pod_qos(named("batch", labelSelector={}), "test"),
        ),
    )


def reason_of(found: Samples | Gap) -> str:
    assert isinstance(found, Gap), found
    return found.reason


def latency(source: str, name: str = "latency") -> MetricKey:
    return MetricKey(name, source)


def unstamped(found: Samples | Gap) -> Samples | Gap:
    """Without when they were measured."""
    if isinstance(found, Gap):
        return found
    return tuple(Sample(each.value, each.labels) for each in found)
