"""Sends requests to the API server over kept connections, which threads share.

A watch needs a connection of its own for as long as it lasts (HTTP/1.1); all other requests take
one that is kept, and of those that nobody uses few are kept (ADR 36).

Retries three things: a kept connection that turned out to be closed, if repeating the request is
safe; a 401, with renewed credentials; and a busy server that says how long to wait. Everything
else is the caller's.
"""

import threading
import time
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import TYPE_CHECKING

from slackwater.http.connection import Connection, HttpRequest, read_body
from slackwater.http.endpoint import Identity
from slackwater.http.errors import ConnectionDroppedError, RequestError, UnreachableError
from slackwater.http.tls import TlsContexts
from slackwater.http.upgraded import UpgradedConnection
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError, excerpt, refusal
from slackwater.kube.list_scanner import LARGEST_OBJECT
from slackwater.kube.stream import WatchStream

if TYPE_CHECKING:
    import http.client

#: Of anything but a list, which is read object by object.
_LARGEST_ANSWER = LARGEST_OBJECT
#: Of an answer that is not 2xx.
_LARGEST_REFUSAL = 1 << 20
#: A whole answer may take this many times the timeout of one read.
_WHOLE_ANSWER_FACTOR = 6
#: A list may be some hundred MB, and is decoded while it comes.
_WHOLE_LIST_FACTOR = 30
_PIECE = 1 << 16
#: Connections that nobody uses now. More would be what a burst left behind.
_MOST_IDLE = 2
#: Idempotent methods; an apply is safe too, other patches are not.
_IDEMPOTENT = ("GET", "PUT")
_APPLY = "application/apply-patch+yaml"
_BUSY = (429, 503)


