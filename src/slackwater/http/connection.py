"""One HTTP connection: TCP, a proxy in between, TLS, one request at a time.

Translates whatever goes wrong with the socket into one UnreachableError. Never retries: whether
that is safe is the caller's to know. Redirects are answers like others.
"""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from slackwater.http.endpoint import Endpoint, Identity, Proxy, Server
from slackwater.http.errors import (
    AnswerTooLargeError,
    ConnectionDroppedError,
    DeadlineExceededError,
    TlsError,
    UnreachableError,
)

if TYPE_CHECKING:
    import http.client
    import ssl

_PIECE = 1 << 16
#: A peer that vanished silently is noticed in 15 + 3 x 5 s, even while nothing is read.
_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)
_COMPRESSED = ("gzip", "x-gzip", "deflate")


class HttpRequest(msgspec.Struct, frozen=True):
    """`target` is the path with its query, without the server's prefix; `patience`, in seconds, is
    for a server that is known to take its time; `headers` are those of this request alone."""

    method: str
    target: str
    body: bytes = b""
    content_type: str = ""
    patience: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.method} {self.target.partition('?')[0]}"


class HttpResponse(msgspec.Struct, frozen=True):
    """A whole answer, whatever its status. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def header(self, name: str) -> str:
        return self.headers.get(name.lower(), "")

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.header("Content-Type").partition(";")[0].strip().lower()


class Deadline:
    """Bounds one exchange as a whole: when the time is over, its sockets are shut down.

    A socket's own timeout holds for each read, and a server that sends a byte each second stays
    within it for ever. Only a name server that does not answer is beyond this bound.
    """

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self.exceeded = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def guard(self, connection: socket.socket) -> None:
        """Keeps a second handle: TLS takes the first one's away."""
        handle = socket.socket(fileno=os.dup(connection.fileno()))
        with self._lock:
            self._sockets.append(handle)
            if self.exceeded:
                _shut_down(handle)

    def _end(self) -> None:
        with self._lock:
            self.exceeded = True
            for each in self._sockets:
                _shut_down(each)


class Connection:
    """Guards one socket. One thread uses it at a time; only `sever` is for the others."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: Identity,
        context: "ssl.SSLContext | None",
        timeout: float,
        deadline: Deadline | None = None,
    ) -> None:
        self.identity = identity
        self.used = False
        self._endpoint = endpoint
        self._timeout = timeout
        self._http = _connect(endpoint, context, timeout, deadline)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            self.close()

    def send(
        self, request: HttpRequest, headers: Iterable[tuple[str, str]], timeout: float
    ) -> "http.client.HTTPResponse":
        """The answer's head; its body is still to be read. `timeout` is for what follows."""
        import http.client

        try:
            self._set_timeout(max(self._timeout, request.patience))
            self._put(request, headers)
            response = self._http.getresponse()
            self._set_timeout(timeout)
        except (ConnectionResetError, BrokenPipeError) as error:
            self.close()
            dropped = self.failure(request, error)
            raise ConnectionDroppedError(str(dropped), dropped.reason) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise self.failure(request, error) from None
        self.used = True
        return response

    def is_usable(self) -> bool:
        """Whether it can be used again: an idle one that is readable was closed by the server."""
        if self._http.sock is None:
            return False
        poll = select.poll()
        poll.register(self._http.sock, select.POLLIN)
        return not poll.poll(0)

    def failure(self, request: HttpRequest, error: Exception) -> UnreachableError:
        """What an error while a request was sent or its answer was read means."""
        clause = _describe_failure(error, max(self._timeout, request.patience))
        return _error_class(error)(f"{request} at {self._endpoint.server}: {clause}", clause)

    def sever(self) -> None:
        """From any thread: whoever waits for this connection wakes up."""
        held = self._http.sock
        if held is not None:
            _shut_down(held)

    def close(self) -> None:
        self._http.close()

    def send_bytes(self, data: bytes, timeout: float) -> None:
        """After an upgrade: what is no HTTP any more. Raises OSError."""
        if self._http.sock is None:
            raise ConnectionResetError
        self._set_timeout(timeout)
        self._http.sock.sendall(data)

    def receive_bytes(self, response: "http.client.HTTPResponse", timeout: float) -> bytes:
        """After an upgrade: what came, b"" where the peer has ended. Raises OSError.

        By the response's own reader, which may have read ahead of its head."""
        self._set_timeout(timeout)
        return response.fp.read1(_PIECE)

    def _put(self, request: HttpRequest, headers: Iterable[tuple[str, str]]) -> None:
        """http.client's own `request` takes each header once; Impersonate-Group may be several."""
        server, proxy = self._endpoint.server, self._endpoint.proxy
        target = server.prefix + request.target
        shown = list(headers)
        if proxy and server.scheme == "http":
            # Without TLS a proxy is asked for the whole address instead of a tunnel (RFC 9112).
            target = f"{server.scheme}://{server.authority}{target}"
            shown += _proxy_headers(proxy)
        self._http.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in shown:
            self._http.putheader(name, value)
        if request.body or request.method != "GET":
            self._http.putheader("Content-Length", str(len(request.body)))
        self._http.endheaders(request.body or None)

    def _set_timeout(self, timeout: float) -> None:
        if self._http.sock is not None:
            self._http.sock.settimeout(timeout)


