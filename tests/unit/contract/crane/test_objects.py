"""Crane's objects: what is read, what is refused, and in which words."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.crane.ensurance import Strategy
from slackwater.contract.crane.metrics import METRICS
from slackwater.contract.crane.objects import (
    read_avoidance_action,
    read_node_qos,
    read_node_qos_ensurance_policy,
    read_pod_qos,
    read_prediction_template,
    read_time_series_prediction,
)
from slackwater.contract.resources import Resource
from slackwater.contract.topology import ZoneType, read_crane_topology, read_node_topology
from slackwater.model.problem import InvalidError
from tests.unit.contract.crane import documents as whole
from tests.unit.contract.crane.documents import READERS, WHOLE, Document, spoilt
from tests.unit.contract.crane.wrong_documents import ALL_WRONG, fields, schemas
from tests.unit.contract.documents import ANYTHING

MANIFESTS = Path(__file__).parents[3] / "cluster" / "manifests"


def manifest(name: str) -> Document:
    document: Document = yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())
    return document


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_whole_documents_have_every_field_and_are_read(kind: Resource) -> None:
    """So that what the tests in a cluster apply is all that there is."""
    schema = schemas()[kind]
    found = {_shape(schema, path) for path, _ in fields(schema, WHOLE[kind], ())}
    sources = (f"spec.source.{key}" for key in ("probe", "httpGet", "file", "pressure", "series"))
    elsewhere = ("status", "spec.nodeQualityProbe.httpGet", *sources)
    assert {each for each in _shapes(schema) if not each.startswith(elsewhere)} == found
    assert READERS[kind](WHOLE[kind], "file").metadata.name == WHOLE[kind]["metadata"]["name"]


def _shape(schema: dict[str, Any], path: tuple[str | int, ...]) -> str:
    """A path with * for a place in a list or a key of a mapping."""
    parts = []
    for each in path:
        known = schema.get("properties", {})
        parts.append(str(each) if each in known else "*")
        schema = known.get(each) or schema.get("items") or schema["additionalProperties"]
    return ".".join(parts)


def _shapes(schema: dict[str, Any], path: str = "") -> set[str]:
    """Every path that a schema has."""
    below = dict(schema.get("properties", {}))
    inner = schema.get("items") or schema.get("additionalProperties")
    if inner:
        below["*"] = inner
    found: set[str] = set()
    for key, each in below.items():
        if path or key not in ("apiVersion", "kind", "metadata"):
            found |= {f"{path}{key}"} | _shapes(each, f"{path}{key}.")
    return found


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_each_wrong_field_is_refused_by_name(kind: Resource) -> None:
    """One test for all of a kind: as hundreds of tests they would take seconds."""
    for wrong in (each for each in ALL_WRONG if each.kind == kind):
        with pytest.raises(InvalidError) as caught:
            READERS[kind](wrong.document(), "file")
        told = str(caught.value)
        assert told.startswith(f"file: {kind.kind} "), wrong.id
        assert wrong.named in told.replace("['", ".").replace("']", ""), wrong.id
        assert "\n" not in told, wrong.id


def test_there_are_many_wrong_fields() -> None:
    """A change of the walk must not quietly test nothing."""
    assert len(ALL_WRONG) > 400
    assert {wrong.kind for wrong in ALL_WRONG} == set(WHOLE)


RULE = ("spec", "rules", 0)


@pytest.mark.parametrize("document", [None, [], "text", {}, {"metadata": {}}])
def test_no_object_at_all(document: object) -> None:
    for read in READERS.values():
        with pytest.raises(InvalidError):
            read(document, "file")


def test_the_actions_of_the_seed() -> None:
    stop, throttle, evict = (
        read_avoidance_action(manifest(f"{name}-action"), "seed")
        for name in ("disable-scheduling", "throttle", "eviction")
    )
    assert stop.metadata.name == "disablescheduling"
    assert stop.metadata.labels == {"app": "system"}
    assert stop.spec.cool_down_seconds == 300
    assert stop.spec.throttle is None
    assert stop.spec.eviction is None
    assert throttle.spec.throttle is not None
    assert throttle.spec.throttle.cpu_throttle is not None
    assert throttle.spec.throttle.cpu_throttle.step_ratio == 10
    assert throttle.spec.throttle.cpu_throttle.min_ratio == 10
    assert evict.spec.eviction is not None
    assert evict.spec.eviction.termination_grace_period_seconds == 30
    assert evict.spec.description == "evict low priority pods"


@pytest.mark.parametrize(
    ("name", "limit", "strategy", "action"),
    [
        ("disable-scheduling", 4000, Strategy.ACT, "disablescheduling"),
        ("throttle", 6000, Strategy.ACT, "throttle"),
        ("eviction", 6000, Strategy.PREVIEW, "eviction"),
    ],
)
def test_the_policies_of_the_seed(name: str, limit: int, strategy: Strategy, action: str) -> None:
    policy = read_node_qos_ensurance_policy(manifest(f"{name}-policy"), "seed")
    (rule,) = policy.spec.rules
    assert (rule.metric_rule.name, rule.metric_rule.limit) == ("cpu_total_usage", limit)
    assert (rule.strategy, rule.action_name) == (strategy, action)
    assert (rule.avoidance_threshold, rule.restores_after) == (2, 2)
    assert policy.spec.selector is None
    assert policy.spec.node_quality_probe.node_local_get is not None


def test_the_template_of_the_seed() -> None:
    text = manifest("prediction-template")["data"]["spec"]
    template = read_prediction_template(yaml.safe_load(text), "seed")
    (metric,) = template.prediction_metrics
    assert template.prediction_window_seconds == 3600
    assert metric.resource_identifier == "cpu"
    assert metric.algorithm.dsp is not None
    assert metric.algorithm.dsp.history_length == "3d"
    assert metric.expression_query is not None
    assert metric.expression_query.expression.startswith("sum(count(node_cpu_seconds_total")


def test_a_wrong_template() -> None:
    document = yaml.safe_load(manifest("prediction-template")["data"]["spec"])
    del document["predictionMetrics"][0]["expressionQuery"]
    with pytest.raises(InvalidError) as caught:
        read_prediction_template(document, "ConfigMap")
    assert str(caught.value) == (
        "ConfigMap: predictionMetrics[0].expressionQuery is missing, but must be there with the "
        "type ExpressionQuery"
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, 1),
        ({"restoreThreshold": 4}, 4),
        ({"restoredThreshold": 5}, 5),
        ({"restoreThreshold": 6, "restoredThreshold": 6}, 6),
        ({"restoreThreshold": None, "restoredThreshold": 7}, 7),
    ],
)
def test_restored_threshold_is_an_alias(said: Document, meant: int) -> None:
    bare = {key: value for key, value in whole.RULE.items() if not key.startswith("restore")}
    policy = read_node_qos(spoilt(whole.NODE_QOS, RULE, {**bare, **said}), "file")
    assert policy.spec.rules[0].restores_after == meant


@pytest.mark.parametrize(
    ("value", "limit"),
    [(1, 1), ("4k", 4000), ("1500m", 2), ("0.5", 1), ("+3", 3), ("1e3", 1000), ("2Gi", 2 << 30)],
)
def test_a_value_is_rounded_up(value: object, limit: int) -> None:
    """Go's Quantity.Value()."""
    document = spoilt(whole.NODE_QOS, (*RULE, "metricRule", "value"), value)
    assert read_node_qos(document, "file").spec.rules[0].metric_rule.limit == limit


