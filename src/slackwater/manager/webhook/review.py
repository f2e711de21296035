"""Answers one AdmissionReview about a Node's status. A pure function of its bytes.

Whatever comes, the write is allowed: a node's heartbeat must never fail because of us. What cannot
be read is answered with the reason, and counted.
"""

import base64
import enum
from http import HTTPStatus

import msgspec

from slackwater.contract.koordinator.amplification import (
    AMPLIFIED_RESOURCES,
    NodeAmounts,
    amplify_node,
    json_patch,
)
from slackwater.model.problem import quoted, shorten

API_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"
_KUBELET = "system:node:{}"
_LONGEST_REASON = 300
_LONGEST_UID = 128


class ReviewResult(enum.Enum):
    """What became of a review, for the metric's label."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    #: An annotation cannot be read: the last good ratio counts, if there was one.
    HELD = "held"
    #: It is not a review that can be answered.
    REFUSED = "refused"


class ReviewAnswer(msgspec.Struct, frozen=True):
    """`problem` is one sentence about what could not be read, empty where there is nothing."""

    status: HTTPStatus
    body: bytes
    result: ReviewResult
    node: str = ""
    problem: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct, frozen=True):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    status: _Status = _Status()


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    kind: _Kind = _Kind()
    sub_resource: str = ""
    operation: str = ""
    name: str = ""
    user_info: _User = _User()
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_REVIEWS = msgspec.json.Decoder(_Review)
_NODES = msgspec.json.Decoder(_Node)
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_NODE = _Kind("", "v1", "Node")


def answer_review(body: bytes) -> ReviewAnswer:
    try:
        review = _REVIEWS.decode(body)
    except _UNREADABLE as error:
        return _refuse(f"not an {_KIND}: {_reason(error)}")
    asked = review.request
    if asked is None or not 0 < len(asked.uid) <= _LONGEST_UID:
        return _refuse(f"not an {_KIND}: its request has no uid")
    if review.kind != _KIND or review.api_version != API_VERSION:
        seen = quoted(f"{review.api_version} {review.kind}")
        return _allow_unread(review, asked, f"{_KIND} is {seen}, but must be of {API_VERSION}")
    if asked.kind != _NODE or asked.sub_resource != "status" or asked.operation != "UPDATE":
        seen = quoted(f"{asked.operation} of {asked.kind.kind}/{asked.sub_resource}")
        return _allow_unread(
            review, asked, f"the write is {seen}, but must be UPDATE of Node/status"
        )
    try:
        old, new = _read(asked.name, asked.old_object), _read(asked.name, asked.object)
    except _UNREADABLE as error:
        return _allow_unread(review, asked, f"Node {quoted(asked.name)}: {_reason(error)}")
    return _decide(asked, old, new)


def _decide(asked: _Request, old: NodeAmounts, new: NodeAmounts) -> ReviewAnswer:
    by_kubelet = asked.user_info.username == _KUBELET.format(asked.name)
    changes = amplify_node(old, new, by_kubelet=by_kubelet)
    said: dict[str, object] = {"uid": asked.uid, "allowed": True}
    result = ReviewResult.UNCHANGED
    if changes:
        patch = msgspec.json.encode(json_patch(new, changes))
        said |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        result = ReviewResult.CHANGED
    if changes.problem:
        result = ReviewResult.HELD
    return ReviewAnswer(
        HTTPStatus.OK, _encode(API_VERSION, said), result, asked.name, changes.problem
    )


def _read(name: str, raw: msgspec.Raw) -> NodeAmounts:
    node = _NODES.decode(raw)
    return NodeAmounts(
        name,
        _amounts(node.status.capacity),
        _amounts(node.status.allocatable),
        node.metadata.annotations or {},
    )


def _amounts(stated: dict[str, str | int | float] | None) -> dict[str, str]:
    return {name: str(stated[name]) for name in AMPLIFIED_RESOURCES if stated and name in stated}


def _allow_unread(review: _Review, asked: _Request, problem: str) -> ReviewAnswer:
    """In the version that it was asked in, unchanged; whoever wrote the Node is warned."""
    said = {"uid": asked.uid, "allowed": True, "warnings": [shorten(problem, _LONGEST_REASON)]}
    version = review.api_version or API_VERSION
    return ReviewAnswer(
        HTTPStatus.OK,
        _encode(version, said),
        ReviewResult.REFUSED,
        asked.name,
        shorten(problem, _LONGEST_REASON),
    )


def _refuse(problem: str) -> ReviewAnswer:
    """Without a uid no answer is accepted; the API server ignores this one (failurePolicy)."""
    said = shorten(problem, _LONGEST_REASON)
    return ReviewAnswer(
        HTTPStatus.BAD_REQUEST,
        msgspec.json.encode({"error": said}),
        ReviewResult.REFUSED,
        problem=said,
    )


def _encode(version: str, response: object) -> bytes:
    return msgspec.json.encode({"apiVersion": version, "kind": _KIND, "response": response})


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