def exchange(
    endpoint: Endpoint,
    request: HttpRequest,
    headers: Iterable[tuple[str, str]],
    *,
    identity: Identity,
    context: "ssl.SSLContext | None",
    seconds: float,
    largest: int,
) -> HttpResponse:
    """One request on a connection of its own, and its whole answer, within so many seconds."""
    with Deadline(seconds) as deadline:
        try:
            connection = Connection(endpoint, identity, context, seconds, deadline)
            try:
                response = _send_and_read(connection, request, headers, seconds, largest)
            finally:
                connection.close()
        except UnreachableError as error:
            if not deadline.exceeded:
                raise
            raise _deadline_error(endpoint, seconds) from error
        # A body without a length ends quietly where its connection does.
        if deadline.exceeded:
            raise _deadline_error(endpoint, seconds)
        return response


def _send_and_read(
    connection: Connection,
    request: HttpRequest,
    headers: Iterable[tuple[str, str]],
    seconds: float,
    largest: int,
) -> HttpResponse:
    import http.client

    response = connection.send(request, headers, seconds)
    try:
        body = bytes(read_body(response, largest, seconds))
        for coding in reversed(response.getheader("Content-Encoding", "").lower().split(",")):
            if coding.strip() in _COMPRESSED:
                body = _decompress(body, largest)
    except (OSError, http.client.HTTPException, ValueError, AnswerTooLargeError) as error:
        raise connection.failure(request, error) from None
    shown = {name.lower(): value for name, value in response.getheaders()}
    return HttpResponse(response.status, shown, body)


def read_body(response: "http.client.HTTPResponse", largest: int, patience: float) -> bytearray:
    """Raises AnswerTooLargeError beyond a size, TimeoutError beyond so many seconds: each piece
    comes in time where a server sends one byte every few seconds."""
    import http.client

    body = bytearray()
    deadline = time.monotonic() + patience
    # Closed also where its whole length was read, as read1 does not; and where reading failed: the
    # answer of a connection that is not kept holds the last reference to its socket.
    with contextlib.closing(response):
        while piece := response.read1(_PIECE):
            body += piece
            if len(body) > largest:
                raise _too_large_error(largest)
            if time.monotonic() > deadline:
                raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
    return body


