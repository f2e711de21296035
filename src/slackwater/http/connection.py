"""One connection to the API server: TCP, a proxy in between, TLS, one question at a time.

Owns the socket and the sentences about what can go wrong with it. Refuses to try again: whether
that is safe is the client's to know.
"""

import contextlib
import select
import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from slackwater.http.endpoint import Endpoint, Identity, Proxy
from slackwater.http.errors import ConnectionDroppedError, UnreachableError

if TYPE_CHECKING:
    import http.client
    import ssl

_PIECE = 1 << 16
#: A peer that vanished without a word is noticed in 15 + 3 x 5 s, also where nobody reads.
_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class HttpRequest(msgspec.Struct, frozen=True):
    """What is asked. `target` is the path with its query, without the server's prefix;
    `patience`, in seconds, is for a server that is known to take its time."""

    method: str
    target: str
    body: bytes = b""
    content_type: str = ""
    patience: float = 0.0

    def __str__(self) -> str:
        return f"{self.method} {self.target.partition('?')[0]}"


class Connection:
    """Guards one socket. One thread uses it at a time; only `sever` is for the others."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: Identity,
        context: "ssl.SSLContext | None",
        timeout: float,
    ) -> None:
        self.identity = identity
        self.used = False
        self._endpoint = endpoint
        self._timeout = timeout
        self._http = _opened(endpoint, context, timeout)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            self.close()

    def send(
        self, call: HttpRequest, headers: Iterable[tuple[str, str]], timeout: float
    ) -> "http.client.HTTPResponse":
        """The answer's head; its body is still to be read. `timeout` is for what follows."""
        import http.client

        try:
            self._patient(max(self._timeout, call.patience))
            self._put(call, headers)
            response = self._http.getresponse()
            self._patient(timeout)
        except (ConnectionResetError, BrokenPipeError) as error:
            self.close()
            raise ConnectionDroppedError(self.told(call, error)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise UnreachableError(self.told(call, error)) from None
        self.used = True
        return response

    def is_usable(self) -> bool:
        """Whether it can be used again: a quiet one that has something to say says good-bye."""
        if self._http.sock is None:
            return False
        poll = select.poll()
        poll.register(self._http.sock, select.POLLIN)
        return not poll.poll(0)

    def told(self, call: HttpRequest, error: BaseException) -> str:
        patience = max(self._timeout, call.patience)
        return f"{call} at {self._endpoint.server}: {reason(error, patience)}"

    def sever(self) -> None:
        """From any thread: whoever waits for this connection wakes up."""
        held = self._http.sock
        if held is not None:
            with contextlib.suppress(OSError):
                # Not SSLSocket's own: it takes the session away from under the reader.
                socket.socket.shutdown(held, socket.SHUT_RDWR)

    def close(self) -> None:
        self._http.close()

    def _put(self, call: HttpRequest, headers: Iterable[tuple[str, str]]) -> None:
        """http.client's own `request` takes each header once; Impersonate-Group may be several."""
        target = self._endpoint.server.prefix + call.target
        self._http.putrequest(call.method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            self._http.putheader(name, value)
        if call.body or call.method != "GET":
            self._http.putheader("Content-Length", str(len(call.body)))
        self._http.endheaders(call.body or None)

    def _patient(self, timeout: float) -> None:
        if self._http.sock is not None:
            self._http.sock.settimeout(timeout)


def read_whole(response: "http.client.HTTPResponse", largest: int, patience: float) -> bytearray:
    """The answer's body. Raises ValueError beyond a size, TimeoutError beyond so many seconds:
    each piece comes in time where a server sends one byte every few seconds."""
    body = bytearray()
    deadline = time.monotonic() + patience
    while piece := response.read1(_PIECE):
        body += piece
        if len(body) > largest:
            raise ValueError(f"an answer of more than {largest >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:
        raise ConnectionResetError(f"{response.length} bytes of the answer are missing")
    response.close()  # read1 leaves it open where it read exactly its length
    return body


def reason(error: BaseException, timeout: float) -> str:
    """What went wrong with a connection, as a clause."""
    import http.client

    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed before an answer came"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer ended in the middle"
    if isinstance(error, http.client.HTTPException):
        return f"what came is not HTTP ({type(error).__name__} {error})".replace("\r\n", " ")
    verify = getattr(error, "verify_message", None)
    if verify:
        return f"its certificate is not believed: {verify}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _opened(
    endpoint: Endpoint, context: "ssl.SSLContext | None", timeout: float
) -> "http.client.HTTPConnection":
    import http.client

    server, proxy = endpoint.server, endpoint.proxy
    first = proxy or server
    connection = http.client.HTTPConnection(first.host, first.port, timeout=timeout)
    if proxy:
        connection.set_tunnel(server.bracketed, server.port, _proxy_headers(proxy))
    try:
        connection.connect()
        for level, option, value in _KEEP_ALIVE:
            connection.sock.setsockopt(level, option, value)
        if context is not None:
            name = endpoint.trust.server_name or server.host
            connection.sock = context.wrap_socket(connection.sock, server_hostname=name)
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        through = f" through the proxy {proxy.host}:{proxy.port}" if proxy else ""
        raise UnreachableError(f"{server}{through}: {reason(error, timeout)}") from None
    return connection


def _proxy_headers(proxy: Proxy) -> dict[str, str]:
    return {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
