"""Routes by path and method; what there is not, and what may not be done, is one sentence."""

import msgspec
import pytest

from slackwater.runtime.http_exchange import Response, Route, dispatch


def answering(text: str) -> Route:
    return lambda: Response(200, "text/plain", text.encode())


GET = {"/one": answering("one"), "/two": answering("two")}
POST = {"/three": answering("three")}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "/one", b"one"), ("HEAD", "/two", b"two"), ("POST", "/three", b"three")],
)
def test_routes(method: str, path: str, body: bytes) -> None:
    assert dispatch(method, path, GET, POST) == Response(200, "text/plain", body)


@pytest.mark.parametrize(
    ("method", "path", "status", "headers", "error"),
    [
        ("POST", "/one", 405, {"Allow": "GET, HEAD"},
         "/one is asked with GET or HEAD, not with 'POST'"),
        ("GET", "/three", 405, {"Allow": "POST"}, "/three is asked with POST, not with 'GET'"),
        ("GET", "/four", 404, {}, "there is no '/four'; there are /one, /two, /three"),
        ("GET", "/one/", 404, {}, "there is no '/one/'; there are /one, /two, /three"),
    ],
)  # fmt: skip
def test_refusals(method: str, path: str, status: int, headers: dict[str, str], error: str) -> None:
    response = dispatch(method, path, GET, POST)
    assert (response.status, response.headers) == (status, headers)
    assert msgspec.json.decode(response.body) == {"error": error}
