"""What is tried a second time, what is not, and what becomes of broken answers."""

import itertools
import time
from collections.abc import Callable

import pytest

from slackwater.http.connection import HttpRequest
from slackwater.http.endpoint import Identity
from slackwater.http.errors import ConnectionDroppedError, CredentialsError, UnreachableError
from slackwater.kube import transport as transport_module
from slackwater.kube.access import Credentials, FixedCredentials
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.transport import Transport
from tests.unit.kube.accesses import AGENT, plain_access
from tests.unit.kube.byte_server import Answer, ByteServer, HangUp, Request, Wire, serving
from tests.unit.kube.fake_api import status

GET = HttpRequest("GET", "/api/v1/pods?limit=1")
POST = HttpRequest("POST", "/api/v1/pods", b"{}", "application/json")
PUT = HttpRequest("PUT", "/api/v1/pods/x", b"{}", "application/json")
DELETE = HttpRequest("DELETE", "/api/v1/pods/x")
APPLY = HttpRequest("PATCH", "/api/v1/pods/x", b"{}", "application/apply-patch+yaml")
MERGE = HttpRequest("PATCH", "/api/v1/pods/x", b"{}", "application/merge-patch+json")


NOBODY = FixedCredentials(Identity())


class Rotating:
    """Credentials that can be had anew so many times."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.renewed = 0

    def identity(self) -> Identity:
        return Identity(f"Bearer {self.tokens[0]}")

    def renew(self, refused: Identity) -> bool:
        self.renewed += 1
        if len(self.tokens) > 1 and refused == self.identity():
            self.tokens.pop(0)
        return refused != self.identity()


def transport(
    server: ByteServer,
    credentials: Credentials = NOBODY,
    timeout: float = 5.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Transport:
    return Transport(plain_access(server.port, credentials), AGENT, timeout, sleep)


def ok(_request: Request, wire: Wire) -> None:
    wire.json({"fine": True})


def test_a_connection_is_kept() -> None:
    with serving(ok) as server:
        one = transport(server)
        for _ in range(3):
            assert one.fetch_json(GET) == b'{"fine":true}'
        one.close()
        one.fetch_json(GET)
        one.close()
        assert server.connections == 2


def test_a_connection_that_the_server_ends_is_not_kept() -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.json({}, 200, ("Connection", "close"))

    with serving(answer) as server:
        one = transport(server)
        one.fetch_json(POST)
        one.fetch_json(POST)
        assert server.connections == 2


def test_a_connection_that_was_closed_meanwhile_is_seen_before_it_is_used() -> None:
    """So even what must not be sent twice goes through."""
    with serving(ok) as server:
        one = transport(server)
        one.fetch_json(POST)
        server.hang_up()
        for _ in range(200):
            [kept] = one._idle
            if not kept.is_usable():
                break
        one.fetch_json(POST)
        one.close()
        assert server.connections == 2
        assert len(server.requests) == 2


def dies_on_the_second() -> Answer:
    """As a server that closes an idle connection just while it is used."""
    numbers = itertools.count(1)

    def answer(request: Request, wire: Wire) -> None:
        if next(numbers) == 2:
            wire.reset()
        ok(request, wire)

    return answer


@pytest.mark.parametrize(
    ("call", "twice"),
    [(GET, True), (PUT, True), (APPLY, True), (POST, False), (DELETE, False), (MERGE, False)],
    ids=["GET", "PUT", "apply", "POST", "DELETE", "merge"],
)
def test_only_what_does_no_harm_is_asked_twice(call: HttpRequest, twice: bool) -> None:
    with serving(dies_on_the_second()) as server:
        one = transport(server)
        one.fetch_json(GET)
        if twice:
            assert one.fetch_json(call) == b'{"fine":true}'
        else:
            with pytest.raises(ConnectionDroppedError):
                one.fetch_json(call)
        one.close()
        assert len(server.requests) == 2 + twice


def test_a_new_connection_that_breaks_is_not_tried_again() -> None:
    """A server that dies of a question is not asked it again and again."""
    with serving(lambda _, wire: wire.reset()) as server:
        with pytest.raises(UnreachableError):
            transport(server).fetch_json(GET)
        assert len(server.requests) == 1


def checks_token(*good: str) -> Answer:
    def answer(request: Request, wire: Wire) -> None:
        if request.header("authorization") in {f"Bearer {token}" for token in good}:
            wire.json({"fine": True})
        else:
            wire.json(status(401, "Unauthorized", "Unauthorized"), 401)

    return answer


@pytest.mark.parametrize("call", [GET, POST], ids=["GET", "POST"])
def test_an_expired_token_is_fetched_anew(call: HttpRequest) -> None:
    """Also for what must not be sent twice: a 401 was not carried out."""
    credentials = Rotating("old", "new")
    with serving(checks_token("new")) as server:
        one = transport(server, credentials)
        assert one.fetch_json(call) == b'{"fine":true}'
        one.fetch_json(call)
        one.close()
        seen = [request.header("authorization") for request in server.requests]
    assert seen == ["Bearer old", "Bearer new", "Bearer new"]
    assert credentials.renewed == 1


def test_it_is_fetched_anew_once() -> None:
    credentials = Rotating("old", "also old", "never tried")
    with serving(checks_token("never tried")) as server:
        one = transport(server, credentials)
        with pytest.raises(HttpStatusError, match="401 Unauthorized"):
            one.fetch_json(GET)
        one.close()
        assert len(server.requests) == 2


def test_credentials_that_are_what_they_are_are_not_tried_again() -> None:
    with serving(checks_token()) as server:
        one = transport(server)
        with pytest.raises(HttpStatusError, match="401 Unauthorized: Unauthorized"):
            one.fetch_json(GET)
        one.close()
        assert len(server.requests) == 1


def test_a_watch_gets_a_new_token_as_well() -> None:
    with serving(checks_token("new")) as server:
        one = transport(server, Rotating("old", "new"))
        stream = one.open_stream(GET, 5.0)
        with pytest.raises(UnreachableError, match="in the middle of an event"):
            list(stream)
        one.close()
        assert len(server.requests) == 2


def test_without_credentials_nobody_is_asked() -> None:
    class Nothing:
        def identity(self) -> Identity:
            raise CredentialsError("the plugin is not installed")

        def renew(self, refused: Identity) -> bool:
            return refused != Identity()

    with serving(ok) as server:
        with pytest.raises(CredentialsError, match="not installed"):
            transport(server, Nothing()).fetch_json(GET)
        assert server.connections == 0


def busy(times: int, wait: str, code: int = 429) -> Answer:
    left = [times]

    def answer(_request: Request, wire: Wire) -> None:
        left[0] -= 1
        if left[0] < 0:
            wire.json({"fine": True})
        else:
            more = [("Retry-After", wait)] if wait else []
            wire.json(status(code, "TooManyRequests", "later"), code, *more)

    return answer


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_server_is_waited_for(code: int) -> None:
    with serving(busy(2, "1", code)) as server:
        slept: list[float] = []
        one = transport(server, sleep=slept.append)
        assert one.fetch_json(GET) == b'{"fine":true}'
        one.close()
        assert slept == [1.0, 1.0]
        assert server.connections == 1


@pytest.mark.parametrize(
    ("call", "times", "wait", "asked"),
    [
        (GET, 9, "2", 3),  # 2 + 2 s are waited for, 6 s would be more than the timeout of 5 s
        (GET, 1, "3600", 1),
        (GET, 1, "", 1),
        (POST, 1, "1", 1),  # an eviction that a budget forbids: its caller knows what to do
    ],
    ids=["too often", "too long", "not said", "not a GET"],
)
def test_not_every_busy_server_is_waited_for(
    call: HttpRequest, times: int, wait: str, asked: int
) -> None:
    with serving(busy(times, wait)) as server:
        slept: list[float] = []
        one = transport(server, sleep=slept.append)
        with pytest.raises(HttpStatusError) as refused:
            one.fetch_json(call)
        one.close()
        assert len(server.requests) == asked
        assert sum(slept) <= 5.0
    assert refused.value.status == 429
    assert refused.value.retry_after == (float(wait) if wait else None)


LOGIN = b"<!DOCTYPE html>\n<html><title>Sign in</title></html>"
BROKEN: list[tuple[str, Answer, str]] = [
    (
        "a login page",
        lambda _, wire: wire.answer(LOGIN, kind="text/html"),
        "text/html instead of JSON",
    ),
    ("a reset", lambda _, wire: wire.reset(), "reset|closed before an answer"),
    ("no HTTP", lambda _, wire: wire.raw(b"220 mail.example.com ESMTP\r\n\r\n"), "is not HTTP"),
    ("nothing", lambda _, wire: wire.hang(), r"no answer within 0\.3 s"),
]


def half_a_body(_request: Request, wire: Wire) -> None:
    wire.head(200, ("Content-Type", "application/json"), ("Content-Length", "100"))
    wire.raw(b'{"items":')
    raise HangUp


def half_a_chunk(_request: Request, wire: Wire) -> None:
    wire.begin_chunks()
    wire.chunk(b'{"items":')
    wire.raw(b"64\r\n[1,2")
    raise HangUp


def no_last_chunk(_request: Request, wire: Wire) -> None:
    wire.begin_chunks()
    wire.chunk(b'{"items":[]}')
    raise HangUp


def no_chunk_size(_request: Request, wire: Wire) -> None:
    wire.begin_chunks()
    wire.raw(b"zz\r\n{}\r\n")
    raise HangUp


def stalls_in_the_body(_request: Request, wire: Wire) -> None:
    wire.head(200, ("Content-Type", "application/json"), ("Content-Length", "100"))
    wire.raw(b'{"items":')
    wire.hang()


BROKEN += [
    ("half a body", half_a_body, "ended in the middle"),
    ("half a chunk", half_a_chunk, "ended in the middle"),
    ("no last chunk", no_last_chunk, "ended in the middle"),
    ("a chunk of no size", no_chunk_size, "ended in the middle"),
    ("a body that stalls", stalls_in_the_body, r"no answer within 0\.3 s"),
]


@pytest.mark.parametrize(
    ("answer", "sentence"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_what_is_no_answer_becomes_one_sentence(answer: Answer, sentence: str) -> None:
    with serving(answer) as server:
        one = transport(server, timeout=0.3 if "within" in sentence else 300.0)
        with pytest.raises(UnreachableError, match=sentence) as told:
            one.fetch_json(GET)
        one.close()
        assert f"GET /api/v1/pods at http://127.0.0.1:{server.port}: " in str(told.value)
        assert "\n" not in str(told.value)
        assert "limit=1" not in str(told.value)


def test_after_a_broken_answer_the_next_is_whole() -> None:
    numbers = itertools.count()

    def answer(request: Request, wire: Wire) -> None:
        (half_a_chunk, ok)[next(numbers)](request, wire)

    with serving(answer) as server:
        one = transport(server)
        with pytest.raises(UnreachableError):
            one.fetch_json(GET)
        assert one.fetch_json(GET) == b'{"fine":true}'
        one.close()
        assert server.connections == 2


def test_nobody_there() -> None:
    with serving(ok) as server:
        pass
    with pytest.raises(
        UnreachableError, match=f"http://127.0.0.1:{server.port}: Connection refused"
    ):
        transport(server).fetch_json(GET)


def test_an_answer_of_absurd_size_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_LARGEST_ANSWER", 2 << 20)

    def flood(_request: Request, wire: Wire) -> None:
        wire.begin_chunks()
        while not wire.closing.is_set():
            wire.chunk(b"x" * 100_000)

    too_much = pytest.raises(UnreachableError, match="an answer of more than 2 MiB")
    with serving(flood) as server, too_much:
        transport(server).fetch_json(GET)


def test_an_answer_that_trickles_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time; the whole never would."""
    monkeypatch.setattr(transport_module, "_WHOLE_ANSWER_FACTOR", 1)

    def trickle(_request: Request, wire: Wire) -> None:
        wire.begin_chunks()
        while not wire.closing.wait(0.02):
            wire.chunk(b"1")

    too_late = pytest.raises(UnreachableError, match=r"no answer within 0\.3 s")
    with serving(trickle) as server, too_late:
        transport(server, timeout=0.3).fetch_json(GET)
