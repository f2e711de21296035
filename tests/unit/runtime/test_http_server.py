"""The HTTP server on real sockets: it is bounded, and a slow or broken client harms nobody."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest

from slackwater.runtime import http_server as module
from slackwater.runtime.http_exchange import (
    CannotListenError,
    ListenAddress,
    Request,
    Response,
    Route,
    dispatch,
    json_response,
)
from slackwater.runtime.http_server import LARGEST_REQUEST, MOST_AT_ONCE, HttpServer
from tests.unit.runtime.http_asking import ask_all, connect, send_raw


@pytest.fixture(autouse=True)
def _quick_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)


class RunningServer:
    """A server with /healthz and whatever routes a test adds."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {"/healthz": lambda: json_response(200, {"ok": True})}
        self.all_reports: list[str] = []
        self._server = HttpServer(
            ListenAddress("127.0.0.1", 0), self._respond, self.all_reports.append
        )
        self.address = self._server.address
        self._server.start()

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
        self._server.close()


@pytest.fixture
def served() -> Iterator[RunningServer]:
    made = RunningServer()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.0\n\n", 200),
        (b"GET /healthz\r\n\r\n", 200),
        (b"FETCH /healthz HTTP/1.1\r\n\r\n", 501),
        (b"GET /healthz HTTP/9.9\r\n\r\n", 505),
        (b"GET /healthz HTTP/x\r\n\r\n", 400),
        (b"one two three four\r\n\r\n", 400),
        (b"\xff\xfe\x00\x01 / HTTP/1.1\r\n\r\n", 501),
        (b"\x16\x03\x01\x02 \x00\x01\r\n\r\n", 400),  # somebody speaks TLS
        (b"GET /healthz HTTP/1.1\r\nContent-Length: 99999\r\n\r\n", 413),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 413),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431),
    ],
)
def test_odd_requests_get_a_sentence(served: RunningServer, sent: bytes, status: int) -> None:
    got = served.raw(sent)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.0 {status} ".encode()), got
    assert body.count(b"\n") == 1
    assert msgspec.json.decode(body)
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
    assert served.raw(b"\r\n") == b""
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.reports == []


def test_who_drips_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps no place: the whole request has one deadline."""
    monkeypatch.setattr(module, "READ_SECONDS", 0.5)
    served = RunningServer()
    try:
        with served.connect() as slow:
            slow.settimeout(0.05)
            got, sent = b"?", 0
            with contextlib.suppress(ConnectionError):
                while got and sent < 400:
                    slow.sendall(b"G")
                    sent += 1
                    with contextlib.suppress(TimeoutError):
                        got = slow.recv(1)
        assert sent < 400  # 400 bytes would have taken 20 s
    finally:
        served.close()


def test_only_so_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOT_SECONDS", 0.1)
    served = RunningServer()
    inside, leave = threading.Semaphore(0), threading.Event()

    def slow() -> Response:
        inside.release()
        leave.wait()
        return Response(200, "text/plain", b"")

    served.routes["/slow"] = slow
    try:
        with contextlib.ExitStack() as open_connections:
            waiting = [
                open_connections.enter_context(served.connect()) for _ in range(MOST_AT_ONCE)
            ]
            for connection in waiting:
                connection.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
                assert inside.acquire()
            assert served.raw(b"GET /healthz HTTP/1.0\r\n\r\n") == b""  # no place
            leave.set()
            for connection in waiting:
                assert connection.recv(100).startswith(b"HTTP/1.0 200 ")
        assert served.ask("GET", "/healthz")[0] == 200
    finally:
        leave.set()
        served.close()


def test_clients_that_send_nothing_do_not_keep_out_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 3600.0)
    served = RunningServer()
    try:
        with contextlib.ExitStack() as open_connections:
            silent = [
                open_connections.enter_context(served.connect()) for _ in range(2 * MOST_AT_ONCE)
            ]
            for _ in range(3):
                assert served.ask("GET", "/healthz")[0] == 200
            assert silent[0].recv(1) == b""  # the oldest had to go
    finally:
        served.close()


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
    served.close()
    assert served.reports == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1"])  # TEST-NET-1 is nobody's
def test_an_address_that_cannot_be_bound(served: RunningServer, host: str) -> None:
    address = ListenAddress(host, served.address.port)
    with pytest.raises(CannotListenError, match=f"^cannot listen on {address}: "):
        HttpServer(address, lambda _: Response(200, "", b""), print)
