"""A node's face: what is applied to a Node is what is read from it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.node_condition import (
    CONDITION,
    Acting,
    NodeFace,
    face_object,
    read_face,
)
from slackwater.contract.node_report import ANNOTATION, NodeReport
from tests.unit.contract.test_node_report import reports, words

NOW = "2026-11-17T09:30:00Z"
SINCE = "2026-11-17T09:00:00Z"
faces = st.builds(
    NodeFace,
    reports,
    st.builds(Acting, st.sampled_from(("True", "False", "Unknown")), words, words, st.just(SINCE)),
)


@given(faces)
def test_what_is_applied_is_read_again(face: NodeFace) -> None:
    assert read_face(face_object("here", face, NOW)) == face


@given(faces)
def test_only_our_own_fields_are_applied(face: NodeFace) -> None:
    """Server-side apply owns what it is sent: nothing of anybody else may be in it."""
    made: dict[str, Any] = face_object("here", face, NOW)
    assert made["metadata"] == {"name": "here", "annotations": {ANNOTATION: face.report.text()}}
    [condition] = made["status"]["conditions"]
    assert condition["type"] == CONDITION
    assert condition["lastHeartbeatTime"] == NOW
    assert condition["lastTransitionTime"] == SINCE
    assert set(made) == {"apiVersion", "kind", "metadata", "status"}
    assert set(made["status"]) == {"conditions"}


def test_a_new_condition_is_so_since_now() -> None:
    face = NodeFace(NodeReport(), Acting("True", "Acting", "values are held"))
    made: dict[str, Any] = face_object("here", face, NOW)
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
    assert read_face(node) is None
