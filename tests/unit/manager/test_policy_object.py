"""What is read of a policy object, and what becomes of one that is wrong."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.ensurance import NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.resources import ENSURANCE_KINDS, NODE_QOS, NODE_QOS_ENSURANCE_POLICIES
from slackwater.manager.policy_object import reader_of
from slackwater.model.gap import Gap
from tests.unit.manager.objects import policy, policy_document, read, rule


@pytest.mark.parametrize(
    ("resource", "kind"),
    [(NODE_QOS, NodeQos), (NODE_QOS_ENSURANCE_POLICIES, NodeQosEnsurancePolicy)],
)
def test_both_names_of_a_policy_are_read(resource: Any, kind: type) -> None:
    found = policy(rule("throttle"), resource=resource, generation=3)
    assert isinstance(found.value, kind)
    assert (found.name, found.uid, found.generation) == ("waterline", "uid-of-waterline", 3)
    assert found.status is None
    assert str(found) == f"{resource.kind} waterline"


def test_a_wrong_spec_keeps_its_sentence_without_the_objects_name() -> None:
    found = policy(rule(value=0))
    assert isinstance(found.value, Gap)
    assert found.value.reason.startswith("spec.rules[0].metricRule.value is 0, but must be ")
    assert found.generation == 1


def test_several_flaws_are_several_sentences() -> None:
    found = policy(rule(value=0), rule(value=0))
    assert isinstance(found.value, Gap)
    assert found.value.reason.count("waterline") == 0
    assert found.value.reason.count("but must be") >= 2


def test_the_status_that_stands_there_is_read() -> None:
    status = {"observedGeneration": 1, "summary": "throttles", "nodes": 2}
    found = policy(status=status)
    assert found.status is not None
    assert (found.status.summary, found.status.nodes) == ("throttles", 2)


@pytest.mark.parametrize("status", [7, {"nodes": "many"}, {"conditions": [{"type": "Valid"}]}])
def test_a_status_that_is_wrong_is_none_and_hurts_nothing_else(status: Any) -> None:
    found = policy(status=status)
    assert found.status is None
    assert isinstance(found.value, NodeQos)


@pytest.mark.parametrize("resource", ENSURANCE_KINDS, ids=lambda each: each.kind)
@pytest.mark.parametrize("spec", [{}, {"rules": 7}, [], None, {"throttle": []}])
def test_no_spec_is_an_exception(resource: Any, spec: Any) -> None:
    raw = policy_document()
    raw["spec"] = spec
    found = read(resource, raw)
    assert found.name == "waterline"
    if isinstance(found.value, Gap):
        assert "\n" not in found.value.reason


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata": {}}', b"[]", b'{"metadata": {"name": 7}}'])
def test_what_has_no_name_is_no_object(raw: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        reader_of(NODE_QOS)(msgspec.Raw(raw))
