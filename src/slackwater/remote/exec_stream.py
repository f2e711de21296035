"""A command in a container, as `kubectl exec` runs one: its standard streams over a websocket.

Each message begins with the number of its channel (k8s.io/apimachinery/pkg/util/remotecommand).
"""

import re

import msgspec

from slackwater.contract.resources import PODS
from slackwater.kube.client import Client
from slackwater.remote.websocket import WebSocket, handshake_headers

#: Channel 255, which v5 adds to v4, is not used: a stdin is ended by closing the connection. Since
#: Kubernetes 1.30 it is v5 that the API server itself understands; v4 goes on to the kubelet.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ENDING = range(4)
_EXIT_CODE = re.compile(r"[0-9]{1,3}", re.ASCII)
#: Of what a command says on stderr.
_LONGEST_STDERR = 1 << 16


class ContainerPlace(msgspec.Struct, frozen=True):
    """Where a command runs."""

    namespace: str
    pod: str
    container: str


class CommandEnd(msgspec.Struct, frozen=True):
    """How a command ended: its exit code, or, without one, why it did not run."""

    code: int | None
    message: str = ""


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    """metav1.Status, as the error channel carries it."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


class ExecStream:
    """Guards one running command. One thread uses it at a time. Methods raise RequestError."""

    def __init__(self, client: Client, place: ContainerPlace, command: tuple[str, ...]) -> None:
        flags = ("stdin", "stdout", "stderr")
        query = [
            ("container", place.container),
            *((flag, "true") for flag in flags),
            *(("command", word) for word in command),
        ]
        path = PODS.path(place.namespace, place.pod, "exec")
        connection = client.upgrade(path, query, handshake_headers(PROTOCOLS))
        self._socket = WebSocket(connection, PROTOCOLS)
        self._stderr = bytearray()
        #: After `receive` has returned b""; None if the connection ended before the command did.
        self.end: CommandEnd | None = None

    @property
    def stderr(self) -> str:
        """What it has said there, as one line."""
        return " ".join(self._stderr.decode("utf-8", "replace").split())

    def send(self, data: bytes) -> None:
        """To its stdin."""
        self._socket.send(bytes((STDIN,)) + data)

    def receive(self, seconds: float) -> bytes:
        """What it wrote to stdout; b"" once all has ended. Each piece may take so many seconds."""
        while (message := self._socket.receive(seconds)) is not None:
            channel, data = message[:1], message[1:]
            if not data:  # each channel begins with an empty message
                continue
            if channel[0] == STDOUT:
                return data
            if channel[0] == STDERR:
                self._stderr += data[: _LONGEST_STDERR - len(self._stderr)]
            elif channel[0] == ENDING:
                self.end = read_end(data)
        return b""

    def close(self) -> None:
        """A command that still runs finds its stdin at its end."""
        self._socket.close()


def read_end(text: bytes) -> CommandEnd:
    """Of the error channel's message."""
    try:
        said = msgspec.json.decode(text, type=_Status)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return CommandEnd(None, " ".join(text.decode("utf-8", "replace").split())[:1000])
    if said.status == "Success":
        return CommandEnd(0)
    causes = said.details.causes if said.details else ()
    codes = [each.message for each in causes if each.reason == "ExitCode"]
    code = int(codes[0]) if codes and _EXIT_CODE.fullmatch(codes[0]) else None
    return CommandEnd(code, " ".join(said.message.split())[:1000])
