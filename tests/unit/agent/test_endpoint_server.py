"""The endpoint on real sockets: it answers, it is bounded, and it never harms the loop."""

import contextlib
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from slackwater.agent.endpoint_file import read_endpoint_file
from slackwater.agent.endpoint_server import GET_ROUTES, EndpointServer, Query
from slackwater.runtime import http_server as module
from slackwater.runtime.http_exchange import Response
from slackwater.runtime.http_server import LARGEST_REQUEST, MOST_AT_ONCE
from slackwater.runtime.listen_address import CannotListenError, ListenAddress
from tests.unit.agent.served import Served
from tests.unit.agent.shared_states import ended, seconds, shared
from tests.unit.record.tick_records import record


def test_it_answers(served: Served) -> None:
    status, headers, body = served.ask_all("GET", "/healthz")
    assert (status, body) == (200, b'{"ok":true}\n')
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == str(len(body))
    assert headers["Server"] == "slackwater"
    assert headers["Cache-Control"] == "no-store"


def test_head_has_no_body(served: Served) -> None:
    status, headers, body = served.ask_all("HEAD", "/metrics")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


def test_a_loop_that_stalls_is_told(served: Served) -> None:
    served.shared.end_round(ended(100))
    served.now = seconds(190)
    assert served.ask("GET", "/healthz")[0] == 200
    served.now = seconds(191)
    status, body = served.ask("GET", "/healthz")
    assert status == 503
    assert b"the loop has made no progress for 91 s; 90 s are allowed" in body


def test_the_format_that_was_asked_for(served: Served) -> None:
    served.shared.add_tick(record())
    kinds = [
        served.ask_all("GET", "/metrics", Accept=accept)[1]["Content-Type"]
        for accept in ("text/plain", "application/openmetrics-text;version=1.0.0")
    ]
    assert kinds[0].startswith("text/plain")
    assert kinds[1].startswith("application/openmetrics-text")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "POST"])
def test_other_methods_hear_which_to_use(served: Served, method: str) -> None:
    status, headers, body = served.ask_all(method, "/metrics")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert set(msgspec.json.decode(body)) == {"error"}


def test_a_foreign_name_is_refused(served: Served) -> None:
    assert served.ask("GET", "/metrics", Host="evil.example")[0] == 403
    assert served.ask("GET", "/metrics", Host="localhost:1")[0] == 200


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
def test_odd_requests_get_a_sentence(served: Served, sent: bytes, status: int) -> None:
    got = served.raw(sent)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.0 {status} ".encode()), got
    assert body.count(b"\n") == 1
    assert msgspec.json.decode(body)
    assert served.complaints == []


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * (2 * LARGEST_REQUEST),
        b"GET /" + b"a" * (2 * LARGEST_REQUEST) + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: " + b"a" * (2 * LARGEST_REQUEST) + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + (b"X: " + b"a" * 1000 + b"\r\n") * 90 + b"\r\n",
    ],
)
def test_a_request_that_is_too_large_is_not_read(served: Served, sent: bytes) -> None:
    """A refusal may be lost: the connection is reset over what was not read."""
    got = served.raw(sent)
    assert not got or got.startswith((b"HTTP/1.0 413 ", b"HTTP/1.0 414 ", b"HTTP/1.0 431 "))
    assert served.ask("GET", "/healthz")[0] == 200


def test_an_empty_connection_is_nothing(served: Served) -> None:
    served.connect().close()
    assert served.raw(b"\r\n") == b""
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.complaints == []


def test_a_body_is_taken_and_not_minded(served: Served) -> None:
    assert served.ask("POST", "/nowhere", body=b"x" * 1000)[0] == 404


def test_who_drips_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps no place: the whole request has one deadline."""
    monkeypatch.setattr(module, "READ_SECONDS", 0.5)
    served = Served(str(tmp_path))
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
        served.endpoint.close()


def test_only_so_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOT_SECONDS", 0.1)
    served = Served(str(tmp_path))
    inside, leave = threading.Semaphore(0), threading.Event()

    def slow(_: Query) -> Response:
        inside.release()
        leave.wait()
        return Response(200, "text/plain", b"")

    monkeypatch.setitem(GET_ROUTES, "/slow", slow)
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
        served.endpoint.close()


def test_clients_that_send_nothing_do_not_keep_out_a_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 3600.0)
    served = Served(str(tmp_path))
    try:
        with contextlib.ExitStack() as open_connections:
            silent = [
                open_connections.enter_context(served.connect()) for _ in range(2 * MOST_AT_ONCE)
            ]
            for _ in range(3):
                assert served.ask("GET", "/healthz")[0] == 200
            assert silent[0].recv(1) == b""  # the oldest had to go
    finally:
        served.endpoint.close()


def test_a_bug_is_told_and_hurts_nobody_else(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Query) -> Response:
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(GET_ROUTES, "/broken", broken)
    assert served.ask("GET", "/broken")[0] == 500
    assert served.ask("GET", "/healthz")[0] == 200
    assert served.complaints == ["a request failed: ZeroDivisionError: a bug"]
    assert capsys.readouterr() == ("", "")


def test_a_client_that_leaves_is_no_news(
    served: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = threading.Event()

    def large(_: Query) -> Response:
        gone.wait()
        return Response(200, "text/plain", b"x" * (8 << 20))

    monkeypatch.setitem(GET_ROUTES, "/large", large)
    leaving = served.connect()
    leaving.sendall(b"GET /large HTTP/1.0\r\n\r\n")
    leaving.close()
    gone.set()
    assert served.ask("GET", "/healthz")[0] == 200
    served.endpoint.close()
    assert served.complaints == []
    assert capfd.readouterr() == ("", "")


def test_two_cannot_listen_at_one_place(served: Served, tmp_path: Path) -> None:
    with pytest.raises(CannotListenError) as caught:
        EndpointServer(
            served.endpoint.address, "", shared(), lambda: seconds(0), served.reports.append
        )
    where = served.endpoint.address
    assert str(caught.value) == f"cannot listen on {where}: Address already in use"
    assert read_endpoint_file(str(tmp_path)) is not None  # the first one's


def test_an_address_of_somebody_else() -> None:
    far = ListenAddress("192.0.2.1", 0)  # TEST-NET-1: nobody's
    with pytest.raises(CannotListenError, match=r"^cannot listen on 192\.0\.2\.1:0: "):
        EndpointServer(far, "", shared(), lambda: seconds(0), lambda _: None)


def test_the_note_lives_as_long_as_the_endpoint(tmp_path: Path) -> None:
    served = Served(str(tmp_path))
    note = read_endpoint_file(str(tmp_path))
    assert note is not None
    assert note.address == served.endpoint.address
    assert len(note.token) == 64
    other = Served("")
    assert other.endpoint.address.port != 0
    served.endpoint.close()
    other.endpoint.close()
    assert read_endpoint_file(str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_tokens_are_not_used_twice(tmp_path: Path) -> None:
    notes = []
    for _ in range(2):
        served = Served(str(tmp_path))
        notes.append(read_endpoint_file(str(tmp_path)))
        served.endpoint.close()
    assert None not in notes
    assert notes[0] != notes[1]


def test_a_state_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    served = Served(str(tmp_path / "gone"))
    assert served.ask("GET", "/healthz")[0] == 200
    served.endpoint.close()
    [complaint] = served.complaints
    assert "cannot be noted" in complaint


def test_ipv6(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    served = Served(str(tmp_path), ListenAddress("::1", 0))
    assert served.ask("GET", "/healthz")[0] == 200
    assert read_endpoint_file(str(tmp_path)) is not None
    served.endpoint.close()
