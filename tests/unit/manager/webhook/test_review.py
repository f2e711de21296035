"""Reviews, good and bad: whatever comes is allowed, and says why it was not read."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.koordinator.normalization import AMPLIFICATION_ANNOTATION
from slackwater.manager.webhook.review import ReviewResult, answer_review


def node(cpu: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "annotations": annotations or None},
        "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": cpu, "pods": "110"}},
    }


def review(**changed: Any) -> dict[str, Any]:
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "subResource": "status",
        "operation": "UPDATE",
        "name": "n1",
        "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]},
        "object": node("6", **{AMPLIFICATION_ANNOTATION: '{"cpu":1.50}'}),
        "oldObject": node("8"),
        **changed,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def patch_of(body: bytes) -> dict[str, object]:
    said = json.loads(body)["response"]
    assert (said["uid"], said["allowed"], said["patchType"]) == ("u-1", True, "JSONPatch")
    return {each["path"]: each.get("value") for each in json.loads(base64.b64decode(said["patch"]))}


def test_what_the_kubelet_states_comes_back_amplified() -> None:
    answer = answer_review(json.dumps(review()).encode())
    assert (answer.status, answer.result, answer.node) == (200, ReviewResult.CHANGED, "n1")
    made = patch_of(answer.body)
    assert made["/status/allocatable/cpu"] == "9"
    assert made["/metadata/annotations/node.koordinator.sh~1raw-allocatable"] == '{"cpu":"6"}'


@pytest.mark.parametrize(
    ("user", "amount"),
    [("system:node:n1", "9"), ("system:node:n2", None), ("system:serviceaccount:a:b", None)],
)
def test_only_the_nodes_own_kubelet_is_believed(user: str, amount: str | None) -> None:
    first = answer_review(json.dumps(review()).encode())
    kept = {
        path.rpartition("/")[2].replace("~1", "/"): str(value)
        for path, value in patch_of(first.body).items()
        if path.startswith("/metadata/annotations/")
    }
    kept[AMPLIFICATION_ANNOTATION] = '{"cpu":1.50}'
    asked = review(
        userInfo={"username": user}, oldObject=node("9", **kept), object=node("8", **kept)
    )
    made = patch_of(answer_review(json.dumps(asked).encode()).body)
    assert made["/status/allocatable/cpu"] == ("12" if amount else "9")


def test_a_node_that_takes_no_part_is_left_as_it_is() -> None:
    answer = answer_review(json.dumps(review(object=node("6"))).encode())
    assert answer.result is ReviewResult.UNCHANGED
    assert json.loads(answer.body)["response"] == {"uid": "u-1", "allowed": True}


def test_a_ratio_that_cannot_be_read_changes_nothing() -> None:
    bad = review(object=node("6", **{AMPLIFICATION_ANNOTATION: "{]"}))
    answer = answer_review(json.dumps(bad).encode())
    assert answer.result is ReviewResult.HELD
    assert "is '{]', but must be a JSON mapping" in answer.problem
    assert json.loads(answer.body)["response"] == {"uid": "u-1", "allowed": True}


BETA = {**review(), "apiVersion": "admission.k8s.io/v1beta1"}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (BETA, "AdmissionReview is 'admission.k8s.io/v1beta1 AdmissionReview', but must be of"),
        ({**review(), "kind": "Review"}, "must be of admission.k8s.io/v1"),
        (review(kind={"group": "", "version": "v1", "kind": "Pod"}), "'UPDATE of Pod/status'"),
        (
            review(subResource=""),
            "the write is 'UPDATE of Node/', but must be UPDATE of Node/status",
        ),
        (review(operation="CREATE"), "'CREATE of Node/status'"),
        (review(object=None), "Node 'n1': Expected `object`, got `null`"),
        (review(object={"status": {"allocatable": ["cpu"]}}), "Expected `object | null`"),
        (review(object={"metadata": {"annotations": {"a": 1}}}), "Expected `str`, got `int`"),
    ],
)
def test_what_is_no_write_of_a_nodes_status_is_allowed_with_the_reason(
    asked: dict[str, Any], reason: str
) -> None:
    answer = answer_review(json.dumps(asked).encode())
    said = json.loads(answer.body)
    assert (answer.status, answer.result) == (200, ReviewResult.REFUSED)
    assert said["apiVersion"] == asked["apiVersion"]
    assert (said["response"]["uid"], said["response"]["allowed"]) == ("u-1", True)
    assert reason in answer.problem
    assert said["response"]["warnings"] == [answer.problem]


@pytest.mark.parametrize(
    "body",
    [b"", b"{]", b"[]", b"null", b'"\xff"', b"[" * 100_000, b"{}", b'{"request":{"uid":""}}'],
)
def test_garbage_is_answered_with_one_sentence(body: bytes) -> None:
    answer = answer_review(body)
    assert (answer.status, answer.result) == (400, ReviewResult.REFUSED)
    assert json.loads(answer.body)["error"].startswith("not an AdmissionReview: ")


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: json.dumps(text).encode()))
def test_no_bytes_make_it_fail(body: bytes) -> None:
    assert answer_review(body).status in (200, 400)
