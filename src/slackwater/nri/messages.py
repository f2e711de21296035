"""NRI's messages, those fields of them that the agent reads and writes (containerd/nri, api.proto).

Whatever else a message has is not looked at; of an update, whose answer takes the place of the
request, it is kept as it came.
"""

import enum
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.nri import protobuf
from slackwater.nri.protobuf import bytes_field, number_field, text_field

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"
_NO_TEXTS: Mapping[str, str] = {}


class NriEvent(enum.IntEnum):
    """What a plugin can subscribe to, those that we use."""

    CREATE_CONTAINER = 4
    UPDATE_CONTAINER = 8


class Configuration(msgspec.Struct, frozen=True):
    """Who the runtime is, and how long it waits for an answer, in milliseconds."""

    runtime: str = ""
    version: str = ""
    request_timeout: int = 0


class Sandbox(msgspec.Struct, frozen=True):
    """A pod as the runtime knows it."""

    id: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = _NO_TEXTS
    annotations: Mapping[str, str] = _NO_TEXTS
    cgroup_parent: str = ""


class CpuRequest(msgspec.Struct, frozen=True):
    """What the kubelet asks for of a container. None is not said, and so is a zero: the runtime
    sends every value that was not set as one."""

    shares: int | None = None
    quota: int | None = None
    period: int | None = None
    cpus: str = ""


class ContainerRequest(msgspec.Struct, frozen=True):
    """A container that is about to be created or updated. `resources` is an update's own message,
    as it came; empty of a creation."""

    sandbox: Sandbox = Sandbox()
    id: str = ""
    name: str = ""
    cpu: CpuRequest = CpuRequest()
    resources: bytes = b""


def encode_registration(name: str, index: str) -> bytes:
    """`index` is two digits: plugins are asked in their order."""
    return text_field(1, name) + text_field(2, index)


def parse_configuration(payload: bytes) -> Configuration:
    return Configuration(
        protobuf.find_text(payload, 2),
        protobuf.find_text(payload, 3),
        protobuf.find_number(payload, 5) or 0,
    )


def encode_subscription(events: Iterable[NriEvent]) -> bytes:
    """The answer to Configure: event n is bit n - 1."""
    return number_field(2, sum(1 << (event - 1) for event in events))


def answer_synchronize(payload: bytes) -> bytes:
    """Nothing is changed. A list in parts has to be acknowledged as one."""
    return number_field(2, 1) if protobuf.find_number(payload, 3) else b""


def parse_creation(payload: bytes) -> ContainerRequest:
    container = protobuf.find_message(payload, 2) or b""
    linux = protobuf.find_message(container, 11) or b""
    return _request(payload, container, protobuf.find_message(linux, 3) or b"")


def parse_update(payload: bytes) -> ContainerRequest:
    resources = protobuf.find_message(payload, 3) or b""
    request = _request(payload, protobuf.find_message(payload, 2) or b"", resources)
    return msgspec.structs.replace(request, resources=resources)


def _request(payload: bytes, container: bytes, resources: bytes) -> ContainerRequest:
    return ContainerRequest(
        _sandbox(protobuf.find_message(payload, 1) or b""),
        protobuf.find_text(container, 1),
        protobuf.find_text(container, 3),
        _cpu(protobuf.find_message(resources, 2) or b""),
    )


def _sandbox(data: bytes) -> Sandbox:
    linux = protobuf.find_message(data, 8) or b""
    return Sandbox(
        id=protobuf.find_text(data, 1),
        name=protobuf.find_text(data, 2),
        uid=protobuf.find_text(data, 3),
        namespace=protobuf.find_text(data, 4),
        labels=protobuf.find_texts(data, 5),
        annotations=protobuf.find_texts(data, 6),
        cgroup_parent=protobuf.find_text(linux, 3),
    )


def _cpu(data: bytes) -> CpuRequest:
    return CpuRequest(
        _optional(data, 1), _optional(data, 2), _optional(data, 3), protobuf.find_text(data, 6)
    )


def _optional(data: bytes, number: int) -> int | None:
    """A message with the number as its field 1."""
    inner = protobuf.find_message(data, number)
    return (protobuf.find_signed(inner, 1) or None) if inner is not None else None


def encode_adjustment(quota: int) -> bytes:
    """The answer to CreateContainer: adjust.linux.resources.cpu.quota, and nothing else. What two
    plugins set is an error, and the container would not start."""
    resources = bytes_field(2, bytes_field(2, number_field(1, quota)))
    return bytes_field(1, bytes_field(6, bytes_field(2, resources)))


def encode_container_update(request: ContainerRequest, quota: int) -> bytes:
    """The answer to UpdateContainer takes the request's place: all of it, with another quota."""
    cpu = protobuf.find_message(request.resources, 2) or b""
    cpu = protobuf.replace_field(cpu, 2, bytes_field(2, number_field(1, quota)))
    resources = protobuf.replace_field(request.resources, 2, bytes_field(2, cpu))
    update = text_field(1, request.id) + bytes_field(2, bytes_field(1, resources))
    return bytes_field(1, update)
