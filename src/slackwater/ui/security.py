"""Who may ask the page: this machine's browser, at the address with the secret in it, to read.

Other programs' pages in the same browser are kept out three times over: by the Host header (a name
that was made to resolve to loopback: DNS rebinding), by the random token in every path, and by
headers that let nobody embed, read or refer to the page. Whatever would change something is
refused by its method.
"""

import secrets
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Everything from this server, nothing inline, no other place asked.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_READING = ("GET", "HEAD")
_NAMES = ("127.0.0.1", "localhost", "[::1]")
#: Bytes of chance in a token.
_TOKEN_BYTES = 24


def make_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


class AccessCheck:
    """Passes on what may be asked, with the token taken off the path."""

    def __init__(self, app: ASGIApp, token: str, port: Callable[[], int]) -> None:
        self._app = app
        self._token = token
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        prefix = f"/{self._token}"
        inner = {**scope, "path": scope["path"].removeprefix(prefix), "root_path": ""}
        await self._app(inner, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        host = Headers(scope=scope).get("host", "")
        if host not in {f"{name}:{self._port()}" for name in _NAMES}:
            return _refuse(421, "This page is served at the address that `slackwater ui` printed.")
        if scope["method"] not in _READING:
            return _refuse(405, "This page only reads.")
        first = scope["path"][1:].partition("/")[0]
        if not secrets.compare_digest(first.encode(), self._token.encode()):
            sentence = "Open the whole address that `slackwater ui` printed: it has a secret in it."
            return _refuse(403, sentence)
        return None


def _refuse(status: int, sentence: str) -> PlainTextResponse:
    return PlainTextResponse(f"{sentence}\n", status)
