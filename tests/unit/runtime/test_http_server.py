"""The HTTP server on real sockets: it is bounded, and a slow or broken client harms nobody."""

import contextlib
import errno
import fcntl
import os
import socket
import struct
import termios
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from slackwater.runtime.http_exchange import (
    CannotListenError,
    ListenAddress,
    Request,
    Response,
    Route,
    dispatch,
    json_response,
)
from slackwater.runtime.http_server import MOST_CLIENTS, MOST_UNSENT, HttpServer
from slackwater.runtime.http_wire import LARGEST_REQUEST
from tests.unit.runtime.http_asking import ask_all, connect, send_raw
from tests.unit.runtime.slow_clients import Slow, SlowClients

#: A page of metrics that no socket takes at once.
PAGE = b"x" * (1 << 20)
#: More than a kernel takes off our hands for a client that reads nothing (tcp_wmem, 4 MiB).
LARGE_PAGE = b"x" * (16 << 20)


class RunningServer:
    """A server with the two probes, a page of metrics and whatever routes a test adds. Its time
    stands still unless a test moves it, so that nobody is ever too slow."""

    def __init__(self, *, started: bool = True) -> None:
        self.routes: dict[str, Route] = {
            "/healthz": lambda: json_response(200, {"ok": True}),
            "/readyz": lambda: json_response(503, {"ok": False}),
            "/metrics": lambda: Response(200, "text/plain", PAGE),
            "/large": lambda: Response(200, "text/plain", LARGE_PAGE),
        }
        self.now = 100.0
        self.all_reports: list[str] = []
        self.server = HttpServer(
            ListenAddress("127.0.0.1", 0),
            self._respond,
            self.all_reports.append,
            lambda: self.now,
        )
        self.address = self.server.address
        if started:
            self.server.start()

    def _respond(self, request: Request) -> Response:
        return dispatch(request.method, request.target, self.routes)

    @property
    def reports(self) -> list[str]:
        """Beside the first, which says where it listens."""
        first, *others = self.all_reports
        assert first == f"listening on http://{self.address}"
        return others

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        status, _, body = ask_all(self.address, method, path)
        return status, body

    def raw(self, sent: bytes) -> bytes:
        return send_raw(self.address, sent)

    def connect(self) -> socket.socket:
        return connect(self.address)

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def served() -> Iterator[RunningServer]:
    made = RunningServer()
    yield made
    made.close()


def test_odd_requests_get_a_sentence(served: RunningServer) -> None:
    assert served.raw(b"one two three four\r\n\r\n").startswith(b"HTTP/1.0 400 ")
    assert served.ask("HEAD", "/healthz") == (200, b"")
    assert served.reports == []


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * (2 * LARGEST_REQUEST),
        b"GET /" + b"a" * (2 * LARGEST_REQUEST) + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: " + b"a" * (2 * LARGEST_REQUEST) + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + (b"X: " + b"a" * 1000 + b"\r\n") * 90 + b"\r\n",
    ],
)
def test_a_request_that_is_too_large_is_not_read(served: RunningServer, sent: bytes) -> None:
    """A refusal may be lost: the connection is reset over what was not read."""
    got = served.raw(sent)
    assert not got or got.startswith((b"HTTP/1.0 413 ", b"HTTP/1.0 414 ", b"HTTP/1.0 431 "))
    assert served.ask("GET", "/healthz")[0] == 200


def test_an_empty_connection_is_nothing(served: RunningServer) -> None:
    served.connect().close()
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.reports == []


@pytest.mark.parametrize("kinds", [tuple(Slow), *((kind,) for kind in Slow)], ids=str)
def test_every_probe_is_answered_beside_slow_clients(
    served: RunningServer, kinds: Sequence[Slow]
) -> None:
    with SlowClients(served.address, 200, kinds) as slow:
        for _ in range(20):
            slow.step()
            assert served.ask("GET", "/healthz") == (200, b'{"ok":true}\n')
            assert served.ask("GET", "/readyz")[0] == 503
    assert served.reports == []


