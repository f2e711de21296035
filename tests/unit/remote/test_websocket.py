"""One websocket, frame by frame: what is whole, what is in pieces, and what is none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from websockets.frames import Opcode
from websockets.utils import accept_key

from slackwater.http.errors import UnreachableError
from slackwater.remote.websocket import WebSocket, handshake_headers
from tests.unit.remote.exec_server import ExecServer, ExecSession, Run, exec_server

WANTED = ("v5.channel.k8s.io", "v4.channel.k8s.io")
#: RFC 6455, section 5.2: the first byte of a frame, with and without "this is the last one".
FIN = 0x80
PATIENCE = 30.0


def frame(opcode: int, data: bytes, first: int = FIN) -> bytes:
    """As a server sends it: without a mask. Written by hand, so that not only the library agrees
    with itself."""
    size = bytes((len(data),)) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    return bytes((first | opcode,)) + size + data


@contextmanager
def opened(run: Run, change: Callable[[ExecServer], None] = lambda _: None) -> Iterator[WebSocket]:
    with exec_server(run) as server:
        change(server)
        made = server.client().upgrade(
            "/api/v1/namespaces/n/pods/p/exec", [("command", "x")], handshake_headers(WANTED)
        )
        socket = WebSocket(made, WANTED)
        try:
            yield socket
        finally:
            socket.close()


def received(socket: WebSocket) -> list[bytes]:
    found = []
    while (message := socket.receive(PATIENCE)) is not None:
        found.append(message)
    return found


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ([frame(Opcode.BINARY, b"one"), frame(Opcode.BINARY, b"two")], [b"one", b"two"]),
        ([frame(Opcode.TEXT, b"text")], [b"text"]),
        ([frame(Opcode.BINARY, b"")], [b""]),
        ([frame(Opcode.BINARY, b"x" * 3000)], [b"x" * 3000]),
        (
            [
                frame(Opcode.BINARY, b"in ", 0),
                frame(Opcode.PING, b"between"),
                frame(Opcode.CONT, b"three ", 0),
                frame(Opcode.CONT, b"pieces"),
            ],
            [b"in three pieces"],
        ),
        ([frame(Opcode.CLOSE, b"\x03\xe8"), frame(Opcode.BINARY, b"late")], []),
        ([], []),
        ([frame(Opcode.BINARY, b"never whole", 0)], []),
    ],
)
@pytest.mark.parametrize("way", ["together", "byte by byte"])
def test_messages_are_whole(sent: list[bytes], seen: list[bytes], way: str) -> None:
    def run(session: ExecSession) -> None:
        whole = b"".join(sent)
        for piece in [whole] if way == "together" else [bytes((byte,)) for byte in whole]:
            session.raw(piece)
        if any(piece[0] == FIN | Opcode.PING for piece in sent):
            session.read()  # the answer: who left without it would reset the connection

    with opened(run) as socket:
        assert received(socket) == seen


def test_a_ping_is_answered() -> None:
    pongs: list[bytes] = []

    def run(session: ExecSession) -> None:
        session.ping(b"are you there")
        session.read()
        pongs.extend(session.pongs)
        session.raw(frame(Opcode.BINARY, b"yes"))

    with opened(run) as socket:
        assert received(socket) == [b"yes"]
    assert pongs == [b"are you there"]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (frame(Opcode.CONT, b"of nothing"), "unexpected continuation frame"),
        (b"HTTP/1.1 400 Bad Request\r\n" * 9, "reserved bits must be 0"),
        (b"\x82\x7f" + (8 << 20).to_bytes(8, "big"), "exceeds limit of 4194304 bytes"),
        (b"\x82\x83abcdxyz", "incorrect masking"),
        (frame(Opcode.BINARY, b"x", 0) + frame(Opcode.BINARY, b"x"), "expected a continuation"),
    ],
)
def test_what_is_no_websockets_is_one_sentence(sent: bytes, why: str) -> None:
    def run(session: ExecSession) -> None:
        session.raw(sent)
        session.read()  # it stays open: our side has to notice

    with opened(run) as socket, pytest.raises(UnreachableError, match=why) as caught:
        received(socket)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("GET /api/v1/namespaces/n/pods/p/exec: what came is no")


def test_many_pieces_of_one_message_are_bounded() -> None:
    piece = frame(Opcode.CONT, b"x" * 65_000, 0)

    def run(session: ExecSession) -> None:
        session.raw(frame(Opcode.BINARY, b"x", 0) + piece * 70)

    with opened(run) as socket, pytest.raises(UnreachableError, match=r"exceeds|more than 4 MiB"):
        received(socket)


def test_silence_is_bounded() -> None:
    def run(session: ExecSession) -> None:
        session.read()

    with opened(run) as socket, pytest.raises(UnreachableError, match=r"nothing came within 0\.05"):
        socket.receive(0.05)


def test_a_peer_that_resets_is_one_sentence() -> None:
    def run(session: ExecSession) -> None:
        session.read()
        session._wire.reset()

    with opened(run) as socket:
        socket.send(b"\0x")
        with pytest.raises(UnreachableError, match="Connection reset by peer"):
            socket.receive(PATIENCE)
        with pytest.raises(UnreachableError):
            socket.send(b"more")


@pytest.mark.parametrize("protocol", WANTED)
def test_both_protocols_are_asked_for_and_either_will_do(protocol: str) -> None:
    def change(server: ExecServer) -> None:
        server.protocol = protocol

    def run(session: ExecSession) -> None:
        session.raw(frame(Opcode.BINARY, b"x"))

    with opened(run, change) as socket:
        assert received(socket) == [b"x"]
    assert dict(handshake_headers(WANTED))["Sec-WebSocket-Protocol"] == ", ".join(WANTED)


def test_each_key_is_new() -> None:
    keys = {dict(handshake_headers(WANTED))["Sec-WebSocket-Key"] for _ in range(3)}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("protocol", "channel.k8s.io", "the server speaks channel.k8s.io instead of v5.channel"),
        ("protocol", "", "the server speaks no protocol instead of v5.channel"),
        ("accept", lambda _: accept_key("another"), "the answer is no websocket's; does a proxy"),
    ],
)
def test_a_wrong_handshake_is_one_sentence(field: str, value: object, why: str) -> None:
    def change(server: ExecServer) -> None:
        setattr(server, field, value)

    with pytest.raises(UnreachableError, match=why), opened(lambda s: s.raw(b""), change):
        pass
