"""One request and its whole answer: encodings, proxies, deadlines, over real sockets."""

import gzip
import socket
import threading
import zlib

import pytest

from slackwater.http.connection import HttpRequest, HttpResponse, exchange
from slackwater.http.endpoint import Endpoint, Identity, Proxy, Server
from slackwater.http.errors import AnswerTooLargeError, DeadlineExceededError, UnreachableError
from slackwater.http.tls import TlsContexts
from tests.unit.kube.byte_server import Answer, Request, Wire, serving

TEXT = b"what was asked for, " * 50
GET = HttpRequest("GET", "/path?query=1")


def ask(
    port: int, proxy: Proxy | None = None, scheme: str = "http", seconds: float = 20.0
) -> HttpResponse:
    endpoint = Endpoint(Server("127.0.0.1", port, scheme, "/prefix"), proxy=proxy)
    context = TlsContexts(endpoint.trust).context(Identity()) if scheme == "https" else None
    return exchange(
        endpoint,
        GET,
        [("Host", endpoint.server.authority)],
        identity=Identity(),
        context=context,
        seconds=seconds,
        largest=1 << 20,
    )


def packed(body: bytes, coding: str) -> Answer:
    return lambda _request, wire: wire.answer(body, 200, "text/plain", ("Content-Encoding", coding))


def raw_deflate(body: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(body) + engine.flush()


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (TEXT, "identity"),
        (TEXT, "br"),  # not ours to unpack
        (gzip.compress(TEXT, mtime=0), "gzip"),
        (gzip.compress(TEXT, mtime=0), "X-GZIP"),
        (gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0), "gzip"),
        (gzip.compress(TEXT, mtime=0) + bytes(7), "gzip"),
        (zlib.compress(TEXT), "deflate"),
        (raw_deflate(TEXT), "deflate"),
        (gzip.compress(zlib.compress(TEXT), mtime=0), "deflate, gzip"),
    ],
)
def test_packed_answers(body: bytes, coding: str) -> None:
    with serving(packed(body, coding)) as server:
        found = ask(server.port)
    assert (found.status, found.media_type, found.body) == (200, "text/plain", TEXT)


@pytest.mark.parametrize(
    ("body", "clause"),
    [
        (gzip.compress(TEXT, mtime=0)[:-12], "the answer ended in the middle"),
        (b"no gzip at all", "the answer cannot be decompressed: "),
    ],
)
def test_packed_answers_that_are_broken(body: bytes, clause: str) -> None:
    with serving(packed(body, "gzip")) as server, pytest.raises(UnreachableError) as told:
        ask(server.port)
    assert told.value.reason.startswith(clause)
    assert str(told.value).startswith(f"GET /path at http://127.0.0.1:{server.port}/prefix: ")


def test_a_small_answer_that_unpacks_to_a_large_one() -> None:
    bomb = gzip.compress(b" " * (8 << 20), mtime=0)
    with serving(packed(bomb, "gzip")) as server, pytest.raises(AnswerTooLargeError):
        ask(server.port)


def test_without_tls_a_proxy_is_asked_for_the_whole_address() -> None:
    with serving(lambda _request, wire: wire.answer(TEXT)) as server:
        ask(9, Proxy("127.0.0.1", server.port, "Basic eDp5"))
        (request,) = server.requests
    assert request.target == "http://127.0.0.1:9/prefix/path?query=1"
    assert request.header("Host") == "127.0.0.1:9"
    assert request.header("Proxy-Authorization") == "Basic eDp5"


def test_a_redirect_is_an_answer() -> None:
    there = ("Location", "http://example.com/")
    with serving(lambda _request, wire: wire.answer(b"", 302, "text/plain", there)) as server:
        found = ask(server.port)
    assert (found.status, found.header("location")) == (302, "http://example.com/")


def _dripping_proxy(_request: Request, wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not wire.closing.wait(0.02):
        wire.raw(b"x")


def test_a_proxy_is_within_the_deadline() -> None:
    """Each byte of its answer comes in time; the whole never would."""
    with serving(_dripping_proxy) as server, pytest.raises(DeadlineExceededError) as told:
        ask(9, Proxy("127.0.0.1", server.port), "https", seconds=0.3)
    assert told.value.reason == "no answer within 0.3 s"


def test_nothing_is_left_behind() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError, match="Connection refused"):
            ask(holder.getsockname()[1])
    timers = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    for each in timers:
        each.join(60)
    assert not any(each.is_alive() for each in timers)
