"""Sends requests to the API server over kept connections, one for each thread.

Retries three things: a kept connection that turned out to be closed, if repeating the request is
safe; a 401, with renewed credentials; and a busy server that says how long to wait. Everything
else is the caller's.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from slackwater.http.connection import Connection, HttpRequest, read_body
from slackwater.http.endpoint import Identity
from slackwater.http.errors import ConnectionDroppedError, RequestError, UnreachableError
from slackwater.http.tls import TlsContexts
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError, excerpt, refusal
from slackwater.kube.stream import WatchStream

if TYPE_CHECKING:
    import http.client

#: 500 objects of the largest size that etcd keeps would be 750 MB; no page of ours comes near.
_LARGEST_ANSWER = 128 << 20
#: Of an answer that is not 2xx.
_LARGEST_REFUSAL = 1 << 20
#: A whole answer may take this many times the timeout of one read.
_WHOLE_ANSWER_FACTOR = 6
#: Idempotent methods; an apply is safe too, other patches are not.
_IDEMPOTENT = ("GET", "PUT")
_APPLY = "application/apply-patch+yaml"
_BUSY = (429, 503)


class _Slot(threading.local):
    kept: Connection | None = None


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
        self._slot = _Slot()

    def fetch_json(self, request: HttpRequest) -> bytearray:
        """The body of a 2xx answer in JSON."""
        body, kind = self.fetch(request)
        if body and "json" not in kind:
            raise UnreachableError(
                f"{request} at {self._access.server}: the answer is {kind or 'of no known type'} "
                f"instead of JSON, from a proxy or a login page perhaps: {excerpt(bytes(body))}"
            )
        return body

    def fetch(self, request: HttpRequest) -> tuple[bytearray, str]:
        """The body of a 2xx answer and its type. Waits if a busy server says how long."""
        waited = 0.0
        while True:
            try:
                return self._fetch_once(request)
            except HttpStatusError as refused:
                pause = refused.retry_after
                busy = request.method == "GET" and refused.status in _BUSY
                if not busy or pause is None or waited + pause > self._timeout:
                    raise
                self._sleep(pause)
                waited += pause

    def fetch_date(self, request: HttpRequest) -> str:
        """The Date of a 2xx answer, by the server's clock."""
        connection, response = self._send_authenticated(request, self._timeout)
        self._read_body(connection, response, request, _LARGEST_ANSWER)
        return response.getheader("Date", "")

    def open_stream(self, request: HttpRequest, silence: float) -> WatchStream:
        """A watch: a 2xx answer that does not end."""
        connection, response = self._send_authenticated(request, silence)
        return WatchStream(connection, response, request, silence, self._keep)

    def close(self) -> None:
        """Closes the calling thread's connection."""
        kept, self._slot.kept = self._slot.kept, None
        if kept is not None:
            kept.close()

    def _fetch_once(self, request: HttpRequest) -> tuple[bytearray, str]:
        connection, response = self._send_authenticated(request, self._timeout)
        body = self._read_body(connection, response, request, _LARGEST_ANSWER)
        return body, response.headers.get_content_type()

    def _send_authenticated(
        self, request: HttpRequest, timeout: float
    ) -> "tuple[Connection, http.client.HTTPResponse]":
        """The connection and the head of a 2xx answer; after a 401 credentials are renewed once."""
        identity = self._access.credentials.identity()
        connection, response = self._send(request, identity, timeout)
        if response.status == 401:
            refused = self._status_error(connection, response, request)
            if not self._access.credentials.renew(identity):
                raise refused
            identity = self._access.credentials.identity()
            connection, response = self._send(request, identity, timeout)
        if not 200 <= response.status < 300:
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
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return body

    def _take_connection(self, identity: Identity) -> Connection:
        """The thread's own if it can still be used, else a new one."""
        kept, self._slot.kept = self._slot.kept, None
        if kept is not None:
            if _same_certificate(kept.identity, identity) and kept.is_usable():
                return kept
            kept.close()
        return self._open(identity)

    def _open(self, identity: Identity) -> Connection:
        secure = self._access.server.scheme == "https"
        context = self._contexts.context(identity) if secure else None
        return Connection(self._access.endpoint, identity, context, self._timeout)

    def _keep(self, connection: Connection) -> None:
        kept, self._slot.kept = self._slot.kept, connection
        if kept is not None:
            kept.close()

    def _headers(self, request: HttpRequest, identity: Identity) -> list[tuple[str, str]]:
        headers = [
            ("Host", self._access.server.authority),
            ("User-Agent", self._user_agent),
            ("Accept", "application/json"),
            # Compression costs more CPU than it saves inside a cluster.
            ("Accept-Encoding", "identity"),
            *self._access.headers,
        ]
        if identity.authorization:
            headers.append(("Authorization", identity.authorization))
        if request.content_type:
            headers.append(("Content-Type", request.content_type))
        return headers


def _same_certificate(one: Identity, other: Identity) -> bool:
    return (one.certificate, one.key) == (other.certificate, other.key)
