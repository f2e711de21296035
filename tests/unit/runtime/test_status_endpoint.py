"""/healthz, /readyz and /metrics: bound at once, served when the program is ready for it."""

import socket

import pytest

from slackwater.record.journal import JournalEntry
from slackwater.runtime.health import Health
from slackwater.runtime.http_exchange import CannotListenError, ListenAddress, Request, Response
from slackwater.runtime.status_endpoint import bound_endpoint, respond
from tests.unit.runtime.http_asking import ask_all


def answer(request: Request) -> Response:
    return respond(
        request,
        lambda: Health(ok=True),
        lambda: Health(ok=False, because="not listed yet"),
        lambda accept: ("text/plain", f"for {accept}".encode()),
    )


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, b'{"ok":true}\n'),
        ("/healthz?verbose", 200, b'{"ok":true}\n'),
        ("/readyz", 503, b'{"ok":false,"because":"not listed yet"}\n'),
        ("/metrics", 200, b"for text/*"),
    ],
)
def test_routes(path: str, status: int, body: bytes) -> None:
    response = answer(Request("GET", path, accept="text/*"))
    assert (response.status, response.body) == (status, body)


def test_it_serves_once_it_is_told_to() -> None:
    written: list[JournalEntry] = []
    with bound_endpoint(ListenAddress("127.0.0.1", 0), answer, written.append) as serve:
        assert written == []
        serve()
        [entry] = written
        assert entry.what == "endpoint"
        port = int(entry.because.rpartition(":")[2])
        assert ask_all(ListenAddress("127.0.0.1", port), "GET", "/healthz")[0] == 200
    with socket.socket() as after:
        assert after.connect_ex(("127.0.0.1", port)) != 0


def test_without_an_address_there_is_none() -> None:
    with bound_endpoint(None, answer, lambda _: pytest.fail("nothing to write")) as serve:
        serve()


def test_an_address_that_is_taken_fails_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress(*taken.getsockname())
        with (
            pytest.raises(CannotListenError, match="Address already in use"),
            bound_endpoint(address, answer, lambda _: None),
        ):
            pytest.fail("it is bound")
