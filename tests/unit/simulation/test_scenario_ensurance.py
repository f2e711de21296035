"""Objects of QoS ensurance, what they look at in pods, and metrics, in a scenario's file."""

from typing import Any

import pytest

from slackwater.model.units import Micros, MilliCpu
from slackwater.simulation.demand import FOREVER, SECOND, Steady
from slackwater.simulation.scenario import NewObjects, ScenarioMetric, ScenarioPod
from tests.unit.simulation.test_scenario_file import BATCH, MINUTE, POD, refusal, scenario, written

ACTION: dict[str, Any] = {
    "apiVersion": "ensurance.crane.io/v1alpha1",
    "kind": "AvoidanceAction",
    "metadata": {"name": "throttle"},
    "spec": {"throttle": {"cpuThrottle": {"stepCPURatio": 10, "minCPURatio": 10}}},
}
RULES: dict[str, Any] = {
    "apiVersion": "ensurance.crane.io/v1alpha1",
    "kind": "NodeQOS",
    "metadata": {"name": "waterline"},
    "spec": {
        "nodeQualityProbe": {"nodeLocalGet": {}},
        "rules": [
            {
                "name": "cpu",
                "actionName": "throttle",
                "metricRule": {"name": "cpu_total_usage", "value": 3000},
            }
        ],
    },
}
LATENCY = {"name": "latency:p99", "series": "20m"}


def pod(**said: Any) -> ScenarioPod:
    (found,) = scenario(pods=[{**POD, **said}]).pods
    return found


def metric(**said: Any) -> ScenarioMetric:
    (found,) = scenario(pods=[POD], metrics=[{**LATENCY, **said}]).metrics
    return found


def test_objects_as_in_a_cluster() -> None:
    found = scenario(objects=[ACTION, RULES]).objects.ensurance
    assert [each.metadata.name for each in found.actions] == ["throttle"]
    assert [each.metadata.name for each in found.node_qos] == ["waterline"]


def test_what_rules_look_at_in_a_pod() -> None:
    found = pod(
        namespace="team",
        priority=-10,
        labels={"app": "x"},
        annotations={"slackwater.io/exempt": "true"},
        extendedResources={"gocrane.io/cpu": 2, "gocrane.io/memory": "2Ki"},
        age="72h",
        grace="5s",
        replaced=True,
        replacedAfter="1m",
    )
    assert (found.title(), found.priority, found.age) == ("team/web", -10, 72 * 60 * MINUTE)
    assert (found.labels, found.annotations) == ({"app": "x"}, {"slackwater.io/exempt": "true"})
    assert found.extended == {"gocrane.io/cpu": 2000, "gocrane.io/memory": 2048}
    assert (found.grace, found.replaced, found.replaced_after) == (5 * SECOND, True, MINUTE)


def test_the_least_that_a_pod_says() -> None:
    found = pod()
    assert (found.title(), found.priority, found.age) == ("default/web", 0, 0)
    assert (found.labels, found.annotations, found.extended) == ({}, {}, {})
    assert (found.grace, found.replaced) == (30 * SECOND, False)


def test_a_metric_over_time() -> None:
    assert metric() == ScenarioMetric("latency:p99", Steady(MilliCpu(20)))
    found = metric(
        source="NodeQOS/latency", labels={"path": "/"}, pod="web", **{"from": "1m", "until": "2m"}
    )
    assert (found.source, found.pod, found.labels) == ("NodeQOS/latency", "web", {"path": "/"})
    assert (found.starts, found.ends) == (MINUTE, 2 * MINUTE)
    assert metric().ends == FOREVER


def test_objects_come_change_and_go() -> None:
    stricter = {**RULES, "metadata": {"name": "waterline"}, "spec": {**RULES["spec"]}}
    stricter["spec"]["rules"] = [
        {**RULES["spec"]["rules"][0], "metricRule": {"name": "cpu_total_usage", "value": 2000}}
    ]
    found = scenario(
        objects=[ACTION],
        events=[
            {"at": "3m", "kind": "object-removed", "object": "NodeQOS/waterline"},
            {"at": "1m", "kind": "objects", "objects": [RULES]},
            {"at": "2m", "kind": "objects", "objects": [stricter]},
        ],
    ).events
    assert [each.at for each in found] == [MINUTE, 2 * MINUTE, 3 * MINUTE]
    limits, told = [], []
    for each in found:
        assert isinstance(each, NewObjects)
        told.append(each.what)
        rules = [rule for policy in each.ensurance.node_qos for rule in policy.spec.rules]
        limits.append([rule.metric_rule.limit for rule in rules])
        assert len(each.ensurance.actions) == 1
    assert limits == [[3000], [2000], []]
    assert told == [
        "NodeQOS/waterline applied",
        "NodeQOS/waterline applied",
        "NodeQOS/waterline is deleted",
    ]


