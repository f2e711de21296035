"""A small HTTP server beside a program's loop.

Owns sockets and their bounds: how long a request may take, how large it may be, how many are
served at once. The loop never waits for any of it. The responses are the program's; requests are
not logged.
"""

import contextlib
import io
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from slackwater.model.problem import quoted
from slackwater.runtime.http_exchange import (
    CannotListenError,
    ListenAddress,
    Request,
    Response,
    error_response,
)

#: For a whole request, however slowly it arrives; and for the client to take the response.
READ_SECONDS, WRITE_SECONDS = 2.0, 10.0
#: A request line, its headers and a body that is discarded; Prometheus sends 0.5 KiB.
LARGEST_REQUEST = 16 * 1024
#: A scrape, a probe and some people, beside clients that are slow. Each is a thread.
MOST_AT_ONCE = 32
#: How long one more connection waits for a free thread.
_SLOT_SECONDS = 1.0
#: After a failed accept (no descriptors left): without a pause the loop would spin.
_PAUSE_SECONDS = 0.2
#: How often the server's thread checks whether it was told to end.
_POLL_SECONDS = 0.5
_LONGEST_LENGTH = 9
_MOST_HEADERS = 100
_TOO_LARGE = f"a request may have {LARGEST_REQUEST} bytes and {_MOST_HEADERS} headers"
_VERSION = re.compile(r"HTTP/([0-9])\.[0-9]")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

#: The response when a route raises.
_FAILED = b"HTTP/1.0 500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\nthis failed\n"

#: Answers one request, in any thread.
Respond = Callable[[Request], Response]
#: Takes one sentence about the server itself, in any thread.
Report = Callable[[str], None]


class _BoundedReader(io.RawIOBase):
    """A socket's bytes until a deadline and up to a size."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + READ_SECONDS
        self.left = LARGEST_REQUEST

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - io's own signature
        if self.left <= 0:
            return 0
        self._connection.settimeout(max(self._deadline - time.monotonic(), 0.001))
        count = self._connection.recv_into(memoryview(buffer)[: self.left])
        self.left -= count
        return count


class _RefusedError(Exception):
    """A request that is not answered by a route."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.response = error_response(status, sentence)


