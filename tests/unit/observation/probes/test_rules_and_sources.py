"""From a rule to its source: what the policy asks for is what the sources are called."""

from typing import Any

from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.crane.objects import read_node_qos
from slackwater.contract.ensurance_metric import read_ensurance_metric
from slackwater.model.gap import Gap
from slackwater.model.metric import NODE, MetricKey, MetricRequest, Sample
from slackwater.observation.metrics.collector import MetricCollector
from slackwater.observation.metrics.tick_view import TickView
from slackwater.observation.probes.sources import describe_sources
from slackwater.policies.ensurance.bound_rules import bind_rule
from tests.unit.kube.byte_server import serving
from tests.unit.observation.probes.probe_world import (
    HandClock,
    ensurance_objects,
    make_pod,
    probe_set,
    text_answer,
)

#: What no source looks at.
VIEW = TickView(Gap("not read"))


def rule(name: str, metric: str) -> dict[str, Any]:
    return {
        "name": name,
        "actionName": "throttle",
        "metricRule": {"name": metric, "value": "50m"},
    }


def objects_at(port: int) -> EnsuranceObjects:
    """Rules about the probe of their own object, of a PodQOS, and about metrics of one's own."""
    probed = ensurance_objects(port, timeout=60)
    rules = [
        rule("own", "latency"),
        rule("pods", "PodQOS/web:latency"),
        rule("depth", "queue-depth"),
        rule("referred", "by-reference"),
    ]
    get = {"httpGet": {"port": port, "path": "/metrics"}, "timeoutSeconds": 60}
    document = {"metadata": {"name": "latency"}, "spec": {"nodeQualityProbe": get, "rules": rules}}
    http = {"httpGet": {"port": port}, "series": "depth", "timeoutSeconds": 60}
    refers = {"probe": {"kind": "NodeQOS", "name": "latency"}, "series": "depth"}
    metrics = [
        read_ensurance_metric({"metadata": {"name": name}, "spec": {"source": source}}, "test")
        for name, source in (("queue-depth", http), ("by-reference", refers))
    ]
    return EnsuranceObjects(
        node_qos=(read_node_qos(document, "test"),),
        pod_qos=probed.pod_qos,
        metrics=tuple(metrics),
    )


def test_every_rule_finds_its_source() -> None:
    clock = HandClock()
    with serving(text_answer("latency 0.07\ndepth 3\n")) as server:
        objects = objects_at(server.port)
        (policy,) = objects.node_qos
        bound = [bind_rule(policy, each, objects) for each in policy.spec.rules]
        probes = probe_set(clock)
        probes.update(describe_sources(objects), (make_pod("web-1"),))
        keys = [each.key() for each in bound]
        for key in keys:
            probes.samples(key, clock())
        probes.ask_due()
        found = [probes.samples(key, clock()) for key in keys]
    assert keys == [
        MetricKey("latency", "NodeQOS/latency"),
        MetricKey("latency", "PodQOS/web"),
        MetricKey("depth", "EnsuranceMetric/queue-depth"),
        MetricKey("depth", "NodeQOS/latency"),
    ]
    assert all(key.source != NODE for key in keys)
    values = [[each.value for each in samples] for samples in found if isinstance(samples, tuple)]
    assert values == [[0.07], [0.07], [3.0], [3.0]]
    assert [each.limit() for each in bound] == [0.05] * 4


def test_the_collector_takes_what_is_there() -> None:
    clock = HandClock()
    key = MetricKey("latency", "NodeQOS/latency")
    requests = frozenset({MetricRequest(key)})
    with serving(text_answer("latency 0.07\n")) as server:
        probes = probe_set(clock)
        probes.update(describe_sources(objects_at(server.port)), ())
        collector = MetricCollector((), probes)
        assert collector.collect(clock(), requests, VIEW) == {
            "NodeQOS/latency:latency": Gap("it has not answered yet")
        }
        assert probes.ask_due() == 1
        found = collector.collect(clock(), requests, VIEW)
    assert found == {"NodeQOS/latency:latency": (Sample(0.07, {}, clock()),)}
