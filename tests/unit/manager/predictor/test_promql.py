"""The query of each metric, and which queries may become one."""

from typing import Any

import pytest

from slackwater.contract.crane.prediction import (
    Algorithm,
    AlgorithmType,
    ExpressionQuery,
    LabelCondition,
    LabelOperator,
    MetricQuery,
    PredictionMetric,
    QueryResource,
    QueryType,
    TargetRef,
)
from slackwater.http.prometheus_api import SeriesRange
from slackwater.manager.node_template import read_node_template
from slackwater.manager.predictor.promql import (
    MetricHistoryQuery,
    grouped_text,
    query_of,
    share_out,
)
from slackwater.model.gap import Gap
from tests.unit.manager.predictions import SEED_TEXT

NODE = TargetRef("n1.example.com", "Node")
DSP = Algorithm(AlgorithmType.DSP)


def resource(kind: QueryResource, target: TargetRef, **more: Any) -> MetricHistoryQuery | Gap:
    metric = PredictionMetric("x", QueryType.RESOURCE, DSP, resource_query=kind)
    return query_of(metric, target, more.get("matchers", ()))


def seed(node: str, text: str = SEED_TEXT) -> MetricHistoryQuery:
    spec = read_node_template(text, "x").spec_of(node)
    found = query_of(spec.prediction_metrics[0], spec.target_ref, ())
    assert isinstance(found, MetricHistoryQuery)
    return found


def test_a_nodes_cpu_is_asked_as_crane_does() -> None:
    found = resource(QueryResource.CPU, NODE)
    assert isinstance(found, MetricHistoryQuery)
    selector = r'mode="idle",instance=~"(n1\\.example\\.com)(:\\d+)?"'
    assert found.text == (
        f"sum(count(node_cpu_seconds_total{{{selector}}}) by (mode, cpu)) - "
        f"sum(irate(node_cpu_seconds_total{{{selector}}}[3m]))"
    )
    assert found.node == NODE.name


@pytest.mark.parametrize(
    ("target", "pods"),
    [
        (TargetRef("web", "Pod", "shop"), "web"),
        (TargetRef("web", "Deployment", "shop"), "web-[a-z0-9]+-[a-z0-9]{5}"),
        (TargetRef("web", "StatefulSet", "shop"), "web-[0-9]+"),
        (TargetRef("w.b", "DaemonSet", "shop"), r"w\\.b-[a-z0-9]{5}"),
    ],
)
def test_pods_of_a_workload(target: TargetRef, pods: str) -> None:
    found = resource(QueryResource.MEMORY, target, matchers=(("cluster", 'a"b'),))
    assert found == MetricHistoryQuery(
        f'sum(container_memory_working_set_bytes{{namespace="shop",pod=~"{pods}",container!="",'
        'cluster="a\\"b"})'
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (TargetRef("web", "Service", "shop"), "spec.targetRef.kind is 'Service', but must be one"),
        (TargetRef("web", "Deployment"), "spec.targetRef.namespace is missing"),
    ],
)
def test_who_cannot_be_asked_about(target: TargetRef, said: str) -> None:
    found = resource(QueryResource.CPU, target)
    assert isinstance(found, Gap)
    assert found.reason.startswith(said)


def test_a_metric_by_its_labels() -> None:
    labels = (
        LabelCondition("a", LabelOperator.IN, ("x", "y.z")),
        LabelCondition("b", LabelOperator.NOT_EQUAL, ("q",)),
    )
    metric = PredictionMetric(
        "x", QueryType.METRIC, DSP, metric_query=MetricQuery("node_load1", labels)
    )
    found = query_of(metric, NODE, (("cluster", "eu"),))
    assert found == MetricHistoryQuery('sum(node_load1{a=~"x|y\\\\.z",b!="q",cluster="eu"})')


def test_the_seeds_expression_is_asked_for_many_nodes_at_once() -> None:
    one, two = seed("n1"), seed("n2.example.com")
    assert one.group is not None
    assert one.group == two.group
    assert (one.node, two.node) == ("n1", "n2.example.com")
    selector = 'mode="idle",instance=~"(n1|n2.example.com)(:\\\\d+)?"'
    assert grouped_text(one.group, ("n1", "n2.example.com")) == (
        f"sum by (instance) (count by (mode, cpu, instance) (node_cpu_seconds_total{{{selector}}}))"
        f" - sum by (instance) (irate(node_cpu_seconds_total{{{selector}}}[5m]))"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum(irate", "max(irate"),
        ('mode="idle"', 'mode="idle",job="node"'),
        ("(:\\\\d+)?", ""),
        ("by (mode, cpu)", "by (cpu)"),
        (" - sum", " - 2 * sum"),
    ],
)
def test_any_other_expression_is_asked_alone(old: str, new: str) -> None:
    found = seed("n1", SEED_TEXT.replace(old, new))
    assert found.group is None
    assert new in found.text


def test_an_expression_about_two_nodes_is_asked_alone() -> None:
    text = seed("n1").text.replace("(n1)", "(n2)", 1)
    metric = PredictionMetric(
        "x", QueryType.EXPRESSION, DSP, expression_query=ExpressionQuery(text)
    )
    assert query_of(metric, NODE, ()) == MetricHistoryQuery(text)


def series(instance: str) -> SeriesRange:
    return SeriesRange({"instance": instance}, [60.0], [1.0])


def shared(escaped: bool, nodes: list[str], *instances: str) -> tuple[set[str], tuple[str, ...]]:
    query = resource(QueryResource.CPU, NODE) if escaped else seed("n1")
    assert isinstance(query, MetricHistoryQuery)
    assert query.group is not None
    found, alone = share_out(query.group, nodes, [series(each) for each in instances])
    return set(found), alone


@pytest.mark.parametrize("escaped", [True, False])
def test_each_instance_is_one_nodes(escaped: bool) -> None:
    assert shared(escaped, ["a", "b", "c"], "a:9100", "b") == ({"a", "b"}, ())


@pytest.mark.parametrize("escaped", [True, False])
def test_a_node_with_two_instances_is_asked_alone(escaped: bool) -> None:
    assert shared(escaped, ["a", "b"], "a:9100", "a:9101", "b:9100") == ({"b"}, ("a",))


def test_a_dot_that_means_any_character_is_asked_alone() -> None:
    """The template's expression for a.b counts a-b as well."""
    assert shared(False, ["a.b", "a-b"], "a.b:1", "a-b:1") == (set(), ("a-b", "a.b"))
    assert shared(True, ["a.b", "a-b"], "a.b:1", "a-b:1") == ({"a.b", "a-b"}, ())
