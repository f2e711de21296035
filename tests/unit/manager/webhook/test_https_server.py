"""The HTTPS server: kept connections, bodies, and clients that are slow, large or not HTTP."""

import contextlib
import datetime as dt
import http.client
import json
import socket
import ssl
from collections.abc import Iterator

import pytest

from slackwater.manager.webhook import https_server
from slackwater.manager.webhook.certificate_rotation import make_context
from slackwater.manager.webhook.certificates import StoredCertificates, renew
from slackwater.manager.webhook.https_server import HttpsServer
from slackwater.manager.webhook.node_webhook import respond
from slackwater.manager.webhook.webhook_names import PATH
from slackwater.manager.webhook.webhook_state import WebhookState
from slackwater.runtime.http_exchange import CannotListenError, ListenAddress, Response
from tests.unit.manager.webhook.test_review import review

ANYWHERE = ListenAddress("127.0.0.1", 0)


class Served:
    """A server with a certificate of its own, and what it counted and told."""

    def __init__(self) -> None:
        self.state = WebhookState()
        self.state.enabled = True
        self.told: list[str] = []
        self.stored = renew(StoredCertificates(), ("127.0.0.1",), b"", dt.datetime.now(dt.UTC))
        self.context: ssl.SSLContext | None = make_context(self.stored.certificate, self.stored.key)
        self.fails = False
        self.server = HttpsServer(
            ANYWHERE, lambda: self.context, self._respond, self.state.drop, self.told.append
        )
        self.server.start()

    def _respond(self, path: str, body: bytes) -> Response:
        if self.fails:
            raise ZeroDivisionError("a bug")
        return respond(path, body, self.state, lambda _about, text: self.told.append(text))

    def connect(self) -> http.client.HTTPSConnection:
        trust = ssl.create_default_context(cadata=self.stored.authorities.decode())
        address = self.server.address
        return http.client.HTTPSConnection(address.host, address.port, context=trust, timeout=60)

    def dropped(self) -> float:
        return next(each.value for each in self.state.samples() if "dropped" in each.metric.name)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(https_server, "_POLL_SECONDS", 0.01)
    made = Served()
    yield made
    made.server.close()


def test_a_computing_thread_keeps_no_answer_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager's loop decides about thousands of nodes in the same process."""
    asked: list[float] = []
    monkeypatch.setattr("sys.setswitchinterval", asked.append)
    Served().server.close()
    assert asked == [0.0005]


def ask(connection: http.client.HTTPConnection, body: bytes, path: str = PATH) -> tuple[int, bytes]:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


GOOD = json.dumps(review()).encode()


def test_reviews_are_answered_over_one_connection(served: Served) -> None:
    with contextlib.closing(served.connect()) as connection:
        for _ in range(3):
            status, body = ask(connection, GOOD)
            assert (status, json.loads(body)["response"]["allowed"]) == (200, True)
            assert ask(connection, b"{]")[0] == 400
        assert connection.sock is not None
    counted = {each.labels: each.value for each in served.state.samples() if each.labels}
    assert (counted["changed",], counted["refused",]) == (3, 3)


def test_another_path_is_not_there(served: Served) -> None:
    with contextlib.closing(served.connect()) as connection:
        status, body = ask(connection, GOOD, "/elsewhere?a=b")
        assert (status, PATH in body.decode()) == (404, True)
        connection.request("GET", PATH)
        assert connection.getresponse().status == 501


def test_a_new_certificate_is_for_new_connections(served: Served) -> None:
    with contextlib.closing(served.connect()) as kept:
        assert ask(kept, GOOD)[0] == 200
        served.stored = renew(StoredCertificates(), ("127.0.0.1",), b"", dt.datetime.now(dt.UTC))
        served.context = make_context(served.stored.certificate, served.stored.key)
        with contextlib.closing(served.connect()) as fresh:
            assert ask(fresh, GOOD)[0] == 200
        assert ask(kept, GOOD)[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(https_server.LARGEST_BODY + 1)}, 413),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "9" * 5000}, 411),
        ({}, 411),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_body_without_a_sensible_length_is_not_read(
    served: Served, headers: dict[str, str], status: int
) -> None:
    with contextlib.closing(served.connect()) as connection:
        connection.putrequest("POST", PATH)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Connection")) == (status, "close")
        answer.read()
    assert served.dropped() == 1


def test_what_is_not_tls_or_leaves_early_is_dropped_and_others_are_answered(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = served.server.address
    with socket.create_connection((address.host, address.port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        plain.recv(100)
    with contextlib.closing(served.connect()) as connection:
        connection.connect()
        assert connection.sock is not None
        connection.sock.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf")
    with contextlib.closing(served.connect()) as connection:
        assert ask(connection, GOOD)[0] == 200
    while served.dropped() < 1:
        pass  # the thread of the first one is about to count


def test_a_request_that_takes_too_long_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https_server, "READ_SECONDS", 0.05)
    monkeypatch.setattr(https_server._Exchanges, "setup", _patient(https_server._Exchanges.setup))
    with contextlib.closing(served.connect()) as connection:
        connection.connect()
        assert connection.sock is not None
        connection.sock.sendall(b"POST / HTTP/1.1\r\n")
        assert connection.sock.recv(100) == b""


def _patient(setup: object) -> object:
    """The handshake itself may take its time on a slow machine."""

    def call(self: https_server._Exchanges) -> None:
        before, https_server.READ_SECONDS = https_server.READ_SECONDS, 60.0
        try:
            setup(self)  # type: ignore[operator]
        finally:
            https_server.READ_SECONDS = before

    return call


def test_the_longest_idle_connection_makes_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as opened:
        kept = [
            opened.enter_context(contextlib.closing(served.connect()))
            for _ in range(https_server.MOST_CONNECTIONS)
        ]
        for each in kept:
            assert ask(each, GOOD)[0] == 200
        one_more = opened.enter_context(contextlib.closing(served.connect()))
        assert ask(one_more, GOOD)[0] == 200
        assert kept[0].sock is not None
        assert kept[0].sock.recv(1) == b""
        assert ask(kept[-1], GOOD)[0] == 200


def test_without_a_certificate_connections_are_refused(served: Served) -> None:
    served.context = None
    with contextlib.closing(served.connect()) as connection, pytest.raises(OSError):  # noqa: PT011
        ask(connection, GOOD)


def test_a_bug_is_told(served: Served) -> None:
    served.fails = True
    with (
        contextlib.closing(served.connect()) as connection,
        pytest.raises(http.client.HTTPException),
    ):
        ask(connection, GOOD)
    while not served.told:
        pass  # the thread is about to tell
    assert served.told == ["a request failed: ZeroDivisionError: a bug"]


def test_an_address_that_is_taken_is_one_sentence(served: Served) -> None:
    with pytest.raises(CannotListenError, match="cannot listen on 127"):
        HttpsServer(served.server.address, lambda: None, served._respond, print, print)
