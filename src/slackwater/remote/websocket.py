"""The binary messages of one websocket (RFC 6455) on a connection that has switched protocols.

The library speaks the protocol and touches no socket: connecting, TLS, proxies, credentials and
the words for what goes wrong are slackwater.http's and slackwater.kube's (docs/adr/0054).
"""

import secrets
from base64 import b64encode
from collections.abc import Iterator

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side
from websockets.utils import accept_key

from slackwater.http.errors import UnreachableError
from slackwater.http.upgraded import UpgradedConnection

#: Of one message: container runtimes send 32 KiB at a time.
_LARGEST_MESSAGE = 4 << 20
#: For what we send to leave this machine.
_SEND_SECONDS = 30.0
_DATA = (Opcode.BINARY, Opcode.TEXT)


def handshake_headers(protocols: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The headers that ask for a websocket; one of them is a key, new each time."""
    return (
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", b64encode(secrets.token_bytes(16)).decode()),
        ("Sec-WebSocket-Protocol", ", ".join(protocols)),
    )


class WebSocket:
    """Guards the connection. One thread uses it at a time. Methods raise UnreachableError."""

    def __init__(self, connection: UpgradedConnection, protocols: tuple[str, ...]) -> None:
        """After an answer of 101, which is checked."""
        self._connection = connection
        self._protocol = Protocol(Side.CLIENT, max_size=_LARGEST_MESSAGE)
        self._begun = bytearray()
        self._whole: list[bytes] = []
        self._ended = False
        self._check(protocols)

    def _check(self, protocols: tuple[str, ...]) -> None:
        """A cache or a proxy could have made up the answer."""
        key = dict(self._connection.request.headers)["Sec-WebSocket-Key"]
        if self._connection.header("Sec-WebSocket-Accept") != accept_key(key):
            raise self._failure("the answer is no websocket's; does a proxy in between break them?")
        chosen = self._connection.header("Sec-WebSocket-Protocol")
        if chosen not in protocols:
            wanted = " or ".join(protocols)
            raise self._failure(f"the server speaks {chosen or 'no protocol'} instead of {wanted}")

    def send(self, message: bytes) -> None:
        self._protocol.send_binary(message)
        self._flush()

    def receive(self, seconds: float) -> bytes | None:
        """The next message; None after the last. Each piece may take so many seconds."""
        while not self._whole and not self._ended:
            data = self._connection.receive(seconds)
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
                self._ended = True
            self._whole += self._messages()
            self._flush()
            if self._protocol.parser_exc is not None and not self._ended:
                raise self._failure(f"what came is no websocket's: {self._protocol.parser_exc}")
        return self._whole.pop(0) if self._whole else None

    def close(self) -> None:
        self._connection.close()

    def _messages(self) -> Iterator[bytes]:
        """Those that are whole; a close frame ends them."""
        for frame in self._protocol.events_received():
            if not isinstance(frame, Frame):
                continue  # the handshake's, which is over
            if frame.opcode is Opcode.CLOSE:
                self._ended = True
            elif frame.opcode in (*_DATA, Opcode.CONT):
                self._begun += frame.data
                if len(self._begun) > _LARGEST_MESSAGE:
                    raise self._failure(f"a message of more than {_LARGEST_MESSAGE >> 20} MiB")
                if frame.fin:
                    yield bytes(self._begun)
                    self._begun.clear()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._connection.send(data, _SEND_SECONDS)

    def _failure(self, what: str) -> UnreachableError:
        self._connection.close()
        return UnreachableError(f"{self._connection.request}: {what}", what)
