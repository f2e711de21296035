"""The objects of QoS ensurance together: order, doubles, and which are for a node."""

import pytest

from slackwater.contract.crane.ensurance_set import (
    EnsuranceObjects,
    join_ensurance,
    policy_title,
    read_ensurance,
)
from slackwater.model.problem import InvalidError


def document(kind: str, name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "ensurance.crane.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def rules(key: str, limit: int = 1, **more: object) -> dict[str, object]:
    rule = {
        "name": "r",
        "actionName": "throttle",
        "metricRule": {"name": "cpu_total_usage", "value": limit},
    }
    return {"nodeQualityProbe": {"nodeLocalGet": {}}, key: [rule], **more}


def read(kind: str, name: str, **spec: object) -> EnsuranceObjects:
    found = read_ensurance(kind, document(kind, name, **spec), "test")
    assert found is not None
    return found


def test_both_kinds_of_policies_are_read_and_named() -> None:
    found = join_ensurance(
        [
            read("NodeQOSEnsurancePolicy", "old", **rules("objectiveEnsurances")),
            read("NodeQOS", "new", **rules("rules")),
            read("NodeQOS", "also", **rules("rules")),
        ]
    )
    titles = [policy_title(each) for each in found.policies()]
    assert titles == ["NodeQOS/also", "NodeQOS/new", "NodeQOSEnsurancePolicy/old"]


def test_of_two_with_one_name_the_last_counts() -> None:
    found = join_ensurance(
        [read("NodeQOS", "q", **rules("rules", 1)), read("NodeQOS", "q", **rules("rules", 2))]
    )
    [(_, rule)] = found.rules_for({})
    assert rule.metric_rule.limit == 2


@pytest.mark.parametrize(("labels", "count"), [({"pool": "a"}, 1), ({"pool": "b"}, 0), ({}, 0)])
def test_only_policies_for_the_node_have_rules_for_it(labels: dict[str, str], count: int) -> None:
    selector = {"matchLabels": {"pool": "a"}}
    found = read("NodeQOS", "q", **rules("rules", selector=selector))
    assert len(list(found.rules_for(labels))) == count


def test_an_action_is_found_by_its_name() -> None:
    found = read("AvoidanceAction", "throttle", coolDownSeconds=7)
    action = found.action("throttle")
    assert action is not None
    assert action.spec.cool_down_seconds == 7
    assert found.action("evict") is None


def test_other_kinds_are_not_read_and_bad_ones_are_refused() -> None:
    assert read_ensurance("Pod", {}, "test") is None
    with pytest.raises(InvalidError, match="coolDownSeconds"):
        read("AvoidanceAction", "a", coolDownSeconds=0)
