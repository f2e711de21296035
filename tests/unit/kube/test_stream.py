"""A stream cut into events, however the bytes come."""

import threading
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.contract.resources import PODS, ObjectSelector
from slackwater.http.errors import UnreachableError
from slackwater.kube import stream as stream_module
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.stream import WatchEvent
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import Answer, Request, Wire, eventually, serving


def line(kind: str, number: int) -> bytes:
    return msgspec.json.encode({"type": kind, "object": {"n": number}}) + b"\n"


def in_chunks(*chunks: bytes) -> Answer:
    def answer(_request: Request, wire: Wire) -> None:
        wire.begin_chunks()
        for chunk in chunks:
            wire.chunk(chunk)
        wire.end_chunks()

    return answer


def events(answer: Answer, silence: float = 5.0) -> list[tuple[str, object]]:
    with serving(answer) as server:
        client = plain_client(server.port)
        try:
            found = list(client.watch(PODS, "7", silence=silence))
        finally:
            client.close()
    return [(one.type, msgspec.json.decode(one.object)) for one in found]


def test_what_is_asked() -> None:
    with serving(in_chunks()) as server:
        client = plain_client(server.port)
        selector = ObjectSelector(fields="spec.nodeName=n1")
        assert list(client.watch(PODS, "7", namespace="shop", selector=selector)) == []
        client.close()
        (request,) = server.requests
    assert request.path == "/api/v1/namespaces/shop/pods"
    assert request.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
        "fieldSelector": "spec.nodeName=n1",
    }


@settings(max_examples=60)
@given(
    count=st.integers(0, 6),
    cuts=st.lists(st.integers(1, 250), max_size=12),
    blank=st.booleans(),
)
def test_events_are_whole_however_they_are_cut(count: int, cuts: list[int], blank: bool) -> None:
    """Several in a chunk, one in several chunks, an empty line between them."""
    whole = b"".join(line("ADDED", n) + (b"\n" if blank else b"") for n in range(count))
    chunks, rest = [], whole
    for cut in cuts:
        chunks.append(rest[:cut])
        rest = rest[cut:]
    chunks = [chunk for chunk in [*chunks, rest] if chunk]
    assert events(in_chunks(*chunks)) == [("ADDED", {"n": n}) for n in range(count)]


def test_an_event_may_be_large() -> None:
    big = msgspec.json.encode({"type": "ADDED", "object": {"n": "x" * 1_000_000}}) + b"\n"
    ((kind, value),) = events(in_chunks(big[:70_000], big[70_000:], b""[:0] or b"\n"))
    assert kind == "ADDED"
    assert isinstance(value, dict)
    assert len(value["n"]) == 1_000_000


def test_a_watch_without_chunks_ends_with_its_connection() -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.answer(line("ADDED", 1) + line("DELETED", 2))

    assert [kind for kind, _ in events(answer)] == ["ADDED", "DELETED"]


BROKEN: dict[str, tuple[Answer, str]] = {
    "an unfinished event": (in_chunks(line("ADDED", 1)[:-5]), "ended in the middle of an event"),
    "no JSON": (in_chunks(b"<html>\n"), "an event that is none"),
    "no event": (in_chunks(b'{"kind":"Status"}\n'), "an event that is none"),
    "no text": (in_chunks(b'{"type":"\xff","object":1}\n'), "an event that is none"),
    "nested": (in_chunks(b"[" * 50_000 + b"\n"), "an event that is none"),
}


@pytest.mark.parametrize(("answer", "sentence"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_event_ends_the_watch(answer: Answer, sentence: str) -> None:
    with pytest.raises(UnreachableError, match=f"GET /api/v1/pods: .*{sentence}") as told:
        events(answer)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400


def test_an_error_event_without_a_readable_status_is_a_refusal() -> None:
    with pytest.raises(HttpStatusError):
        events(in_chunks(b'{"type":"ERROR","object":{"reason":"\xff"}}\n'))


def test_an_error_event_is_a_refusal() -> None:
    gone = msgspec.json.encode({"type": "ERROR", "object": {"code": 410, "reason": "Gone"}})
    with pytest.raises(HttpStatusError) as refused:
        events(in_chunks(gone + b"\n"))
    assert (refused.value.status, refused.value.reason) == (410, "Expired")


def test_events_before_an_accident_count() -> None:
    found: list[WatchEvent] = []
    with serving(in_chunks(line("ADDED", 1), b"nonsense\n")) as server:
        client = plain_client(server.port)
        stream = client.watch(PODS, "7")
        with pytest.raises(UnreachableError):
            found.extend(stream)
        client.close()
    assert len(found) == 1


def test_an_absurd_event_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "LARGEST_OBJECT", 1 << 20)

    def flood(_request: Request, wire: Wire) -> None:
        wire.begin_chunks()
        while not wire.closing.is_set():
            wire.chunk(b"x" * 50_000)

    with pytest.raises(UnreachableError, match="an event of more than 1 MiB"):
        events(flood)


def hangs(*chunks: bytes) -> Answer:
    def answer(_request: Request, wire: Wire) -> None:
        wire.begin_chunks()
        for chunk in chunks:
            wire.chunk(chunk)
        wire.hang()

    return answer


@pytest.mark.parametrize("before", [(), (line("ADDED", 1),), (line("ADDED", 1)[:9],)])
def test_silence_ends_a_watch(before: tuple[bytes, ...]) -> None:
    with pytest.raises(UnreachableError, match=r"nothing heard for 0\.2 s"):
        events(hangs(*before), silence=0.2)


def test_any_thread_can_end_it() -> None:
    """And that is an end, not an error."""
    done: list[object] = []
    with serving(hangs(line("ADDED", 1))) as server:
        client = plain_client(server.port)
        stream = client.watch(PODS, "7", silence=60.0)

        def listen() -> None:
            done.extend(one.type for one in stream)
            done.append("ended")

        thread = threading.Thread(target=listen)
        thread.start()
        eventually("the first event", lambda: done == ["ADDED"])
        stream.close()
        thread.join()
        client.close()
    assert done == ["ADDED", "ended"]


def test_one_that_is_closed_before_it_is_heard_ends_too() -> None:
    with serving(hangs()) as server:
        client = plain_client(server.port)
        stream = client.watch(PODS, "7", silence=60.0)
        stream.close()
        assert list(stream) == []
        client.close()


@pytest.mark.parametrize(
    ("answer", "connections"),
    [(in_chunks(line("ADDED", 1)), 1), (in_chunks(b"nonsense\n"), 2)],
    ids=["ended by the server", "given up by us"],
)
def test_a_connection_is_used_again_only_after_a_whole_watch(
    answer: Answer, connections: int
) -> None:
    with serving(answer) as server:
        client = plain_client(server.port)
        for _ in range(2):
            _tried(lambda: list(client.watch(PODS, "7")))
        client.close()
        assert len(server.requests) == 2
        assert server.connections == connections


def _tried(do: Callable[[], object]) -> None:
    try:
        do()
    except UnreachableError as error:
        assert "an event that is none" in str(error)


def test_a_request_during_a_watch_has_its_own_connection() -> None:
    def answer(request: Request, wire: Wire) -> None:
        if request.query.get("watch"):
            in_chunks(line("ADDED", 1), line("ADDED", 2))(request, wire)
        else:
            wire.json({})

    with serving(answer) as server:
        client = plain_client(server.port)
        found = []
        for event in client.watch(PODS, "7"):
            client.get(PODS, "x", "shop")
            found.append(event.type)
        client.close()
        assert found == ["ADDED", "ADDED"]
        assert server.connections == 2
