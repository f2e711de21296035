"""Metrics of one's own: what is read, the metric that a rule means, and what is refused."""

from typing import Any

import pytest

from slackwater.contract.crane.objects import read_node_qos
from slackwater.contract.ensurance_metric import (
    Comparator,
    EnsuranceMetric,
    ReleaseUnit,
    SortDirection,
    read_ensurance_metric,
)
from slackwater.model.metric import MetricKey
from slackwater.model.problem import InvalidError
from tests.unit.contract.crane.documents import METRIC, METRIC_SOURCES, NODE_QOS, spoilt


def read(source: dict[str, Any], **spec: Any) -> EnsuranceMetric:
    document = {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "EnsuranceMetric",
        "metadata": {"name": "queue-depth"},
        "spec": {"source": source, **spec},
    }
    return read_ensurance_metric(document, "file")


def test_all_nine_attributes_are_read() -> None:
    spec = read_ensurance_metric(METRIC, "file").spec
    assert spec.action_priority == 7
    assert [(each.by, each.order) for each in spec.sort] == [
        (Comparator.CLASS_AND_PRIORITY, SortDirection.ASCENDING),
        (Comparator.OWN_VALUE, SortDirection.DESCENDING),
    ]
    assert spec.throttleable
    assert spec.throttle_quantified
    assert spec.evictable
    assert spec.evict_quantified
    assert spec.release is ReleaseUnit.OWN_VALUE


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (METRIC_SOURCES[0], MetricKey("queue_length", "PodQOS/workers")),
        (METRIC_SOURCES[1], MetricKey("request_seconds:p99", "EnsuranceMetric/queue-depth")),
        (METRIC_SOURCES[2], MetricKey("queue_length", "EnsuranceMetric/queue-depth")),
        (METRIC_SOURCES[3], MetricKey("queue-depth", "EnsuranceMetric/queue-depth")),
        (METRIC["spec"]["source"], MetricKey("queue-depth", "EnsuranceMetric/queue-depth")),
    ],
)
def test_the_metric_that_a_rule_means(source: dict[str, Any], key: MetricKey) -> None:
    assert read(source).key() == key


def test_without_attributes_only_scheduling_can_be_stopped() -> None:
    spec = read(METRIC_SOURCES[4]).spec
    assert [spec.throttleable, spec.evictable, spec.sort] == [False, False, ()]
    assert spec.action_priority == 0
    assert spec.source.max_age_seconds == 60
    assert spec.source.kind() == "pressure"


@pytest.mark.parametrize(
    ("source", "spec", "told"),
    [
        (
            {},
            {},
            "the kind of spec.source is none, but must be one of probe, httpGet, promql, file,",
        ),
        (
            {**METRIC_SOURCES[1], **METRIC_SOURCES[2]},
            {},
            "the kind of spec.source is httpGet and file, but must be one of probe, httpGet,",
        ),
        (
            {"file": {"name": "a.prom"}},
            {},
            "spec.source.series is missing, but must be there with f",
        ),
        (
            {"pressure": {}, "series": "a"},
            {},
            "spec.source.series is 'a', but must be absent with pressure",
        ),
        (
            {"file": {"name": "../shadow"}, "series": "a"},
            {},
            "spec.source.file.name is '../shadow', but must be a file's name of letters,",
        ),
        (
            METRIC_SOURCES[4],
            {"actionPriority": 11},
            "spec.actionPriority is 11, but must be a whole number, 0 to 10",
        ),
        (
            METRIC_SOURCES[4],
            {"sort": [{"by": "cpuUsage"}, {"by": "cpuUsage", "order": "Descending"}]},
            "spec.sort[1].by is 'cpuUsage', but must be another one: spec.sort[0] compares by it",
        ),
        (
            METRIC_SOURCES[4],
            {"sort": [{"by": "name"}]},
            "spec.sort[0].by is 'name', but must be one of classAndPriority, cpuUsage,",
        ),
        (
            METRIC_SOURCES[4],
            {"evictQuantified": True, "release": "cpuUsage"},
            "spec.evictQuantified is true, but must be false where spec.evictable is",
        ),
        (
            METRIC_SOURCES[4],
            {"throttleable": True, "throttleQuantified": True},
            "spec.throttleQuantified is true, but must be false where spec.release is none",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(
    source: dict[str, Any], spec: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        read(source, **spec)
    assert str(caught.value).startswith(f"file: EnsuranceMetric queue-depth: {told}")
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("name", ["queue-depth", "example.com/queue"])
def test_a_rule_may_name_a_metric_that_users_define(name: str) -> None:
    path = ("spec", "rules", 0, "metricRule", "name")
    policy = read_node_qos(spoilt(NODE_QOS, path, name), "file")
    assert policy.spec.rules[0].metric_rule.name == name
