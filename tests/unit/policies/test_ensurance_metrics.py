"""Crane's table of metrics, section 5 of the facts about it, and what stands for all others."""

import pytest

from slackwater.contract.crane.metrics import METRICS
from slackwater.model.metric import MetricKey
from slackwater.policies.ensurance.metric_attributes import (
    CPU_SORT,
    MEMORY_SORT,
    NODE_METRICS,
    MetricAttributes,
    attributes_of,
)


def known(name: str, source: str = "") -> MetricAttributes:
    return attributes_of(MetricKey(name, source), NODE_METRICS)


@pytest.mark.parametrize(
    ("name", "throttled", "sort"),
    [
        ("cpu_total_usage", True, CPU_SORT),
        ("cpu_total_utilization", True, CPU_SORT),
        ("memory_total_usage", False, MEMORY_SORT),
        ("memory_total_utilization", False, MEMORY_SORT),
    ],
)
def test_cranes_table(name: str, throttled: bool, sort: object) -> None:
    found = known(name)
    assert (found.action_priority, found.sort) == (5, sort)
    assert (found.throttleable, found.throttle_quantified) == (throttled, throttled)
    assert (found.evictable, found.evict_quantified) == (True, True)


def test_other_metrics_of_the_node_only_stop_scheduling() -> None:
    acted = {each.name for each in NODE_METRICS}
    for name in METRICS.keys() - acted:
        assert known(name) == MetricAttributes(name)
    assert acted <= METRICS.keys()


def test_a_series_of_a_probe_can_be_acted_on_but_not_counted() -> None:
    found = known("latency_seconds:p99", "NodeQOS/web")
    assert (found.throttleable, found.evictable) == (True, True)
    assert (found.throttle_quantified, found.evict_quantified) == (False, False)
    assert found.key() == MetricKey("latency_seconds:p99", "NodeQOS/web")


def test_a_metric_of_ones_own_is_found_by_its_source() -> None:
    own = MetricAttributes("x", "EnsuranceMetric/x", 9)
    assert attributes_of(MetricKey("x", "EnsuranceMetric/x"), (*NODE_METRICS, own)) is own
    assert attributes_of(MetricKey("x", "NodeQOS/x"), (*NODE_METRICS, own)) is not own


def test_a_table_has_each_metric_once() -> None:
    assert len({each.key() for each in NODE_METRICS}) == len(NODE_METRICS)