class _Exchange(socketserver.BaseRequestHandler):
    """One request, one response, one connection. Not http.server's handler: importing that brings
    http.client, email and OpenSSL, 6 MiB that an agent without a cluster does not need otherwise
    (ADR 21)."""

    server: "_ThreadedServer"
    request: socket.socket

    def handle(self) -> None:
        self._bounded = _BoundedReader(self.request)
        # A small buffer, so that no more is read than the request needs.
        with io.BufferedReader(self._bounded, 1024) as reader:
            method = ""
            try:
                line = reader.readline().decode("latin-1")
                if not line.split():
                    return
                method, target = self._read_request_line(line)
                request = self._read_request(reader, method, target)
            except _RefusedError as refused:
                self._send(method, refused.response)
                return
            self.server.end_read(self.request)
            self._send(method, self.server.respond(request))

    def _read_request_line(self, line: str) -> tuple[str, str]:
        """The method and the path with its query. Without a version it is HTTP/0.9's GET."""
        if not line.endswith("\n") and self._bounded.left <= 0:
            raise _RefusedError(HTTPStatus.REQUEST_URI_TOO_LONG, _TOO_LARGE)
        method, *rest = line.split()
        if not (len(rest) == 2 or (len(rest) == 1 and method == "GET")):
            raise _RefusedError(
                HTTPStatus.BAD_REQUEST, f"not a request line: {quoted(line.strip())}"
            )
        version = _VERSION.fullmatch(rest[1]) if len(rest) == 2 else None
        if len(rest) == 2 and version is None:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"not a version: {quoted(rest[1])}")
        if version is not None and int(version[1]) > 1:
            sentence = f"HTTP/1.0 and 1.1 are spoken here, not {quoted(rest[1])}"
            raise _RefusedError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, sentence)
        # Two slashes would be a host's name.
        return method, f"/{rest[0].lstrip('/')}" if rest[0].startswith("//") else rest[0]

    def _read_request(
        self, reader: "io.BufferedReader[_BoundedReader]", method: str, target: str
    ) -> Request:
        headers = self._read_headers(reader)
        if method not in _METHODS:
            sentence = f"there is no method {quoted(method)}"
            raise _RefusedError(HTTPStatus.NOT_IMPLEMENTED, sentence)
        length = headers.get("content-length", "0")
        is_number = length.isascii() and length.isdigit() and len(length) <= _LONGEST_LENGTH
        if not is_number or int(length) >= self._bounded.left:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
        # Unread bytes would reset the connection before the client has the response.
        reader.read(int(length))
        return Request(
            method=method,
            target=target,
            host=headers.get("host"),
            authorization=headers.get("authorization", ""),
            accept=headers.get("accept", ""),
        )

    def _read_headers(self, reader: "io.BufferedReader[_BoundedReader]") -> dict[str, str]:
        """By their names in lower case; of one that comes twice the first counts."""
        found: dict[str, str] = {}
        for _ in range(_MOST_HEADERS):
            line = reader.readline().decode("latin-1")
            if not line.endswith("\n") and self._bounded.left <= 0:
                break
            if not line.strip():
                return found
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                sentence = f"not a header: {quoted(line.strip())}"
                raise _RefusedError(HTTPStatus.BAD_REQUEST, sentence)
            found.setdefault(name.lower(), value.strip())
        raise _RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LARGE)

    def _send(self, method: str, response: Response) -> None:
        status = HTTPStatus(response.status)
        headers = {
            "Server": "slackwater",
            "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **response.headers,
        }
        lines = [f"HTTP/1.0 {status.value} {status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        self.request.settimeout(WRITE_SECONDS)
        self.request.sendall(head if method == "HEAD" else head + response.body)


class _ThreadedServer(socketserver.ThreadingTCPServer):
    """Serves each connection in a thread, up to a number. Not http.server.HTTPServer, which looks
    up this host's name in DNS."""

    request_queue_size = 32
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, respond: Respond, report: Report) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.respond = respond
        self._report = report
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._lock = threading.Lock()
        #: Connections whose request has not arrived yet, the oldest first.
        self._reading: dict[socket.socket, None] = {}
        super().__init__((host, port), _Exchange)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        if not self._slots.acquire(blocking=False):
            self._end_oldest_read()
            if not self._slots.acquire(timeout=_SLOT_SECONDS):
                self.shutdown_request(request)
                return
        with self._lock:
            self._reading[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self.end_read(request)
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.end_read(request)
            self._slots.release()

    def end_read(self, connection: socket.socket) -> None:
        with self._lock:
            self._reading.pop(connection, None)

    def _end_oldest_read(self) -> None:
        """Clients that connect and send nothing must not keep out a probe, which sends at once."""
        with self._lock:
            oldest = next(iter(self._reading), None)
            if oldest is not None:
                del self._reading[oldest]
                with contextlib.suppress(OSError):  # it has just ended by itself
                    oldest.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002
        """A client that left is not reported; a bug in a route is."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            with contextlib.suppress(OSError):
                request.sendall(_FAILED)
            self._report(f"a request failed: {type(error).__name__}: {error}")


class HttpServer:
    """Guards the socket and its thread. Bound at once, it serves from `start` on."""

    def __init__(self, address: ListenAddress, respond: Respond, report: Report) -> None:
        try:
            self._server = _ThreadedServer(address.host, address.port, respond, report)
        except OSError as error:
            raise CannotListenError(f"cannot listen on {address}: {error.strerror}") from None
        self._report = report
        #: With the port that was found, where any was asked for.
        self.address = ListenAddress(address.host, int(self._server.server_address[1]))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="endpoint", daemon=True
        )

    def start(self) -> None:
        self._thread.start()
        self._report(f"listening on http://{self.address}")

    def close(self) -> None:
        """No further request; one that is being served may still end."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
