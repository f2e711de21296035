"""A question over HTTP and its answer, as values: what a listener passes on and sends back.

Knows no socket (record.listener does) and no path: those are each program's.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import msgspec

from slackwater.model.problem import quoted

_METHODS = ("GET", "HEAD")


class Request(msgspec.Struct, frozen=True):
    """`host` is None where the request has no such header."""

    method: str
    target: str
    host: str | None = None
    authorization: str = ""
    accept: str = ""


class Answer(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


def told_in_json(status: int, value: object, headers: Mapping[str, str] | None = None) -> Answer:
    body = msgspec.json.encode(value) + b"\n"
    return Answer(status, "application/json", body, headers or {})


def refused(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Answer:
    return told_in_json(status, {"error": sentence}, headers)


def routed(routes: Mapping[str, Callable[[], Answer]], request: Request) -> Answer:
    """For a program that only shows something: the answer by the path, or a sentence."""
    path = request.target.partition("?")[0]
    if path not in routes:
        there = ", ".join(routes)
        return refused(HTTPStatus.NOT_FOUND, f"there is no {quoted(path)}; there are {there}")
    if request.method not in _METHODS:
        allowed = " or ".join(_METHODS)
        sentence = f"{path} is asked with {allowed}, not with {quoted(request.method)}"
        return refused(HTTPStatus.METHOD_NOT_ALLOWED, sentence, {"Allow": ", ".join(_METHODS)})
    return routes[path]()
