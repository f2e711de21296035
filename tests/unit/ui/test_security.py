"""Who is let in, and what every answer forbids."""

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from slackwater.ui.security import AccessCheck, make_token
from tests.unit.ui.asking import Answer, ask

TOKEN = "a-token"  # noqa: S105 - a test's


async def tell_path(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(scope["path"])(scope, receive, send)


def asked(path: str, method: str = "GET", **headers: str) -> Answer:
    return ask(AccessCheck(tell_path, TOKEN, lambda: 80), path, method, **headers)


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost:80", "[::1]:80"])
def test_who_has_the_token_is_let_in(host: str) -> None:
    found = asked("/a-token/pods", host=host)
    assert (found.status, found.text) == (200, "/pods")


@pytest.mark.parametrize(
    ("path", "method", "host", "status"),
    [
        ("/a-token/", "GET", "evil.example:80", 421),
        ("/a-token/", "GET", "127.0.0.1", 421),
        ("/a-token/", "GET", "127.0.0.1:81", 421),
        ("/a-token/", "GET", "", 421),
        ("/a-token/", "POST", "127.0.0.1:80", 405),
        ("/a-token/", "DELETE", "127.0.0.1:80", 405),
        ("/", "GET", "127.0.0.1:80", 403),
        ("/another/", "GET", "127.0.0.1:80", 403),
        ("/a-token2/", "GET", "127.0.0.1:80", 403),
        ("//a-token/", "GET", "127.0.0.1:80", 403),
        ("/static/page.js", "GET", "127.0.0.1:80", 403),
        ("/ä/", "GET", "127.0.0.1:80", 403),
    ],
)
def test_who_is_not(path: str, method: str, host: str, status: int) -> None:
    found = asked(path, method, host=host)
    assert found.status == status
    assert found.text.count("\n") == 1
    assert "a-token" not in found.text


@pytest.mark.parametrize("path", ["/a-token/", "/refused/"])
def test_every_answer_forbids_what_the_page_does_not_need(path: str) -> None:
    headers = asked(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_tokens_are_long_and_differ() -> None:
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32
