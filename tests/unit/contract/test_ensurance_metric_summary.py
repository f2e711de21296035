"""What the status of an EnsuranceMetric says, and of a rule that names one."""

from typing import Any

import pytest

from slackwater.contract.crane.objects import read_node_qos
from slackwater.contract.ensurance_metric_summary import (
    metric_problems,
    metric_summary,
    unknown_metrics,
)
from tests.unit.contract.crane.documents import METRIC_SOURCES, NODE_QOS, spoilt
from tests.unit.contract.test_ensurance_metric import read

PROBE, HTTP, FILE, _, PRESSURE = METRIC_SOURCES
QUERY = {"promql": {"url": "http://p:9090", "query": "sum(queue_length)"}}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (PROBE, "queue_length of PodQOS/workers"),
        (HTTP, "request_seconds:p99 of 127.0.0.1:8080/metrics"),
        ({"httpGet": {"port": 80}, "series": "a"}, "a of the node:80"),
        (FILE, "queue_length of the file queue.prom"),
        (PRESSURE, "CPU pressure of protected pods"),
        (QUERY, "sum(queue_length) of http://p:9090"),
    ],
)
def test_where_the_values_come_from(source: dict[str, Any], told: str) -> None:
    rest = "; pods are neither throttled nor evicted; priority 0"
    assert metric_summary(read(source)) == f"{told}{rest}"


def test_what_can_be_done_and_in_which_order() -> None:
    sort = [{"by": "classAndPriority"}, {"by": "ownValue", "order": "Descending"}]
    spec = {"evictable": True, "evictQuantified": True, "release": "ownValue"}
    found = read(FILE, sort=sort, throttleable=True, actionPriority=7, **spec)
    assert metric_summary(found) == (
        "queue_length of the file queue.prom; pods are throttled and evicted (each releases its "
        "own value); sorted by classAndPriority, ownValue descending; priority 7"
    )
    assert metric_problems(found, ()) == ()


@pytest.mark.parametrize(
    ("source", "spec", "told"),
    [
        (PROBE, {}, "spec.source.probe: there is no PodQOS/workers with an httpGet probe"),
        (
            PRESSURE,
            {"evictable": True, "release": "ownValue"},
            "spec.source.pressure has values of protected pods alone, so ownValue says nothing",
        ),
        (
            FILE,
            {"sort": [{"by": "cpuUsage"}]},
            "spec.sort has no effect: pods are neither throttled nor evicted for this metric",
        ),
    ],
)
def test_what_keeps_it_from_doing_what_it_says(
    source: dict[str, Any], spec: dict[str, Any], told: str
) -> None:
    assert metric_problems(read(source, **spec), ("NodeQOS/web",)) == (told,)


def test_a_probe_that_is_there() -> None:
    assert metric_problems(read(PROBE), ("PodQOS/workers",)) == ()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("queue-depth", ()),
        ("queue-length", ("rule cpu-usage: there is no EnsuranceMetric 'queue-length'",)),
        ("example.com/queue-length", ()),
        ("PodQOS/web-1:latency_seconds", ()),
        ("cpu_total_usage", ()),
    ],
)
def test_rules_about_metrics_that_are_not_there(name: str, told: tuple[str, ...]) -> None:
    document = spoilt(NODE_QOS, ("spec", "rules", 0, "metricRule", "name"), name)
    assert unknown_metrics(read_node_qos(document, "file"), {"queue-depth"}) == told