def rules_with(**said: Any) -> dict[str, Any]:
    rule = {**RULES["spec"]["rules"][0], **said}
    return {**RULES, "spec": {**RULES["spec"], "rules": [rule]}}


EVENT = {"at": "1m", "kind": "objects"}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"pods": [{**POD, "priority": "high"}]},
            (
                "spec.pods[0].priority is 'high', but must be a whole number, "
                "-2147483648 to 2147483647"
            ),
        ),
        (
            {"pods": [{**POD, "namespace": "Team"}]},
            (
                "spec.pods[0].namespace is 'Team', but must be a name: at most 63 "
                "lower-case letters, "
                "digits and dashes"
            ),
        ),
        (
            {"pods": [{**POD, "labels": {"app": 1}}]},
            "spec.pods[0].labels.app is 1, but must be a text",
        ),
        (
            {"pods": [{**POD, "annotations": []}]},
            "spec.pods[0].annotations is a list, but must be a mapping",
        ),
        (
            {"pods": [{**POD, "extendedResources": {"cpu": 1}}]},
            (
                "spec.pods[0].extendedResources is 'cpu', but must be a domain, a slash and a "
                "name, such as gocrane.io/cpu"
            ),
        ),
        (
            {"pods": [{**POD, "extendedResources": {"gocrane.io/cpu": -1}}]},
            (
                "spec.pods[0].extendedResources['gocrane.io/cpu'] is -1, but must be CPUs to a "
                "thousandth, zero or more, such as 2 or 500m"
            ),
        ),
        (
            {"pods": [{**POD, "age": "-1s"}]},
            (
                "spec.pods[0].age is '-1s', but must be a duration such as 500ms, 1s or "
                "1m30s, 0s to 87600h"
            ),
        ),
        (
            {"pods": [{**POD, "grace": 30}]},
            (
                "spec.pods[0].grace is 30, but must be a duration such as 500ms, 1s or "
                "1m30s, 0s to 168h"
            ),
        ),
        (
            {"pods": [{**POD, "replaced": "5s"}]},
            "spec.pods[0].replaced is '5s', but must be true or false",
        ),
        (
            {"pods": [{**POD, "replacedAfter": "200h"}]},
            (
                "spec.pods[0].replacedAfter is '200h', but must be a duration such as "
                "500ms, 1s or 1m30s, 0s to 168h"
            ),
        ),
        (
            {"metrics": [{"name": "", "series": 1}]},
            "spec.metrics[0].name is '', but must be the name of a metric",
        ),
        ({"metrics": [{"name": "x"}]}, "spec.metrics[0].series is missing"),
        (
            {"metrics": [{"name": "x", "series": "-1"}]},
            "spec.metrics[0].series is '-1', but must be a quantity from 0 to what 64 bits hold",
        ),
        (
            {"metrics": [{**LATENCY, "source": "latency"}]},
            (
                "spec.metrics[0].source is 'latency', but must be a kind, a slash and a "
                "name, such as "
                "NodeQOS/latency"
            ),
        ),
        (
            {"metrics": [{**LATENCY, "pod": "nobody"}]},
            "spec.metrics[0].pod is 'nobody', but must be the name of a pod of the scenario",
        ),
        ({"metrics": [{**LATENCY, "labels": {"a": 1}}]}, "spec.metrics[0].labels.a is 1"),
        (
            {"metrics": [{**LATENCY, "value": 1}]},
            "spec.metrics[0] is 'value', but must be one of",
        ),
        ({"metrics": [LATENCY] * 201}, "spec.metrics"),
        (
            {"objects": [rules_with(metricRule={"name": "cpu_total_usage", "value": -1})]},
            "spec.rules[0].metricRule.value is -1, but must be",
        ),
        (
            {"objects": [rules_with(avoidanceThreshold=0)]},
            "spec.rules[0].avoidanceThreshold is 0, but must be",
        ),
        (
            {"events": [{**EVENT, "objects": [BATCH]}]},
            "spec.events[0].objects[0] is '', but must be an object of one of the kinds NodeQOS,",
        ),
        (
            {"events": [{**EVENT, "objects": [rules_with(actionName="")]}]},
            "spec.rules[0].actionName is ''",
        ),
        (
            {"events": [{"at": "1m", "kind": "object-removed", "object": "NodeQOS/x"}]},
            (
                "spec.events[0].object is 'NodeQOS/x', but must be the kind and name of "
                "an object of "
                "QoS ensurance that is there, as NodeQOS/latency"
            ),
        ),
        (
            {"events": [{"at": "1m", "kind": "object-removed", "object": "Pod/x"}]},
            "spec.events[0].object is 'Pod/x', but must be the kind and name",
        ),
    ],
)
def test_each_wrong_field_is_one_sentence(spec: dict[str, Any], sentence: str) -> None:
    said = refusal(written(**spec))
    assert sentence in said
    assert "\n" not in said


def test_times_are_microseconds() -> None:
    assert pod(**{"from": "1m"}).starts == Micros(MINUTE)