def test_defaults() -> None:
    action = read_avoidance_action({"metadata": {"name": "a"}, "spec": {}}, "file")
    assert action.spec.cool_down_seconds == 300
    rule = {"name": "a", "actionName": "b", "metricRule": {"name": "memory_total", "value": 1}}
    spec = {"nodeQualityProbe": {"nodeLocalGet": {}}, "rules": [rule]}
    policy = read_node_qos({"metadata": {"name": "a"}, "spec": spec}, "file")
    assert policy.spec.node_quality_probe.node_local_get is not None
    assert policy.spec.node_quality_probe.node_local_get.cache_seconds == 60
    assert policy.spec.rules[0].avoidance_threshold == 1
    assert policy.spec.rules[0].restores_after == 1
    assert policy.spec.rules[0].strategy is Strategy.ACT


def test_a_metric_of_ones_own_needs_a_probe_of_ones_own() -> None:
    document = spoilt(whole.NODE_QOS, (*RULE, "metricRule", "name"), "my_metric")
    probed = spoilt(document, ("spec", "nodeQualityProbe"), {"httpGet": {"port": 80}})
    assert read_node_qos(probed, "file").spec.rules[0].metric_rule.name == "my_metric"


@pytest.mark.parametrize(
    ("value", "limit", "exact"),
    [(4000, 4000, 4000.0), ("50m", 1, 0.05), ("1500m", 2, 1.5), ("4k", 4000, 4000.0)],
)
def test_the_limit_is_rounded_up_and_there_exactly(value: object, limit: int, exact: float) -> None:
    document = spoilt(whole.NODE_QOS, (*RULE, "metricRule", "value"), value)
    found = read_node_qos(document, "file").spec.rules[0].metric_rule
    assert (found.limit, found.exact_limit) == (limit, exact)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_may_be_named(metric: str) -> None:
    document = spoilt(whole.NODE_QOS, (*RULE, "metricRule", "name"), metric)
    assert read_node_qos(document, "file").spec.rules[0].metric_rule.name == metric


