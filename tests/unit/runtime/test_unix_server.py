"""The HTTP server on a unix socket: whose it is, that it is bounded, what it replaces."""

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from slackwater.runtime import unix_server as module
from slackwater.runtime.http_exchange import (
    CannotListenError,
    Request,
    Response,
    Route,
    dispatch,
    json_response,
)
from slackwater.runtime.unix_server import MOST_AT_ONCE, IsAllowed, UnixServer, is_root_or_own
from tests.unit.runtime.http_asking import ask_all, connect, send_raw


@pytest.fixture(autouse=True)
def _quick_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)


class RunningServer:
    """A server with /healthz and whatever routes a test adds."""

    def __init__(self, folder: Path, is_allowed: IsAllowed = is_root_or_own) -> None:
        self.routes: dict[str, Route] = {"/healthz": lambda: json_response(200, {"ok": True})}
        self.all_reports: list[str] = []
        self.path = str(folder / "s")
        self._server = UnixServer(self.path, self._respond, self.all_reports.append, is_allowed)
        self._server.start()

    def _respond(self, request: Request) -> Response:
        return dispatch(request.method, request.target, self.routes)

    @property
    def reports(self) -> list[str]:
        """Beside the first, which says where it listens."""
        first, *others = self.all_reports
        assert first == f"listening on unix:{self.path}"
        return others

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        status, _, body = ask_all(self.path, method, path)
        return status, body

    def raw(self, sent: bytes) -> bytes:
        return send_raw(self.path, sent)

    def connect(self) -> socket.socket:
        return connect(self.path)

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[RunningServer]:
    made = RunningServer(tmp_path)
    yield made
    made.close()


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        served = RunningServer(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(served.path).st_mode) == 0o600
    assert served.ask("GET", "/healthz") == (200, b'{"ok":true}\n')
    served.close()
    assert list(tmp_path.iterdir()) == []


def test_the_peers_user_decides(tmp_path: Path) -> None:
    """Also where somebody has changed the file's mode."""
    asked: list[int] = []

    def nobody(uid: int) -> bool:
        asked.append(uid)
        return False

    served = RunningServer(tmp_path, nobody)
    status, body = served.ask("GET", "/healthz")
    served.close()
    own = os.geteuid()
    assert (status, asked) == (403, [own])
    said = f"this socket is root's and user {own}'s; you are user {own}"
    assert msgspec.json.decode(body) == {"error": said}


@pytest.mark.parametrize(
    ("own", "uid", "allowed"),
    [(0, 0, True), (0, 1000, False), (1000, 0, True), (1000, 1000, True), (1000, 65534, False)],
)
def test_root_and_the_own_user(
    monkeypatch: pytest.MonkeyPatch, own: int, uid: int, allowed: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: own)
    assert is_root_or_own(uid) is allowed


def test_a_dead_programs_socket_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    served = RunningServer(tmp_path)
    assert served.ask("GET", "/healthz")[0] == 200
    served.close()


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("somebody's")
    with pytest.raises(CannotListenError, match=r"^cannot listen on .*/s: Address already in use$"):
        RunningServer(tmp_path)
    assert (tmp_path / "s").read_text() == "somebody's"


def test_a_path_that_the_kernel_does_not_take(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    with pytest.raises(CannotListenError, match=r"^cannot listen on .*/s: AF_UNIX path too long$"):
        RunningServer(deep)


def test_odd_requests_and_empty_ones(served: RunningServer) -> None:
    assert served.raw(b"one two three four\r\n\r\n").startswith(b"HTTP/1.0 400 ")
    served.connect().close()
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.reports == []


def test_who_sends_no_request_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 0.05)
    served = RunningServer(tmp_path)
    with served.connect() as slow:
        slow.sendall(b"G")
        with contextlib.suppress(ConnectionError):
            assert slow.recv(1) == b""
    served.close()
    assert served.reports == []


def test_only_so_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOT_SECONDS", 0.1)
    served = RunningServer(tmp_path)
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


def test_clients_that_send_nothing_keep_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 3600.0)
    served = RunningServer(tmp_path)
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