class Transport:
    """Guards the connections to one API server."""

    def __init__(
        self,
        access: Access,
        user_agent: str,
        timeout: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self._user_agent = user_agent
        self._timeout = timeout
        self._sleep = sleep
        self._contexts = TlsContexts(access.trust)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []

    def fetch_json(self, request: HttpRequest) -> bytearray:
        """The body of a 2xx answer in JSON."""
        body, kind = self.fetch(request)
        if body and "json" not in kind:
            raise self._not_json(request, kind, bytes(body))
        return body

    def fetch(self, request: HttpRequest) -> tuple[bytearray, str]:
        """The body of a 2xx answer and its type."""
        connection, response = self._send_patiently(request)
        body = self._read_body(connection, response, request, _LARGEST_ANSWER)
        return body, response.headers.get_content_type()

    def open_list(self, request: HttpRequest) -> Generator[bytes, None, None]:
        """The body of a 2xx answer in JSON, of any size, piece by piece. To be closed by whoever
        does not read all of it."""
        connection, response = self._send_patiently(request)
        kind = response.headers.get_content_type()
        if "json" not in kind:
            body = self._read_body(connection, response, request, _LARGEST_REFUSAL)
            raise self._not_json(request, kind, bytes(body))
        return self._pieces(connection, response, request)

    def fetch_date(self, request: HttpRequest) -> str:
        """The Date of a 2xx answer, by the server's clock."""
        connection, response = self._send_authenticated(request, self._timeout)
        self._read_body(connection, response, request, _LARGEST_ANSWER)
        return response.getheader("Date", "")

    def open_stream(self, request: HttpRequest, silence: float) -> WatchStream:
        """A watch: a 2xx answer that does not end."""
        connection, response = self._send_authenticated(request, silence)
        return WatchStream(connection, response, request, silence, self._keep)

    def open_upgrade(self, request: HttpRequest) -> UpgradedConnection:
        """The connection and its answer's headers, if the server switches protocols (101)."""
        connection, response = self._send_authenticated(request, self._timeout)
        if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
            body = self._read_body(connection, response, request, _LARGEST_REFUSAL)
            asked = f"{request} at {self._access.server}"
            raise UnreachableError(
                f"{asked}: the answer is {response.status} instead of another protocol; does a "
                f"proxy in between not pass on websockets? It says {excerpt(bytes(body))}"
            )
        return UpgradedConnection(connection, response, request)

    def close(self) -> None:
        """Closes the connections that nobody uses now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _send_patiently(
        self, request: HttpRequest
    ) -> "tuple[Connection, http.client.HTTPResponse]":
        """Waits if a busy server says how long."""
        waited = 0.0
        while True:
            try:
                return self._send_authenticated(request, self._timeout)
            except HttpStatusError as refused:
                pause = refused.retry_after
                busy = request.method == "GET" and refused.status in _BUSY
                if not busy or pause is None or waited + pause > self._timeout:
                    raise
                self._sleep(pause)
                waited += pause

    def _send_authenticated(
        self, request: HttpRequest, timeout: float
    ) -> "tuple[Connection, http.client.HTTPResponse]":
        """The connection and the head of an answer that is no refusal; after a 401 credentials are
        renewed once."""
        identity = self._access.credentials.identity()
        connection, response = self._send(request, identity, timeout)
        if response.status == 401:
            refused = self._status_error(connection, response, request)
            if not self._access.credentials.renew(identity):
                raise refused
            identity = self._access.credentials.identity()
            connection, response = self._send(request, identity, timeout)
        switched = response.status == HTTPStatus.SWITCHING_PROTOCOLS
        if not (switched or 200 <= response.status < 300):
            raise self._status_error(connection, response, request)
        return connection, response

    def _send(
        self, request: HttpRequest, identity: Identity, timeout: float
    ) -> "tuple[Connection, http.client.HTTPResponse]":
        connection = self._take_connection(identity)
        headers = self._headers(request, identity)
        try:
            return connection, connection.send(request, headers, timeout)
        except ConnectionDroppedError:
            safe = request.method in _IDEMPOTENT or request.content_type == _APPLY
            if not (safe and connection.used):
                raise
        connection = self._open(identity)
        return connection, connection.send(request, headers, timeout)

    def _status_error(
        self, connection: Connection, response: "http.client.HTTPResponse", request: HttpRequest
    ) -> RequestError:
        body = self._read_body(connection, response, request, _LARGEST_REFUSAL)
        asked = f"{request} at {self._access.server}"
        return refusal(asked, response.status, bytes(body), response.getheader("Retry-After", ""))

    def _read_body(
        self,
        connection: Connection,
        response: "http.client.HTTPResponse",
        request: HttpRequest,
        largest: int,
    ) -> bytearray:
        import http.client

        try:
            body = read_body(response, largest, self._timeout * _WHOLE_ANSWER_FACTOR)
        except (OSError, http.client.HTTPException, ValueError, UnreachableError) as error:
            response.close()
            connection.close()
            raise connection.failure(request, error) from None
        self._keep_after(response, connection)
        return body

    def _pieces(
        self, connection: Connection, response: "http.client.HTTPResponse", request: HttpRequest
    ) -> Generator[bytes, None, None]:
        import http.client

        whole = False
        deadline = time.monotonic() + self._timeout * _WHOLE_LIST_FACTOR
        try:
            while piece := response.read1(_PIECE):
                yield piece
                if time.monotonic() > deadline:
                    raise TimeoutError
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
            whole = True
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise connection.failure(request, error) from None
        finally:
            response.close()
            if whole:
                self._keep_after(response, connection)
            else:
                connection.close()

    def _keep_after(self, response: "http.client.HTTPResponse", connection: Connection) -> None:
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)

    def _not_json(self, request: HttpRequest, kind: str, body: bytes) -> UnreachableError:
        return UnreachableError(
            f"{request} at {self._access.server}: the answer is {kind or 'of no known type'} "
            f"instead of JSON, from a proxy or a login page perhaps: {excerpt(body)}"
        )

    def _take_connection(self, identity: Identity) -> Connection:
        """One that nobody uses, if it can still be used, else a new one."""
        while (kept := self._take_idle()) is not None:
            if _same_certificate(kept.identity, identity) and kept.is_usable():
                return kept
            kept.close()
        return self._open(identity)

    def _take_idle(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _open(self, identity: Identity) -> Connection:
        secure = self._access.server.scheme == "https"
        context = self._contexts.context(identity) if secure else None
        return Connection(self._access.endpoint, identity, context, self._timeout)

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _headers(self, request: HttpRequest, identity: Identity) -> list[tuple[str, str]]:
        headers = [
            ("Host", self._access.server.authority),
            ("User-Agent", self._user_agent),
            ("Accept", "application/json"),
            # Compression costs more CPU than it saves inside a cluster.
            ("Accept-Encoding", "identity"),
            *self._access.headers,
            *request.headers,
        ]
        if identity.authorization:
            headers.append(("Authorization", identity.authorization))
        if request.content_type:
            headers.append(("Content-Type", request.content_type))
        return headers


def _same_certificate(one: Identity, other: Identity) -> bool:
    return (one.certificate, one.key) == (other.certificate, other.key)
