"""One query for many nodes gives what each node's own query gives: on a real Prometheus."""

import time
from pathlib import Path

import pytest

from slackwater.contract.crane.prediction import (
    Algorithm,
    AlgorithmType,
    PredictionMetric,
    QueryResource,
    QueryType,
    TargetRef,
)
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.manager.node_template import read_node_template
from slackwater.manager.predictor.fetching import FetchCounts, fetch_histories
from slackwater.manager.predictor.promql import MetricHistoryQuery, query_of
from slackwater.manager.predictor.samples import HistoryRequest
from slackwater.settings.prometheus import PrometheusSettings
from tests.cluster.prometheus_bed import counter, gauge, prometheus_with
from tests.unit.manager.predictions import SEED_TEXT

#: Of a.b and a-b the template's expression counts both for a.b; two has two instances, late a
#: second one for the last minutes; silent has none.
NODES = ("one", "two", "a.b", "a-b", "late", "silent", "10.0.0.7")


def queries(kind: str) -> list[MetricHistoryQuery]:
    found = []
    for node in NODES:
        if kind == "template":
            spec = read_node_template(SEED_TEXT, "x").spec_of(node)
            query = query_of(spec.prediction_metrics[0], spec.target_ref, ())
        else:
            metric = PredictionMetric(
                kind,
                QueryType.RESOURCE,
                Algorithm(AlgorithmType.ADAPTIVE),
                resource_query=QueryResource(kind),
            )
            query = query_of(metric, TargetRef(node, "Node"), ())
        assert isinstance(query, MetricHistoryQuery)
        found.append(query)
    return found


@pytest.mark.parametrize("kind", ["template", "cpu", "memory"])
def test_together_is_as_alone(kind: str, tmp_path: Path) -> None:
    now = time.time() // 60 * 60
    series = []
    instances = ("one:9100", "two:9100", "two:9101", "a.b:9100", "a-b:9100", "10.0.0.7")
    for number, instance in enumerate((*instances, "late:1", "late:2", "other:9100")):
        age = 600.0 if instance == "late:2" else 1800.0
        for cpu in range(1 + number % 3):
            labels = {"instance": instance, "mode": "idle", "cpu": str(cpu), "job": "node"}
            rate = 0.1 + 0.07 * number
            series.append(counter("node_cpu_seconds_total", labels, rate, now=now, age=age))
        total, free = 100.0 + number, 10.0 * number
        where = {"instance": instance}
        series.append(gauge("node_memory_MemTotal_bytes", where, total, now=now, age=age))
        series.append(gauge("node_memory_MemAvailable_bytes", where, free, now=now, age=age))
    with prometheus_with(tmp_path, series) as bed:
        client = PrometheusClient(PrometheusSettings(endpoint=bed.endpoint))
        asked = [HistoryRequest(each, now - 1500, now, 60.0) for each in queries(kind)]
        counts = FetchCounts()
        together = fetch_histories(client, asked, now, counts)
        for node, request, answer in zip(NODES, asked, together, strict=True):
            alone = client.ask_range(request.query.text, request.start, request.end, 60.0).series
            assert isinstance(answer, list | tuple), node
            assert [each.labels for each in answer] == [each.labels for each in alone], node
            for one, other in zip(answer, alone, strict=True):
                assert one.times == other.times, node
                assert one.values == pytest.approx(other.values, rel=1e-9), node
        # One query for all, and one for each node that has to be asked alone.
        assert counts.answered == 1 + (4 if kind == "template" else 2)
