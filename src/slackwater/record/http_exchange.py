"""A question over HTTP and its answer, as values: what a listener passes on and sends back.

Knows no socket (record.listener does) and no path: those are each program's.
"""

from collections.abc import Mapping

import msgspec


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