@pytest.mark.parametrize("values", [["1000-3000"], ["-10--5"], ["-5-5"], ["0", "7"]])
def test_priorities(values: list[str]) -> None:
    path = ("spec", "scopeSelector", "matchExpressions", 1, "values")
    found = read_pod_qos(spoilt(whole.POD_QOS, path, values), "file").spec.scope_selector
    assert found is not None
    assert found.match_expressions[1].values == tuple(values)


def test_selectors_select() -> None:
    selector = read_node_qos(whole.NODE_QOS, "file").spec.selector
    assert selector is not None
    labels = {"pool": "batch", "example.com/zone": "b"}
    assert selector.selects(labels)
    assert not selector.selects({**labels, "spot": ""})
    assert not selector.selects({**labels, "pool": "web"})


def test_topologies() -> None:
    crane = read_crane_topology(whole.CRANE_TOPOLOGY, "file")
    assert crane.zones[0].type is ZoneType.NODE
    assert crane.zones[0].resources is not None
    assert crane.zones[0].resources.capacity == {"cpu": "3500m", "memory": "16Gi", "pods": 110}
    node = read_node_topology(whole.NODE_TOPOLOGY, "file")
    assert node.zones[0].resources[0].capacity == 8
    assert node.topology_policies == ("SingleNUMANodePodLevel",)
    older = spoilt(whole.NODE_TOPOLOGY, ("attributes",), whole.ABSENT)
    assert read_node_topology(older, "file").attributes == ()


def test_predictions() -> None:
    found = read_time_series_prediction(whole.PREDICTION, "file")
    assert found.spec.target_ref.name == "node1.example.com"
    assert [each.resource_identifier for each in found.spec.prediction_metrics] == ["cpu", "memory"]


def test_aliases_and_rings_of_yaml_are_no_danger() -> None:
    """A few bytes of YAML can be a tree of billions, or one without end."""
    ring: list[object] = []
    ring.append(ring)
    layer: object = ["x"]
    for _ in range(40):
        layer = [layer] * 10
    document = {**whole.ACTION, "spec": {**whole.ACTION["spec"], "more": layer, "ring": ring}}
    assert read_avoidance_action(document, "file").spec.cool_down_seconds == 120
    with pytest.raises(InvalidError):
        read_avoidance_action({**whole.ACTION, "spec": ring}, "file")


@given(st.sampled_from(list(WHOLE)), st.data())
def test_nothing_but_problems(kind: Resource, data: st.DataObject) -> None:
    """Whatever stands anywhere: the object is read, or there is a line of sentences."""
    places = [path for path, _ in fields(schemas()[kind], WHOLE[kind], ())]
    path = data.draw(st.sampled_from(places))
    document = spoilt(WHOLE[kind], path, data.draw(ANYTHING))
    try:
        READERS[kind](document, "file")
    except InvalidError as error:
        assert str(error).startswith(("file: ", "a key of file: "))
        assert "\n" not in str(error)
