"""The HTTPS server that the API server asks: HTTP/1.1, connections that are kept, JSON bodies.

Python's own http.server reads the requests; this module adds what it lacks: TLS with a context that
may be replaced while it serves, a deadline for each request however slowly it arrives, and a bound
on bodies and connections. A connection that idles is closed before a new one is refused.
"""

import contextlib
import io
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from slackwater.runtime.http_exchange import CannotListenError, ListenAddress, Response

#: For a handshake, and for a whole request from its first byte on. The API server waits 2 s.
READ_SECONDS, WRITE_SECONDS = 2.0, 5.0
#: Longer than any client keeps an idle connection (client-go: 90 s), so that it is never closed
#: just when the next request is on its way.
IDLE_SECONDS = 300.0
#: A review has a Node twice; etcd takes 1.5 MiB.
LARGEST_BODY = 8 * 1024 * 1024
#: Each is a thread. A control plane's API servers keep some dozens.
MOST_CONNECTIONS = 128
_LARGEST_LENGTH = 10
_SLOT_SECONDS = 0.5
_PAUSE_SECONDS = 0.2
_POLL_SECONDS = 0.5
_BUFFER = 64 * 1024
#: Seconds that Python lets one thread compute before another one gets its turn: by default 5 ms,
#: which a round of the manager's loop would take from each step of an answer.
_SWITCH_SECONDS = 0.0005

#: The path and the body of a POST; the response.
Respond = Callable[[str, bytes], Response]
#: The context for new connections; None while there is none.
CurrentContext = Callable[[], ssl.SSLContext | None]


class _TimedReader(io.RawIOBase):
    """A connection's bytes: as long as it idles, many seconds; from the first byte on, few."""

    def __init__(self, connection: socket.socket, begun: Callable[[], None]) -> None:
        self._connection = connection
        self._begun = begun
        self._deadline: float | None = None

    def readable(self) -> bool:
        return True

    def end_request(self) -> None:
        self._deadline = None

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - io's own signature
        if self._deadline is None:
            self._connection.settimeout(IDLE_SECONDS)
        else:
            self._connection.settimeout(max(self._deadline - time.monotonic(), 0.001))
        count = self._connection.recv_into(buffer)
        if self._deadline is None:
            self._deadline = time.monotonic() + READ_SECONDS
            self._begun()
        return count


class _Exchanges(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    #: A head and its body leave as one.
    wbufsize = _BUFFER
    server: "_TlsServer"
    request: ssl.SSLSocket

    def setup(self) -> None:
        self.request.settimeout(READ_SECONDS)
        self.request.do_handshake()
        super().setup()
        self._timed = _TimedReader(self.request, lambda: self.server.begin(self.request))
        self.rfile.close()
        self.rfile = io.BufferedReader(self._timed, _BUFFER)

    def handle_one_request(self) -> None:
        self._timed.end_request()
        self.server.idle(self.request)
        super().handle_one_request()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        is_number = length.isascii() and length.isdigit() and len(length) <= _LARGEST_LENGTH
        if not is_number or "Transfer-Encoding" in self.headers:
            self.send_error(HTTPStatus.LENGTH_REQUIRED, "a body must have a Content-Length")
            return
        if int(length) > LARGEST_BODY:
            sentence = f"a body may have {LARGEST_BODY} bytes, not {length}"
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):  # the client has left
            self.close_connection = True
            return
        self._send(self.server.respond(self.path, body))

    def _send(self, response: Response) -> None:
        self.request.settimeout(WRITE_SECONDS)
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    def send_error(
        self,
        code: int,
        message: str | None = None,
        explain: str | None = None,  # noqa: ARG002 - http.server's signature
    ) -> None:
        """http.server's own would be a page of HTML. What follows on the connection is unknown."""
        self.server.dropped()
        self.close_connection = True
        sentence = (message or HTTPStatus(code).phrase).encode("ascii", "replace")
        with contextlib.suppress(OSError):
            self.request.settimeout(WRITE_SECONDS)
            self.send_response(code)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(sentence)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(sentence)

    def version_string(self) -> str:
        return "slackwater"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Requests are counted, not logged."""


class _TlsServer(socketserver.ThreadingTCPServer):
    request_queue_size = 128
    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self,
        address: ListenAddress,
        context: CurrentContext,
        respond: Respond,
        dropped: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.respond = respond
        self.dropped = dropped
        self._context = context
        self._report = report
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._lock = threading.Lock()
        #: Connections that wait for a request, the longest first.
        self._idle: dict[socket.socket, None] = {}
        super().__init__((address.host, address.port), _Exchanges)

    def get_request(self) -> tuple[socket.socket, Any]:
        """The handshake is the connection's own thread's: a slow one keeps nobody else waiting."""
        try:
            plain, address = super().get_request()
        except OSError:
            time.sleep(_PAUSE_SECONDS)  # no descriptors left: without a pause this would spin
            raise
        context = self._context()
        if context is None:
            plain.close()
            raise ConnectionRefusedError("there is no certificate yet")
        return context.wrap_socket(plain, True, do_handshake_on_connect=False), address

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        if not self._slots.acquire(blocking=False):
            self._end_longest_idle()
            if not self._slots.acquire(timeout=_SLOT_SECONDS):
                self.dropped()
                self.shutdown_request(request)
                return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        with self._lock:
            self._idle.pop(request, None)
        self._slots.release()

    def begin(self, request: socket.socket) -> None:
        with self._lock:
            self._idle.pop(request, None)

    def idle(self, request: socket.socket) -> None:
        with self._lock:
            self._idle[request] = None

    def _end_longest_idle(self) -> None:
        with self._lock:
            longest = next(iter(self._idle), None)
            if longest is not None:
                del self._idle[longest]
                _end(longest)

    def end_idle(self) -> None:
        """Connections that are kept would outlive the server; one that is being answered ends by
        itself."""
        with self._lock:
            for each in self._idle:
                _end(each)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002
        """A client that left, or failed the handshake, is counted; a bug is told too."""
        error = sys.exc_info()[1]
        self.dropped()
        if not isinstance(error, OSError):
            self._report(f"a request failed: {type(error).__name__}: {error}")


def _end(connection: socket.socket) -> None:
    """Wakes the thread that reads from it, without a word of TLS."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class HttpsServer:
    """Guards the socket and its thread. Bound at once, it serves from `start` on."""

    def __init__(
        self,
        address: ListenAddress,
        context: CurrentContext,
        respond: Respond,
        dropped: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        try:
            self._server = _TlsServer(address, context, respond, dropped, report)
        except OSError as error:
            raise CannotListenError(f"cannot listen on {address}: {error.strerror}") from None
        #: With the port that was found, where any was asked for.
        self.address = ListenAddress(address.host, int(self._server.server_address[1]))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="webhook", daemon=True
        )

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.end_idle()
