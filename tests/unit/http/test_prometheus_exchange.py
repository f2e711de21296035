"""Answers that come slowly, by half, in pieces or not at all, over real sockets."""

import gzip
import socket
import threading
import time

import pytest

from slackwater.http import prometheus_client
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.model.units import Micros
from slackwater.settings.prometheus import PrometheusSettings
from tests.unit.http.prometheus_world import (
    GOOD,
    ONE,
    SECOND,
    clear_proxies,
    first_then_well,
    refusal,
    settings_for,
    status,
)
from tests.unit.kube.byte_server import Answer, HangUp, Request, Wire, serving


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)


def _half(*pieces: bytes) -> Answer:
    """The head of an answer and some of its body; the end comes in good order."""

    def answer(_request: Request, wire: Wire) -> None:
        for piece in pieces:
            wire.raw(piece)
        raise HangUp

    return answer


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        _half(_HEAD, b"Content-Length: 500\r\n\r\n", GOOD),
        _half(_CHUNKED, b"1f4\r\n", GOOD),
        _half(_CHUNKED, b"%x\r\n%b\r\n" % (len(GOOD), GOOD)),
    ],
)
def test_half_an_answer_is_none(answer: Answer) -> None:
    """Also where what came would do: who knows what was to follow."""
    with serving(answer) as server:
        told = refusal(PrometheusClient(settings_for(server.port, retries=0)))
    assert told == f"Prometheus at http://127.0.0.1:{server.port}: the answer ended in the middle"


def _in_chunks(_request: Request, wire: Wire) -> None:
    """As Go's servers send what they have not measured."""
    wire.begin_chunks()
    for start in range(0, len(GOOD), 7):
        wire.chunk(GOOD[start : start + 7])
    wire.end_chunks()


def _packed(_request: Request, wire: Wire) -> None:
    """Something in between packs what nobody wanted packed."""
    wire.answer(gzip.compress(GOOD), 200, "application/json", ("Content-Encoding", "gzip"))


@pytest.mark.parametrize("answer", [_in_chunks, _packed, _half(_HEAD, b"\r\n", GOOD)])
def test_ways_to_send_an_answer(answer: Answer) -> None:
    with serving(answer) as server:
        assert PrometheusClient(settings_for(server.port, retries=0)).query("up") == (ONE,)


def test_a_packed_answer_has_a_size_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_client, "LARGEST_ANSWER", 1 << 20)
    bomb = gzip.compress(b" " * (64 << 20))
    encoded = ("Content-Encoding", "gzip")
    with serving(lambda _r, wire: wire.answer(bomb, 200, "application/json", encoded)) as server:
        told = refusal(PrometheusClient(settings_for(server.port)))
    assert told.endswith("the answer has more than 1 MiB; the query asks for too many series")


def test_nobody_listens() -> None:
    with socket.socket() as holder:  # bound and not listening: nobody else can take it
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        pauses: list[float] = []
        told = refusal(PrometheusClient(settings_for(port), pauses.append))
    assert told == f"Prometheus at http://127.0.0.1:{port}: Connection refused (3 tries)"


def test_a_name_that_nobody_knows() -> None:
    settings = PrometheusSettings(endpoint="http://prometheus.invalid:9090", retries=0)
    told = refusal(PrometheusClient(settings))
    assert told == "Prometheus at http://prometheus.invalid:9090: its name is not known"


def test_what_is_no_http() -> None:
    with serving(lambda _r, wire: wire.raw(b"SSH-2.0-OpenSSH_9.2\r\n")) as server:
        told = refusal(PrometheusClient(settings_for(server.port, retries=0)))
    assert "what came is not HTTP (BadStatusLine SSH-2.0-OpenSSH_9.2" in told


def _dripping(_request: Request, wire: Wire) -> None:
    wire.head(200, ("Content-Type", "application/json"))
    while not wire.closing.wait(0.02):
        wire.raw(b" ")


def _dripping_head(_request: Request, wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not wire.closing.wait(0.02):
        wire.raw(b"x")


def _dripping_chunks(_request: Request, wire: Wire) -> None:
    wire.begin_chunks()
    while not wire.closing.wait(0.02):
        wire.chunk(b" ")


@pytest.mark.parametrize(
    "answer", [lambda _r, wire: wire.hang(), _dripping, _dripping_head, _dripping_chunks]
)
def test_the_timeout_is_for_all_of_it(answer: Answer) -> None:
    """A server that says a little again and again does not keep us."""
    with serving(answer) as server:
        began = time.monotonic()
        told = refusal(PrometheusClient(settings_for(server.port, timeout=0.3)))
        took = time.monotonic() - began
    assert told == f"Prometheus at http://127.0.0.1:{server.port}: no whole answer within 0.3 s"
    assert took > 0.25
    assert len(server.requests) <= 1, "nobody asks again"


def test_a_handshake_that_drips() -> None:
    """Also before anything of HTTP is said: raw bytes of a TLS record that never ends."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"\x16\x03\x03\x3f\xff")
                while not stop.wait(0.02):
                    try:
                        connection.sendall(b"\x02")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            endpoint = f"https://127.0.0.1:{listener.getsockname()[1]}"
            settings = PrometheusSettings(endpoint=endpoint, timeout=Micros(SECOND * 3 // 10))
            told = refusal(PrometheusClient(settings))
        finally:
            stop.set()
            thread.join()
    assert told == f"Prometheus at {endpoint}: no whole answer within 0.3 s"


def test_an_answer_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_client, "LARGEST_ANSWER", 1 << 20)
    with serving(lambda _r, wire: wire.answer(b" " * ((1 << 20) + 1))) as server:
        told = refusal(PrometheusClient(settings_for(server.port)))
    assert told.endswith("the answer has more than 1 MiB; the query asks for too many series")


def test_no_sockets_and_threads_are_left() -> None:
    with serving(first_then_well(status(500))) as server:
        client = PrometheusClient(settings_for(server.port))
        refusal(client)
        client.query("up")
        left = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
        for each in left:
            each.join()
        assert not any(each.is_alive() for each in left)
