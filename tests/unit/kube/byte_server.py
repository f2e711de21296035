"""A server on loopback that answers byte by byte as a test says: well, badly, slowly, by half.

Real sockets and real HTTP on our side; what a real API server does only when it breaks, this one
does on demand.
"""

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec


class Request(msgspec.Struct, frozen=True):
    """One request as it came. `connection` counts the connections to the server."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    def header(self, name: str) -> str:
        return ", ".join(value for key, value in self.headers if key.lower() == name.lower())


class HangUp(Exception):  # noqa: N818 - it is no error
    """Raised by an answer: the connection ends."""


class Wire:
    """What an answer writes to."""

    def __init__(self, connection: socket.socket, closing: threading.Event) -> None:
        self._connection = connection
        self.closing = closing

    def raw(self, content: bytes) -> None:
        try:
            self._connection.sendall(content)
        except OSError:
            raise HangUp from None

    def head(self, status: int = 200, *headers: tuple[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{key}: {value}" for key, value in headers)]
        self.raw(("\r\n".join(lines) + "\r\n\r\n").encode())

    def answer(
        self,
        content: bytes,
        status: int = 200,
        kind: str = "application/json",
        *more: tuple[str, str],
    ) -> None:
        size = ("Content-Length", str(len(content)))
        self.head(status, ("Content-Type", kind), size, *more)
        self.raw(content)

    def json(self, value: object, status: int = 200, *more: tuple[str, str]) -> None:
        self.answer(msgspec.json.encode(value), status, "application/json", *more)

    def begin_chunks(self) -> None:
        self.head(200, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked"))

    def chunk(self, content: bytes) -> None:
        self.raw(b"%x\r\n%b\r\n" % (len(content), content))

    def event(self, kind: str, value: object) -> None:
        self.chunk(msgspec.json.encode({"type": kind, "object": value}) + b"\n")

    def end_chunks(self) -> None:
        self.raw(b"0\r\n\r\n")

    def reset(self) -> None:
        """The peer sees ECONNRESET, not an end."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise HangUp

    def receive(self) -> bytes:
        """What the peer sends after its request, as on a websocket; b"" where it has left."""
        return self._connection.recv(1 << 16)

    def is_left(self) -> bool:
        """Whether the peer has closed: it says nothing while it watches."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(0))

    def hang(self) -> None:
        """Says nothing more until the server or the peer closes."""
        with contextlib.suppress(OSError, ValueError):
            self._connection.settimeout(0.02)
            while not self.closing.is_set():
                try:
                    if not self._connection.recv(1):
                        break
                except TimeoutError:
                    continue
        raise HangUp


Answer = Callable[[Request, Wire], None]


class ByteServer:
    """Serves until it is closed. `answer` may be replaced at any time."""

    def __init__(self, answer: Answer, context: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self._context = context
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in [self._acceptor, *self._threads]:
            thread.join()

    def hang_up(self) -> None:
        """Every connection ends, as a server that dies ends them."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def open_connections(self) -> int:
        with self._lock:
            return len(self._open)

    def asked(self) -> list[str]:
        """Method and path of every request."""
        return [f"{one.method} {one.path}" for one in list(self.requests)]

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            number = self.connections
        try:
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            with self._lock:
                self._open.add(connection)
            if self._closing.is_set():
                return
            for request in _requests(connection, number):
                self.requests.append(request)
                self.answer(request, Wire(connection, self._closing))
        except (OSError, HangUp, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


def _requests(connection: socket.socket, number: int) -> Iterator[Request]:
    with connection.makefile("rb") as stream:
        while line := stream.readline().decode("latin-1"):
            method, target, _ = line.split(" ", 2)
            headers: list[tuple[str, str]] = []
            while text := stream.readline().decode("latin-1").strip():
                key, _, value = text.partition(":")
                headers.append((key, value.strip()))
            length = next((int(v) for k, v in headers if k.lower() == "content-length"), 0)
            body = stream.read(length)
            yield Request(method, target, tuple(headers), body, number)


@contextlib.contextmanager
def serving(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[ByteServer]:
    server = ByteServer(answer, context)
    try:
        yield server
    finally:
        server.close()


def eventually(_what: str, look: Callable[[], object]) -> None:
    """Waits for something that other threads do, however slow the machine is: pytest's own limit
    for a test ends it where it does not come, and shows what was waited for."""
    while not look():
        time.sleep(0.005)