def _decompress(body: bytes, largest: int) -> bytes:
    """gzip or deflate, also raw deflate, which some servers mean by that. We ask for neither, but
    something in between may pack all the same."""
    import http.client
    import zlib

    found = bytearray()
    while body:
        engine = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            found += engine.decompress(body, largest + 1 - len(found))
        except zlib.error as error:
            if found:
                break  # padding behind the last member
            engine = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                found += engine.decompress(body, largest + 1 - len(found))
            except zlib.error:
                raise ValueError(f"the answer cannot be decompressed: {error}") from None
        if len(found) > largest:
            raise _too_large_error(largest)
        if not engine.eof:
            raise http.client.IncompleteRead(b"")
        body = engine.unused_data
    return bytes(found)


def _describe_failure(error: BaseException, timeout: float) -> str:
    """What went wrong with a connection, as a clause."""
    import http.client

    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed before an answer came"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer ended in the middle"
    if isinstance(error, http.client.HTTPException):
        return f"what came is not HTTP ({type(error).__name__} {error})".replace("\r\n", " ")
    verify = getattr(error, "verify_message", None)
    if verify:
        return f"its certificate is not believed: {verify}"
    if _is_tls(error):
        return f"TLS failed: {getattr(error, 'reason', None) or error}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _error_class(error: BaseException) -> type[UnreachableError]:
    if isinstance(error, TimeoutError):
        return DeadlineExceededError
    if isinstance(error, AnswerTooLargeError):
        return AnswerTooLargeError
    return TlsError if _is_tls(error) else UnreachableError


def _is_tls(error: BaseException) -> bool:
    """ssl is loaded only where TLS is spoken."""
    import sys

    ssl = sys.modules.get("ssl")
    return ssl is not None and isinstance(error, ssl.SSLError)


def _connect(
    endpoint: Endpoint,
    context: "ssl.SSLContext | None",
    timeout: float,
    deadline: Deadline | None,
) -> "http.client.HTTPConnection":
    import http.client

    server, proxy = endpoint.server, endpoint.proxy
    first = proxy or server
    connection = http.client.HTTPConnection(first.host, first.port, timeout=timeout)
    try:
        held = connection.sock = socket.create_connection((first.host, first.port), timeout)
        if deadline is not None:
            deadline.guard(held)
        for level, option, value in _KEEP_ALIVE:
            held.setsockopt(level, option, value)
        if context is not None:
            if proxy:
                _open_tunnel(held, server, proxy)
            name = endpoint.trust.server_name or server.host
            connection.sock = context.wrap_socket(held, server_hostname=name)
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        through = f"through the proxy {proxy.host}:{proxy.port}: " if proxy else ""
        clause = through + _describe_failure(error, timeout)
        told = f"{server} {clause}" if proxy else f"{server}: {clause}"
        raise _error_class(error)(told, clause) from None
    return connection


def _open_tunnel(held: socket.socket, server: Server, proxy: Proxy) -> None:
    """Not http.client's own: that connects by itself, out of reach of a deadline."""
    import http.client

    target = f"{server.bracketed}:{server.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    lines += [f"{name}: {value}" for name, value in _proxy_headers(proxy)]
    held.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    response = http.client.HTTPResponse(held, method="CONNECT")
    try:
        response.begin()
        if response.status != 200:
            raise OSError(f"Tunnel connection failed: {response.status} {response.reason.strip()}")
    finally:
        response.close()


def _proxy_headers(proxy: Proxy) -> list[tuple[str, str]]:
    return [("Proxy-Authorization", proxy.authorization)] if proxy.authorization else []


def _too_large_error(largest: int) -> AnswerTooLargeError:
    return AnswerTooLargeError(f"an answer of more than {largest >> 20} MiB")


def _deadline_error(endpoint: Endpoint, seconds: float) -> DeadlineExceededError:
    clause = f"no answer within {seconds:g} s"
    return DeadlineExceededError(f"{endpoint.server}: {clause}", clause)


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the server may have been faster
        # Not SSLSocket's own: it takes the session away from under the reader.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