def test_more_clients_than_it_keeps(served: RunningServer) -> None:
    with contextlib.ExitStack() as open_connections:
        silent = [open_connections.enter_context(served.connect()) for _ in range(MOST_CLIENTS + 9)]
        for _ in range(3):
            assert served.ask("GET", "/healthz")[0] == 200
        assert silent[0].recv(1) == b""  # the oldest had to go
        silent[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(100).startswith(b"HTTP/1.0 200 ")


class FullListener:
    """Takes one connection; for the next one there is no descriptor at first."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.fileno, self.close = real.fileno, real.close
        self._calls = 0

    def accept(self) -> tuple[socket.socket, object]:
        made = self._real.accept()
        self._calls += 1
        if self._calls == 2:
            made[0].close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return made


def test_without_descriptors_the_oldest_makes_room() -> None:
    served = RunningServer(started=False)
    full: Any = FullListener(served.server._listener)
    served.server._listener = full
    served.server.start()
    with served.connect() as oldest:
        with served.connect() as unlucky:
            assert unlucky.recv(1) == b""
        assert oldest.recv(1) == b""
        assert served.ask("GET", "/healthz")[0] == 200
    served.close()


@pytest.mark.parametrize("sent", [b"", b"GET /heal", b"GET /large HTTP/1.0\r\n\r\n"])
def test_who_takes_too_long_is_cut_off(served: RunningServer, sent: bytes) -> None:
    """A byte now and then keeps no place: the whole request has one deadline, and the answer."""
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect((served.address.host, served.address.port))
        slow.sendall(sent)
        await_arrival(slow)
        if sent.endswith(b"\r\n\r\n"):
            slow.recv(1)  # the server is at it
        assert served.ask("GET", "/healthz")[0] == 200
        served.now += 60
        for _ in range(2):  # the first one's turn ends with those that are late
            assert served.ask("GET", "/healthz")[0] == 200
        got = b""
        with contextlib.suppress(ConnectionError):
            while chunk := slow.recv(65_536):
                got += chunk
        assert len(got) < len(LARGE_PAGE)


def test_what_is_not_taken_is_bounded(served: RunningServer) -> None:
    """The oldest that take too long give way, so that pages do not fill the memory."""
    with contextlib.ExitStack() as open_connections:
        takers = []
        for _ in range(2 * MOST_UNSENT // len(PAGE)):
            taker = open_connections.enter_context(socket.socket())
            taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            taker.connect((served.address.host, served.address.port))
            taker.sendall(b"GET /large HTTP/1.0\r\n\r\n")
            taker.recv(1)  # the server is at it
            takers.append(taker)
        sizes = []
        for taker in takers:
            got = 1
            with contextlib.suppress(ConnectionError):
                while chunk := taker.recv(65_536):
                    got += len(chunk)
            sizes.append(got)
    assert sizes[0] < len(LARGE_PAGE) < sizes[-1]


def test_probes_do_not_stand_behind_metrics(served: RunningServer) -> None:
    order: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def page() -> Response:
        order.append("/metrics")
        inside.set()
        leave.wait()
        return Response(200, "text/plain", b"")

    def probe() -> Response:
        order.append("/healthz")
        return Response(200, "text/plain", b"")

    served.routes |= {"/metrics": page, "/healthz": probe}
    with contextlib.ExitStack() as open_connections:
        asking = []
        for path in ("/metrics",) * 20 + ("/healthz",):
            made = open_connections.enter_context(served.connect())
            made.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            await_arrival(made)
            asking.append(made)
            if len(asking) == 1:
                assert inside.wait()
        leave.set()
        for made in asking:
            assert made.recv(100).startswith(b"HTTP/1.0 200 ")
    assert order == ["/metrics", "/healthz", *["/metrics"] * 19]


def await_arrival(connection: socket.socket) -> None:
    """Until the other side's kernel has all that was sent."""
    while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0]:
        pass


def test_a_bug_is_told_and_hurts_nobody_else(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Response:
        raise ZeroDivisionError("a bug")

    served.routes["/broken"] = broken
    assert served.ask("GET", "/broken")[0] == 500
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.reports == ["a request failed: ZeroDivisionError: a bug"]
    assert capsys.readouterr() == ("", "")


def test_a_client_that_leaves_is_no_news(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = threading.Event()

    def large() -> Response:
        gone.wait()
        return Response(200, "text/plain", b"x" * (8 << 20))

    served.routes["/large"] = large
    leaving = served.connect()
    leaving.sendall(b"GET /large HTTP/1.0\r\n\r\n")
    leaving.close()
    gone.set()
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.reports == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1"])  # TEST-NET-1 is nobody's
def test_an_address_that_cannot_be_bound(served: RunningServer, host: str) -> None:
    address = ListenAddress(host, served.address.port)
    with pytest.raises(CannotListenError, match=f"^cannot listen on {address}: "):
        HttpServer(address, lambda _: Response(200, "", b""), print)
