"""A small HTTP server on a unix socket, for root and for the program's own user.

Owns the socket's file and the bounds: how long a request may take, how many are served at once.
Each request has a thread, so that its route may wait for the program's loop. Requests are not
logged.
"""

import contextlib
import os
import socket
import socketserver
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from slackwater.runtime.http_exchange import (
    CannotListenError,
    Request,
    Response,
    error_response,
)
from slackwater.runtime.http_server import Report, Respond
from slackwater.runtime.http_wire import FAILED, RequestParser, encode_response

#: For a whole request, and for the client to take the response. Long: it is root who asks, on a
#: machine that may be busy, and whoever sends nothing makes room when places are short.
READ_SECONDS, WRITE_SECONDS = 30.0, 30.0
#: Some people and their scripts. Each is a thread.
MOST_AT_ONCE = 32
#: How long one more connection waits for a free thread.
_SLOT_SECONDS = 1.0
#: After a failed accept (no descriptors left): without a pause the loop would spin.
_PAUSE_SECONDS = 0.2
#: How often the server's thread checks whether it was told to end.
_POLL_SECONDS = 0.5
_READ_SIZE = 4096
#: unix(7), SO_PEERCRED: pid, uid, gid.
_CREDENTIALS = struct.Struct("iII")

#: Whether a user, by uid, may use the socket.
IsAllowed = Callable[[int], bool]


def is_root_or_own(uid: int) -> bool:
    return uid in (0, os.geteuid())


class _Exchange(socketserver.BaseRequestHandler):
    """One request, one response, one connection."""

    server: "_ThreadedServer"
    request: socket.socket

    def handle(self) -> None:
        parser = RequestParser()
        found = self._read(parser)
        if found is None:
            return
        if not isinstance(found, Response):
            self.server.end_read(self.request)
            found = self._refusal() or self.server.respond(found)
        self.request.settimeout(WRITE_SECONDS)
        self.request.sendall(encode_response(parser.method, found))

    def _read(self, parser: RequestParser) -> Request | Response | None:
        deadline = time.monotonic() + READ_SECONDS
        while True:
            self.request.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self.request.recv(_READ_SIZE)
            found = parser.feed(data) if data else parser.end()
            if found is not None or not data:
                return found

    def _refusal(self) -> Response | None:
        """The file's mode keeps others out as well, as long as nobody changes it."""
        told = self.request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(told)
        if self.server.is_allowed(uid):
            return None
        sentence = f"this socket is root's and user {os.geteuid()}'s; you are user {uid}"
        return error_response(HTTPStatus.FORBIDDEN, sentence)


class _ThreadedServer(socketserver.ThreadingUnixStreamServer):
    """Serves each connection in a thread, up to a number."""

    request_queue_size = 32
    daemon_threads = True

    def __init__(self, path: str, respond: Respond, report: Report, is_allowed: IsAllowed) -> None:
        self.respond = respond
        self.is_allowed = is_allowed
        self._report = report
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._lock = threading.Lock()
        #: Connections whose request has not arrived yet, the oldest first.
        self._reading: dict[socket.socket, None] = {}
        super().__init__(path, _Exchange)

    def server_bind(self) -> None:
        """Nobody can connect before it listens, which is after this."""
        super().server_bind()
        os.chmod(str(self.server_address), 0o600)

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
        """Clients that connect and send nothing must not keep out one that sends at once."""
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
                request.sendall(FAILED)
            self._report(f"a request failed: {type(error).__name__}: {error}")


class UnixServer:
    """Guards the socket, its file and its thread. Whoever makes one holds a lock on the folder: a
    socket that is there is a dead program's, and is replaced."""

    def __init__(
        self,
        path: str,
        respond: Respond,
        report: Report,
        is_allowed: IsAllowed = is_root_or_own,
    ) -> None:
        """Serves from `start` on. Raises CannotListenError."""
        try:
            _remove_socket(path)
            self._server = _ThreadedServer(path, respond, report, is_allowed)
        except OSError as error:
            raise CannotListenError(f"cannot listen on {path}: {error.strerror or error}") from None
        self.path = path
        self._report = report
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="commands", daemon=True
        )

    def start(self) -> None:
        self._thread.start()
        self._report(f"listening on unix:{self.path}")

    def close(self) -> None:
        """No further request; one that is being served may still end."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _remove_socket(path: str) -> None:
    """Of what is no socket nobody knows whose it is: binding fails on it."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
