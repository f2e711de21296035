"""Asks the page's application without a server, as uvicorn would hand it a request."""

import asyncio
from collections.abc import Mapping

import msgspec
from starlette.types import ASGIApp, Message, Scope


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    text: str


def ask(app: ASGIApp, path: str, method: str = "GET", **headers: str) -> Answer:
    """`path` with its query. A header's name is a keyword: if_none_match."""
    given = {"host": "127.0.0.1:80", **headers}
    bare, _, query = path.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": bare,
        "raw_path": bare.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()],
        "server": ("127.0.0.1", 80),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    asyncio.run(run())
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], found, body.decode())
