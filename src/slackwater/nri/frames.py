"""What goes over an NRI socket: calls and answers (ttrpc), in frames that say whose they are.

One socket carries two connections (containerd/nri, pkg/net/multiplex): on the first one the runtime
calls the plugin, on the second one the plugin calls the runtime. A frame is

    u32 connection, u32 length, payload        (big-endian)

and the payloads of one connection, put together, are ttrpc's messages (containerd/ttrpc,
channel.go):

    u32 length, u32 stream, u8 type, u8 flags, payload

A caller's streams are odd; the answer has the stream of its call. Bytes in, bytes out: no socket.
"""

import struct
from collections.abc import Iterator

import msgspec

from slackwater.nri import protobuf
from slackwater.nri.protobuf import WireError

#: The connections: the plugin's service, and the runtime's.
PLUGIN, RUNTIME = 1, 2
#: Types of messages; 3 is a part of a stream, of which NRI has none.
REQUEST, RESPONSE = 1, 2
_FRAME = struct.Struct(">II")
_MESSAGE = struct.Struct(">IIBB")
#: ttrpc's own limit (messageLengthMax), and so the most that is ever kept of a connection.
LONGEST_MESSAGE = 4 << 20
_LONGEST_FRAME = LONGEST_MESSAGE + _MESSAGE.size
#: The runtime reads a connection through a buffer of this size (bufio's default) and closes it at a
#: frame that does not fit in.
LONGEST_SENT_FRAME = 4096
#: google.rpc.Code
OK, UNIMPLEMENTED = 0, 12


class Message(msgspec.Struct, frozen=True):
    """A call or an answer, and on which connection and stream."""

    connection: int
    stream: int
    kind: int
    payload: bytes


class Call(msgspec.Struct, frozen=True):
    """ttrpc's Request: which method of which service, with what."""

    service: str
    method: str
    payload: bytes


class TtrpcResponse(msgspec.Struct, frozen=True):
    """ttrpc's Response; a code other than 0 is an error, and `reason` says which."""

    payload: bytes = b""
    code: int = OK
    reason: str = ""


def encode_message(message: Message) -> bytes:
    """In frames that the runtime can read."""
    header = _MESSAGE.pack(len(message.payload), message.stream, message.kind, 0)
    data = header + message.payload
    parts = (
        data[start : start + LONGEST_SENT_FRAME]
        for start in range(0, len(data), LONGEST_SENT_FRAME)
    )
    return b"".join(_FRAME.pack(message.connection, len(part)) + part for part in parts)


class FrameReader:
    """Turns bytes as they come into messages. Keeps at most one message of each connection that is
    not complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._parts: dict[int, bytearray] = {}

    def feed(self, data: bytes) -> Iterator[Message]:
        """Those that are complete with these bytes. Raises WireError at what no runtime sends."""
        self._bytes += data
        while len(self._bytes) >= _FRAME.size:
            connection, length = _FRAME.unpack_from(self._bytes)
            if connection not in (PLUGIN, RUNTIME):
                raise WireError(f"a frame is for connection {connection}, which does not exist")
            if length > _LONGEST_FRAME:
                raise WireError(f"a frame of {length} bytes is longer than {_LONGEST_FRAME}")
            end = _FRAME.size + length
            if len(self._bytes) < end:
                return
            part = self._parts.setdefault(connection, bytearray())
            part += self._bytes[_FRAME.size : end]
            del self._bytes[:end]
            yield from self._messages(connection, part)

    def _messages(self, connection: int, part: bytearray) -> Iterator[Message]:
        while len(part) >= _MESSAGE.size:
            length, stream, kind, _ = _MESSAGE.unpack_from(part)
            if length > LONGEST_MESSAGE:
                raise WireError(f"a message of {length} bytes is longer than {LONGEST_MESSAGE}")
            end = _MESSAGE.size + length
            if len(part) < end:
                return
            payload = bytes(part[_MESSAGE.size : end])
            del part[:end]
            yield Message(connection, stream, kind, payload)


def parse_call(payload: bytes) -> Call:
    return Call(
        protobuf.find_text(payload, 1),
        protobuf.find_text(payload, 2),
        protobuf.find_bytes(payload, 3) or b"",
    )


def encode_call(call: Call) -> bytes:
    return (
        protobuf.text_field(1, call.service)
        + protobuf.text_field(2, call.method)
        + protobuf.bytes_field(3, call.payload)
    )


def parse_answer(payload: bytes) -> TtrpcResponse:
    status = protobuf.find_message(payload, 1) or b""
    return TtrpcResponse(
        protobuf.find_bytes(payload, 2) or b"",
        protobuf.find_number(status, 1) or OK,
        protobuf.find_text(status, 2),
    )


def encode_answer(answer: TtrpcResponse) -> bytes:
    status = b""
    if answer.code != OK:
        about = protobuf.number_field(1, answer.code) + protobuf.text_field(2, answer.reason)
        status = protobuf.bytes_field(1, about)
    return status + protobuf.bytes_field(2, answer.payload)
