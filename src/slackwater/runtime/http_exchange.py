"""An HTTP request and its response as values, and the choice of a route by path and method.

Knows no socket: those are http_server's. The routes are each program's own.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import msgspec

from slackwater.model.problem import quoted

#: Answers one request; what it needs to know is bound to it.
Route = Callable[[], "Response"]

_READ_METHODS, _WRITE_METHODS = ("GET", "HEAD"), ("POST",)


class Request(msgspec.Struct, frozen=True):
    """`host` is None where the request has no such header. Bodies are read and discarded: no
    route takes one yet."""

    method: str
    target: str
    host: str | None = None
    authorization: str = ""
    accept: str = ""


class Response(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


def json_response(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    body = msgspec.json.encode(value) + b"\n"
    return Response(status, "application/json", body, headers or {})


def error_response(
    status: int, sentence: str, headers: Mapping[str, str] | None = None
) -> Response:
    return json_response(status, {"error": sentence}, headers)


def dispatch(
    method: str, path: str, get: Mapping[str, Route], post: Mapping[str, Route] | None = None
) -> Response:
    """The response of the route at `path`; 404 and 405 name what there is."""
    for routes, methods in ((get, _READ_METHODS), (post or {}, _WRITE_METHODS)):
        if path not in routes:
            continue
        if method in methods:
            return routes[path]()
        sentence = f"{path} is asked with {' or '.join(methods)}, not with {quoted(method)}"
        allow = {"Allow": ", ".join(methods)}
        return error_response(HTTPStatus.METHOD_NOT_ALLOWED, sentence, allow)
    there = ", ".join((*get, *(post or {})))
    sentence = f"there is no {quoted(path)}; there are {there}"
    return error_response(HTTPStatus.NOT_FOUND, sentence)
