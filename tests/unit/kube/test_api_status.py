"""From an answer that is not 2xx to one sentence with Kubernetes' own word."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.errors import RequestError
from slackwater.kube.api_status import Status, refusal, refusal_of


def body(**fields: object) -> bytes:
    return msgspec.json.encode({"kind": "Status", **fields})


@pytest.mark.parametrize(
    ("status", "content", "reason", "message"),
    [
        (404, body(reason="NotFound", message='pods "x" not found'), "NotFound", "pods"),
        (409, body(reason="Conflict", message="the object has been modified"), "Conflict", "the"),
        (410, body(reason="Gone", message="too old"), "Expired", "too old"),
        (410, body(reason="Expired", message="too old"), "Expired", "too old"),
        (410, body(), "Expired", ""),
        (429, body(message="slow down"), "TooManyRequests", "slow down"),
        (422, body(message="spec is wrong"), "Invalid", "spec"),
        (418, body(message="a teapot"), "Unknown", "a teapot"),
        (502, b"<html><h1>Bad Gateway</h1></html>", "Unknown", "'<html><h1>Bad Gateway"),
        (503, b"", "ServiceUnavailable", "''"),
        (403, b"[" * 100_000, "Forbidden", "'[["),
        (403, b"\xff\xfe", "Forbidden", "'��'"),
        (500, body(message=7), "InternalError", "'{"),
    ],
)
def test_a_refusal_has_the_servers_word(
    status: int, content: bytes, reason: str, message: str
) -> None:
    refused = refusal("GET /api", status, content)
    assert (refused.status, refused.reason) == (status, reason)
    assert refused.message.startswith(message)
    assert str(refused).startswith(f"GET /api: refused with {status} {reason}: ")


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        ("", None, None),
        ("3", None, 3.0),
        (" 10 ", None, 10.0),
        ("3", {"retryAfterSeconds": 9}, 3.0),
        ("", {"retryAfterSeconds": 9}, 9.0),
        ("", {"retryAfterSeconds": 0}, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, None),
        ("-1", None, None),
        ("1e9", None, None),
        ("9" * 400, None, None),
        ("٣", None, None),
    ],
)
def test_how_long_to_wait(
    header: str, details: dict[str, int] | None, seconds: float | None
) -> None:
    content = body(reason="TooManyRequests", details=details)
    assert refusal("GET /api", 429, content, header).retry_after == seconds


def test_a_status_in_a_watch_counts_the_same() -> None:
    refused = refusal_of("GET /api", Status("too old", "Expired", 410))
    assert (refused.status, refused.reason, refused.message) == (410, "Expired", "too old")


def test_a_page_as_long_as_a_book_is_cut() -> None:
    assert len(str(refusal("GET /api", 500, body(message="x" * 100_000)))) < 1200


@given(content=st.binary(max_size=200), status=st.integers(300, 599), header=st.text(max_size=20))
def test_whatever_comes_becomes_one_line(content: bytes, status: int, header: str) -> None:
    told = refusal("GET /api", status, content, header)
    assert isinstance(told, RequestError)
    assert told.status == status
    assert told.retry_after is None or told.retry_after >= 0


@pytest.mark.parametrize(
    ("details", "causes"),
    [
        (None, ()),
        ({}, ()),
        ({"causes": None}, ()),
        ({"causes": [{"reason": "DisruptionBudget", "message": "it needs 3"}, {}]},
         ("DisruptionBudget", "")),
    ],
)  # fmt: skip
def test_causes(details: dict[str, object] | None, causes: tuple[str, ...]) -> None:
    content = msgspec.json.encode({"reason": "TooManyRequests", "details": details})
    assert refusal("POST /x", 429, content).causes == causes
