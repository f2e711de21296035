"""The runtime's half of a conversation, for tests: encodes what containerd sends."""

import socket
from collections.abc import Iterable
from pathlib import Path

from slackwater.nri import frames, messages, protobuf
from slackwater.nri.frames import PLUGIN, RUNTIME, Call, FrameReader, Message, TtrpcResponse
from slackwater.nri.messages import ContainerRequest, CpuRequest, Sandbox
from slackwater.nri.protobuf import bytes_field, number_field, text_field


def encode_sandbox(sandbox: Sandbox) -> bytes:
    linux = text_field(3, sandbox.cgroup_parent)
    return (
        text_field(1, sandbox.id)
        + text_field(2, sandbox.name)
        + text_field(3, sandbox.uid)
        + text_field(4, sandbox.namespace)
        + protobuf.texts_field(5, sandbox.labels)
        + protobuf.texts_field(6, sandbox.annotations)
        + bytes_field(8, linux)
        + text_field(10, "10.0.0.1")
    )


def encode_cpu(cpu: CpuRequest) -> bytes:
    """Unset values as present zeros, as containerd does it."""
    numbers = ((1, cpu.shares), (2, cpu.quota), (3, cpu.period))
    optional = (bytes_field(n, number_field(1, value or 0)) for n, value in numbers)
    return b"".join(optional) + text_field(6, cpu.cpus)


def encode_resources(cpu: CpuRequest) -> bytes:
    memory = bytes_field(1, bytes_field(1, number_field(1, 1 << 28)))
    return memory + bytes_field(2, encode_cpu(cpu)) + text_field(9, "unknown to us")


def encode_container(request: ContainerRequest) -> bytes:
    linux = bytes_field(3, encode_resources(request.cpu))
    return text_field(1, request.id) + text_field(3, request.name) + bytes_field(11, linux)


def encode_creation(request: ContainerRequest) -> bytes:
    return bytes_field(1, encode_sandbox(request.sandbox)) + bytes_field(
        2, encode_container(request)
    )


def encode_update(request: ContainerRequest) -> bytes:
    """The container as it was created, and what is asked for now."""
    before = messages.ContainerRequest(id=request.id, name=request.name)
    return (
        bytes_field(1, encode_sandbox(request.sandbox))
        + bytes_field(2, encode_container(before))
        + bytes_field(3, request.resources)
    )


def encode_configuration(runtime: str, version: str, timeout: int) -> bytes:
    return text_field(2, runtime) + text_field(3, version) + number_field(5, timeout)


def encode_call(method: str, payload: bytes, stream: int = 1) -> bytes:
    call = frames.encode_call(Call(messages.PLUGIN_SERVICE, method, payload))
    return frames.encode_message(Message(PLUGIN, stream, frames.REQUEST, call))


def encode_registered(code: int = frames.OK, reason: str = "") -> bytes:
    payload = frames.encode_answer(TtrpcResponse(b"", code, reason))
    return frames.encode_message(Message(RUNTIME, 1, frames.RESPONSE, payload))


def answers_in(data: Iterable[bytes]) -> list[TtrpcResponse]:
    reader = FrameReader()
    return [frames.parse_answer(m.payload) for each in data for m in reader.feed(each)]


def find_path(data: bytes, *numbers: int) -> bytes | None:
    """Down through inner messages."""
    found: bytes | None = data
    for number in numbers:
        found = protobuf.find_message(found, number) if found is not None else None
    return found


def adjusted_quota(answer: TtrpcResponse) -> int | None:
    """Of an answer to CreateContainer."""
    inner = find_path(answer.payload, 1, 6, 2, 2, 2)
    return None if inner is None else protobuf.find_signed(inner, 1)


class FakeRuntime:
    """A runtime's side of the socket. Every wait is for bytes or for a connection."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "nri.sock")
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(self.path)
        self._listening.listen()
        self.connected: socket.socket | None = None
        self._reader = frames.FrameReader()
        self._heard: list[frames.Message] = []

    def accept(self) -> frames.Call:
        """The registration."""
        self.hang_up()
        self.connected, _ = self._listening.accept()
        self._reader, self._heard = frames.FrameReader(), []
        return frames.parse_call(self.hear().payload)

    def register(self) -> frames.Call:
        """As containerd does it: Configure comes before the answer."""
        registration = self.accept()
        self.call("Configure", encode_configuration("containerd", "2.2.9", 2000))
        self.send(encode_registered())
        self.call("Synchronize")
        return registration

    def hear(self) -> frames.Message:
        assert self.connected is not None
        while not self._heard:
            data = self.connected.recv(65_536)
            assert data, "the plugin hung up"
            self._heard += self._reader.feed(data)
        return self._heard.pop(0)

    def send(self, data: bytes) -> None:
        assert self.connected is not None
        self.connected.sendall(data)

    def call(self, method: str, payload: bytes = b"") -> frames.TtrpcResponse:
        self.send(encode_call(method, payload))
        return frames.parse_answer(self.hear().payload)

    def hang_up(self) -> None:
        if self.connected is not None:
            self.connected.close()
            self.connected = None

    def close(self) -> None:
        self.hang_up()
        self._listening.close()
