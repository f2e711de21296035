"""Requests as they arrive in pieces, and what is refused about them."""

import itertools

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.runtime.http_exchange import Request, Response, error_response
from slackwater.runtime.http_wire import LARGEST_REQUEST, RequestParser, encode_response


def parse(*pieces: bytes) -> Request | Response | None:
    """As a connection does it: until there is a result, or the client ends."""
    parser = RequestParser()
    for piece in pieces:
        found = parser.feed(piece)
        if found is not None:
            return found
    return parser.end()


@pytest.mark.parametrize(
    ("sent", "request_"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", Request("GET", "/healthz")),
        (b"GET /healthz HTTP/1.0\n\n", Request("GET", "/healthz")),
        (b"\r\n\r\nGET /healthz\r\n\r\n", Request("GET", "/healthz")),
        (b"GET //evil/x HTTP/1.0\r\n\r\n", Request("GET", "/evil/x")),
        (
            b"HEAD /x HTTP/1.1\r\nhOST: a:1\r\nHost: b\r\nAccept:  text/*\r\n\r\n",
            Request("HEAD", "/x", "a:1", "text/*"),
        ),
        (b"POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", Request("POST", "/x")),
        # A client that ends early has sent what it had to send.
        (b"GET /healthz HTTP/1.0", Request("GET", "/healthz")),
        (b"GET /healthz HTTP/1.0\r\nHost: a", Request("GET", "/healthz", "a")),
        (b"POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\na", Request("POST", "/x")),
        (b"", None),
        (b"\r\n", None),
    ],
)
def test_requests(sent: bytes, request_: Request | None) -> None:
    assert parse(sent) == request_
    assert parse(*(sent[n : n + 1] for n in range(len(sent)))) == request_


def test_a_body_is_waited_for() -> None:
    parser = RequestParser()
    assert parser.feed(b"POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nab") is None
    assert parser.feed(b"c") == Request("POST", "/x")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
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
        (b"GET /healthz HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET /" + b"a" * LARGEST_REQUEST, 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * LARGEST_REQUEST, 431),
        (b"\r\n" * LARGEST_REQUEST, 414),
    ],
)
def test_odd_requests_get_a_sentence(sent: bytes, status: int) -> None:
    found = parse(sent)
    assert isinstance(found, Response)
    assert found.status == status
    assert found.body.count(b"\n") == 1
    assert set(msgspec.json.decode(found.body)) == {"error"}
    assert parse(*(sent[n : n + 7] for n in range(0, len(sent), 7))) == found


@given(
    st.lists(
        st.sampled_from([b"GET /x HTTP/1.1", b"POST", b"Content-Length: 4", b"\r\n", b"\n", b"a:b"])
        | st.binary(max_size=20),
        max_size=12,
    ),
    st.data(),
)
@example([b"GET /x HTTP/1.1", b"\n", b"\n", b"rest"], None)
def test_the_pieces_do_not_matter(parts: list[bytes], data: st.DataObject | None) -> None:
    sent = b"".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=4)) if data else [1, 3]
    edges = [0, *sorted(cuts), len(sent)]
    pieces = [sent[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*pieces) == parse(sent)


def test_a_head_has_no_body() -> None:
    response = error_response(404, "no")
    whole = encode_response("GET", response)
    assert whole.endswith(b"\r\n\r\n" + response.body)
    assert encode_response("HEAD", response) == whole.removesuffix(response.body)
