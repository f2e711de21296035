"""A node's face: what is applied to a Node is what is read from it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.node_condition import (
    CONDITION,
    AgentCondition,
    NodeStatusPatch,
    read_status_patch,
    status_patch_object,
)
from slackwater.contract.node_report import ANNOTATION, NodeReport
from tests.unit.contract.test_node_report import reports, words

NOW = "2026-11-17T09:30:00Z"
SINCE = "2026-11-17T09:00:00Z"
status_patches = st.builds(
    NodeStatusPatch,
    reports,
    st.builds(
        AgentCondition, st.sampled_from(("True", "False", "Unknown")), words, words, st.just(SINCE)
    ),
)


@given(status_patches)
def test_what_is_applied_is_read_again(status_patch: NodeStatusPatch) -> None:
    assert read_status_patch(status_patch_object("here", status_patch, NOW)) == status_patch


@given(status_patches)
def test_only_our_own_fields_are_applied(status_patch: NodeStatusPatch) -> None:
    """Server-side apply owns what it is sent: nothing of anybody else may be in it."""
    made: dict[str, Any] = status_patch_object("here", status_patch, NOW)
    assert made["metadata"] == {
        "name": "here",
        "annotations": {ANNOTATION: status_patch.report.text()},
    }
    [condition] = made["status"]["conditions"]
    assert condition["type"] == CONDITION
    assert condition["lastHeartbeatTime"] == NOW
    assert condition["lastTransitionTime"] == SINCE
    assert set(made) == {"apiVersion", "kind", "metadata", "status"}
    assert set(made["status"]) == {"conditions"}


def test_a_new_condition_is_so_since_now() -> None:
    status_patch = NodeStatusPatch(
        NodeReport(), AgentCondition("True", "Acting", "values are held")
    )
    made: dict[str, Any] = status_patch_object("here", status_patch, NOW)
    assert made["status"]["conditions"][0]["lastTransitionTime"] == NOW


ACTING = [{"type": CONDITION, "status": "True", "reason": "Acting", "message": "m"}]
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"metadata": {"annotations": {ANNOTATION: "{}"}}},
        {"status": {"conditions": ACTING}},
        {"metadata": {"annotations": {ANNOTATION: "{"}}, "status": {"conditions": ACTING}},
        {"metadata": {"annotations": {ANNOTATION: "{}"}}, "status": {"conditions": "odd"}},
        {"metadata": {"annotations": {ANNOTATION: "{}"}}, "status": {"conditions": READY}},
        "no object",
    ],
)  # fmt: skip
def test_half_a_face_is_none(node: object) -> None:
    assert read_status_patch(node) is None
