"""A small HTTP server beside a program's loop. Imports much, so it is imported late.

Owns sockets and their bounds: how long a request may take, how large it may be, how many there are
at once. The loop never waits for any of it. What is answered is the program's; requests are not
logged.
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

from slackwater.record.http_exchange import Answer, Request, refused

#: For a whole request, however slowly it drips in; and for the client to take the answer.
READ_SECONDS, WRITE_SECONDS = 2.0, 10.0
#: A request line, its headers and a body that nobody reads; Prometheus sends 0.5 KiB.
LARGEST_REQUEST = 16 * 1024
#: A scrape, a probe and some people, beside clients that are slow. Each is a thread.
MOST_AT_ONCE = 32
#: How long one more connection waits for a place.
_PLACE_SECONDS = 1.0
#: After an accept that failed, for want of descriptors: without it the loop would spin.
_PAUSE_SECONDS = 0.2
#: How often the listener looks whether it shall end.
_LOOK_UP_SECONDS = 0.5
_LONGEST_LENGTH, _LONGEST_SENTENCE = 9, 200

#: Whatever a bug of ours left unsaid.
_FAILED = b"HTTP/1.0 500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\nthis failed\n"

#: Answers one request, in any thread.
Respond = Callable[[Request], Answer]
#: Hears one sentence about what went wrong, in any thread.
Complain = Callable[[str], None]


class _Bounded(io.RawIOBase):
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
    """One request, one answer, one connection."""

    server: "_Server"
    #: Older than it is nobody: a torn request line gets a whole answer too.
    default_request_version = "HTTP/1.0"

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._bounded = _Bounded(self.connection)
        # A small buffer: what was not asked for is not read.
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
            self._send(refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_large))
            return
        self._send(self.server.respond(request))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _skip_body(self) -> bool:
        """Unread bytes would reset the connection before the answer is taken. False: too many."""
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
        """What http.server itself refuses: a sentence instead of its page."""
        said = message or HTTPStatus(code).phrase
        self._send(refused(code, said[:_LONGEST_SENTENCE]))

    def _send(self, answer: Answer) -> None:
        self.close_connection = True
        self.connection.settimeout(WRITE_SECONDS)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        return "slackwater"

    def log_message(self, *_: object) -> None:
        """Requests are not told."""


class _Server(socketserver.ThreadingTCPServer):
    """A listener with a bounded number of threads. Not http.server's own, which asks a name
    server for the name of this host."""

    request_queue_size = 32
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, respond: Respond, complain: Complain) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.respond = respond
        self._complain = complain
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__((host, port), _Exchange)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        if not self._places.acquire(timeout=_PLACE_SECONDS):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002
        """A client that left is no news; a bug of ours is, in one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            with contextlib.suppress(OSError):
                request.sendall(_FAILED)
            self._complain(f"a request failed: {type(error).__name__}: {error}")


class Listener:
    """Guards the socket and its thread. Bound from the start, it answers from `start` on."""

    def __init__(self, host: str, port: int, respond: Respond, complain: Complain) -> None:
        """`host` is an IP address; port 0 is any free one. Raises OSError."""
        self._server = _Server(host, port, respond, complain)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_LOOK_UP_SECONDS,),
            name="endpoint",
            daemon=True,
        )

    @property
    def port(self) -> int:
        """The one that was found, where any was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """No further request; one that is being answered may still end."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
