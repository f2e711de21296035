"""A small HTTP server beside a program's loop. Its imports are heavy, so import it late.

Owns sockets and their bounds: how long a request may take, how large it may be, how many are
served at once. The loop never waits for any of it. The responses are the program's; requests are
not logged.
"""

import contextlib
import io
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

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
_LONGEST_LENGTH, _LONGEST_SENTENCE = 9, 200

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


class _Exchange(BaseHTTPRequestHandler):
    """One request, one response, one connection."""

    server: "_ThreadedServer"
    #: Not HTTP/0.9: a malformed request line gets a status line and headers, too.
    default_request_version = "HTTP/1.0"

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._bounded = _BoundedReader(self.connection)
        # A small buffer, so that no more is read than the request needs.
        self.rfile = io.BufferedReader(self._bounded, 1024)

    def _answer(self) -> None:
        request = Request(
            method=self.command,
            target=self.path,
            host=self.headers.get("Host"),
            authorization=self.headers.get("Authorization", ""),
            accept=self.headers.get("Accept", ""),
        )
        if not self._skip_body():
            too_large = f"a request may have {LARGEST_REQUEST} bytes"
            self._send(error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large))
            return
        self.server.end_read(self.connection)
        self._send(self.server.respond(request))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _skip_body(self) -> bool:
        """Unread bytes would reset the connection before the client has the response. False: the
        body is too large."""
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= _LONGEST_LENGTH):
            return False
        if int(length) < self._bounded.left:
            self.rfile.read(int(length))
            return self._bounded.left > 0
        return False

    def send_error(
        self,
        code: int,
        message: str | None = None,
        explain: str | None = None,  # noqa: ARG002
    ) -> None:
        """Errors that http.server finds itself, as JSON instead of its HTML page."""
        said = message or HTTPStatus(code).phrase
        self._send(error_response(code, said[:_LONGEST_SENTENCE]))

    def _send(self, response: Response) -> None:
        self.close_connection = True
        self.connection.settimeout(WRITE_SECONDS)
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def version_string(self) -> str:
        return "slackwater"

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


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
