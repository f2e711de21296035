"""Objects into what has to be asked."""

from typing import Any

import pytest

from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.crane.fields import HttpGet, Selector
from slackwater.contract.ensurance_metric import read_ensurance_metric
from slackwater.model.gap import Gap
from slackwater.observation.probes.node_file import FileTarget
from slackwater.observation.probes.sources import (
    NodeFile,
    NodeProbe,
    PressureSource,
    PrometheusQuery,
    SourceDescription,
    SourcePlaces,
    SourceTimes,
    describe_sources,
)
from tests.unit.observation.probes.probe_world import HandClock, ensurance_objects

PLACES = SourcePlaces("node-1", "/run/metrics", "/run/tokens")
NODE_QOS = "NodeQOS/latency"


def test_probes() -> None:
    found = describe_sources(ensurance_objects(9100, timeout=7))
    assert sorted(found) == [NODE_QOS, "NodeQOSEnsurancePolicy/old", "PodQOS/web"]
    probe = found[NODE_QOS]
    assert isinstance(probe, NodeProbe)
    assert (probe.get.port, probe.get.path, probe.times) == (9100, "/metrics", SourceTimes(7.0))
    assert describe_sources(ensurance_objects(9100))[NODE_QOS].times.timeout == 1.0
    assert describe_sources(EnsuranceObjects()) == {}


@pytest.mark.parametrize(
    ("source", "described"),
    [
        (
            {"httpGet": {"port": 80}, "series": "a", "timeoutSeconds": 2, "periodSeconds": 5},
            NodeProbe(HttpGet(80), SourceTimes(2.0, 5.0, 60.0)),
        ),
        (
            {"promql": {"url": "http://p:9090", "query": 'up{node="$(NODE_NAME)"}'}},
            PrometheusQuery(
                "http://p:9090",
                'up{node="node-1"}',
                token_folder=PLACES.token_folder,
                times=SourceTimes(10.0, 15.0, 60.0),
            ),
        ),
        (
            {"promql": {"url": "http://p:9090", "query": "a", "bearerTokenFile": "prom"}},
            PrometheusQuery(
                "http://p:9090", "a", "prom", "/run/tokens", times=SourceTimes(10.0, 15.0, 60.0)
            ),
        ),
        (
            {"file": {"name": "queue.prom"}, "series": "depth", "maxAgeSeconds": 90},
            NodeFile("/run/metrics", "queue.prom", SourceTimes(max_age=90.0)),
        ),
        (
            {"pressure": {"selector": {"matchLabels": {"app": "web"}}}},
            PressureSource(Selector({"app": "web"}), SourceTimes(max_age=60.0)),
        ),
        ({"probe": {"kind": "NodeQOS", "name": "latency"}, "series": "a"}, None),
    ],
)
def test_metrics_of_ones_own(source: dict[str, Any], described: SourceDescription | None) -> None:
    document = {"metadata": {"name": "queue-depth"}, "spec": {"source": source}}
    objects = EnsuranceObjects(metrics=(read_ensurance_metric(document, "test"),))
    found = describe_sources(objects, PLACES)
    assert found == ({} if described is None else {"EnsuranceMetric/queue-depth": described})


def test_without_a_folder_nothing_is_read() -> None:
    found = FileTarget(NodeFile("", "queue.prom"), HandClock()).ask(frozenset({"depth"}))
    assert found == Gap("no folder of metric files is set")
