"""One conversation with a container runtime: registration, its questions, and our answers.

Knows the order of NRI's calls and no socket: bytes in, bytes out. Whatever goes wrong with one
question, its answer is an empty one, which changes nothing: an error would keep the container from
starting (containerd/nri, pkg/adaptation). What goes wrong with the conversation itself is a
WireError, and its end.
"""

import enum
from collections.abc import Callable, Iterator

from slackwater.nri import frames, messages
from slackwater.nri.frames import PLUGIN, RUNTIME, Call, FrameReader, Message, TtrpcResponse
from slackwater.nri.messages import Configuration, ContainerRequest, NriEvent
from slackwater.nri.protobuf import WireError

#: Where a runtime listens by default, below the host's root.
DEFAULT_SOCKET = "var/run/nri/nri.sock"
_EVENTS = (NriEvent.CREATE_CONTAINER, NriEvent.UPDATE_CONTAINER)
#: A caller's first stream.
_REGISTRATION_STREAM = 1


class SessionPhase(enum.Enum):
    """How far a conversation is."""

    REGISTERING = "registering"
    CONFIGURED = "configured"
    ACTIVE = "active"  # what runs already was listed: from now on containers are asked about
    ENDED = "ended"  # the runtime said so


class RefusedError(Exception):
    """The runtime does not take us; str() is its reason."""


#: The quota for a container in microseconds, -1 for none; None to leave it as it was asked for.
QuotaAnswer = Callable[[ContainerRequest], int | None]


class PluginSession:
    """`on_create` and `on_update` answer questions. They do not raise; what cannot be read of a
    question is told to `on_garbage`."""

    def __init__(
        self, on_create: QuotaAnswer, on_update: QuotaAnswer, on_garbage: Callable[[str], None]
    ) -> None:
        self.phase = SessionPhase.REGISTERING
        self.configuration = Configuration()
        self._on_create = on_create
        self._on_update = on_update
        self._on_garbage = on_garbage
        self._reader = FrameReader()

    def register(self, name: str, index: str) -> bytes:
        """The first bytes to send."""
        payload = messages.encode_registration(name, index)
        call = Call(messages.RUNTIME_SERVICE, "RegisterPlugin", payload)
        encoded = frames.encode_call(call)
        return frames.encode_message(
            Message(RUNTIME, _REGISTRATION_STREAM, frames.REQUEST, encoded)
        )

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The answers to what these bytes complete, in their order. Raises WireError and
        RefusedError."""
        for message in self._reader.feed(data):
            if message.connection == PLUGIN and message.kind == frames.REQUEST:
                payload = frames.encode_answer(TtrpcResponse(self._answer(message.payload)))
                answer = Message(PLUGIN, message.stream, frames.RESPONSE, payload)
                yield frames.encode_message(answer)
            elif message.connection == RUNTIME and message.kind == frames.RESPONSE:
                self._check_registration(message)

    def _check_registration(self, message: Message) -> None:
        answer = frames.parse_answer(message.payload)
        if message.stream == _REGISTRATION_STREAM and answer.code != frames.OK:
            raise RefusedError(answer.reason or f"code {answer.code}")

    def _answer(self, payload: bytes) -> bytes:
        try:
            call = frames.parse_call(payload)
            return self._call(call.method, call.payload)
        except WireError as error:
            self._on_garbage(str(error))
            return b""

    def _call(self, method: str, payload: bytes) -> bytes:
        """What nobody subscribed to is not asked, and would be answered by nothing."""
        match method:
            case "Configure":
                self.configuration = messages.parse_configuration(payload)
                self.phase = SessionPhase.CONFIGURED
                return messages.encode_subscription(_EVENTS)
            case "Synchronize":
                self.phase = SessionPhase.ACTIVE
                return messages.answer_synchronize(payload)
            case "CreateContainer":
                quota = self._on_create(messages.parse_creation(payload))
                return b"" if quota is None else messages.encode_adjustment(quota)
            case "UpdateContainer":
                request = messages.parse_update(payload)
                quota = self._on_update(request)
                return b"" if quota is None else messages.encode_container_update(request, quota)
            case "Shutdown":
                self.phase = SessionPhase.ENDED
        return b""
