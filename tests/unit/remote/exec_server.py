"""An API server with one agent's pod, as far as `--node` sees it: lists, access reviews, and exec
over a real websocket, in which a test's function is the command.

The library speaks the websocket's server side; what a server does wrong is written byte by byte.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, urlsplit

import msgspec
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side
from websockets.utils import accept_key

from slackwater.agent.relay import relay_requests
from slackwater.kube.client import Client
from slackwater.remote.exec_stream import ENDING, PROTOCOLS, STDERR, STDIN, STDOUT
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import ByteServer, HangUp, Request, Wire
from tests.unit.kube.fake_api import status

NODE, NAMESPACE, POD = "node-a", "slackwater-system", "slackwater-agent-x7k2p"
SUCCESS = {"metadata": {}, "status": "Success"}
Object = dict[str, object]


class ExecSession:
    """The server's side of one exec: what the command writes, and its stdin as lines."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._protocol = Protocol(Side.SERVER)
        self._stdin = bytearray()
        self.pongs: list[bytes] = []

    def send(self, channel: int, data: bytes) -> None:
        self._protocol.send_binary(bytes((channel,)) + data)
        self._flush()

    def write(self, data: bytes) -> None:
        self.send(STDOUT, data)

    def complain(self, text: str) -> None:
        self.send(STDERR, text.encode())

    def end(self, ending: object = SUCCESS) -> None:
        self.send(ENDING, msgspec.json.encode(ending))
        self._protocol.send_close(1000)
        self._flush()
        while self.read():  # as a server does: the client closes
            pass

    def fail(self, code: int) -> None:
        cause = {"reason": "ExitCode", "message": str(code)}
        told = f"command terminated with non-zero exit code: exit status {code}"
        self.end({
            "status": "Failure", "message": told, "reason": "NonZeroExitCode",
            "details": {"causes": [cause]},
        })  # fmt: skip

    def ping(self, data: bytes) -> None:
        self._protocol.send_ping(data)
        self._flush()

    def raw(self, data: bytes) -> None:
        self._wire.raw(data)

    def readline(self, limit: int) -> bytes:
        """Of the command's stdin, as a file's."""
        while b"\n" not in self._stdin[:limit] and len(self._stdin) < limit and self.read():
            pass
        line, mark, _ = bytes(self._stdin[:limit]).partition(b"\n")
        del self._stdin[: len(line + mark)]
        return line + mark

    def read(self) -> bool:
        """Whatever the client sends next; False once it has left."""
        try:
            data = self._wire.receive()
        except OSError:
            return False
        if not data:
            return False
        self._protocol.receive_data(data)
        closed = False
        for frame in self._protocol.events_received():
            assert isinstance(frame, Frame)
            closed |= frame.opcode is Opcode.CLOSE
            if frame.opcode is Opcode.PONG:
                self.pongs.append(bytes(frame.data))
            if frame.opcode is Opcode.BINARY:
                assert frame.data[0] == STDIN
                self._stdin += frame.data[1:]
        self._flush()
        return not closed

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._wire.raw(data)


Run = Callable[[ExecSession], None]


def relay_to(socket: str) -> Run:
    """What the real image runs."""

    def run(session: ExecSession) -> None:
        relay_requests(socket, session, session.write)
        session.end()

    return run


class ExecServer:
    """Guards the server, and what it says; tests change the fields before they ask."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.pods: dict[str, list[Object]] = {NAMESPACE: [agent_pod()]}
        self.nodes = [NODE]
        #: "verb resource", and "verb resource namespace" for one namespace.
        self.forbidden: set[str] = set()
        self.protocol = PROTOCOLS[0]
        self.accept: Callable[[str], str] = accept_key
        #: Instead of switching protocols.
        self.instead: Callable[[Wire], None] | None = None
        self.commands: list[list[tuple[str, str]]] = []
        self.sessions: list[ExecSession] = []
        self.ended = threading.Semaphore(0)
        self.server = ByteServer(self._answer)

    def client(self, timeout: float = 30.0) -> Client:
        return plain_client(self.server.port, timeout=timeout)

    def _answer(self, request: Request, wire: Wire) -> None:
        steps = request.path.strip("/").split("/")
        if steps[-1] == "selfsubjectaccessreviews":
            self._review(request, wire)
        elif steps[-1] == "exec":
            self._exec(request, wire, steps[3])
        elif steps[2] == "nodes":
            self._node(wire, steps[-1])
        else:
            self._list(request, wire, steps[3] if steps[2] == "namespaces" else "")

    def _is_forbidden(self, right: str, namespace: str) -> bool:
        return bool({right, f"{right} {namespace or '*'}"} & self.forbidden)

    def _review(self, request: Request, wire: Wire) -> None:
        asked = msgspec.json.decode(request.body)["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        right = f"{asked['verb']} {resource}"
        allowed = not self._is_forbidden(right, asked["namespace"])
        wire.json({"status": {"allowed": allowed}}, 201)

    def _refuse(self, wire: Wire, right: str, namespace: str) -> bool:
        if not self._is_forbidden(right, namespace):
            return False
        verb, resource = right.split(" ")
        where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        told = f'{resource} is forbidden: User "jane" cannot {verb} resource "{resource}" {where}'
        wire.json(status(403, "Forbidden", told), 403)
        return True

    def _list(self, request: Request, wire: Wire, namespace: str) -> None:
        if self._refuse(wire, "list pods", namespace):
            return
        names = [namespace] if namespace else sorted(self.pods)
        node = request.query["fieldSelector"].removeprefix("spec.nodeName=")
        items = [
            each
            for name in names
            for each in self.pods.get(name, [])
            if each["spec"] == {"nodeName": node}
        ]
        wire.json({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items})

    def _node(self, wire: Wire, name: str) -> None:
        if self._refuse(wire, "get nodes", ""):
            return
        if name in self.nodes:
            wire.json({"metadata": {"name": name}})
        else:
            wire.json(status(404, "NotFound", f'nodes "{name}" not found'), 404)

    def _exec(self, request: Request, wire: Wire, namespace: str) -> None:
        for verb in ("get", "create"):
            if self._refuse(wire, f"{verb} pods/exec", namespace):
                return
        if self.instead is not None:
            self.instead(wire)
            return
        self.commands.append(parse_qsl(urlsplit(request.target).query))
        key = request.header("Sec-WebSocket-Key")
        wire.head(
            101,
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", self.accept(key)),
            *((("Sec-WebSocket-Protocol", self.protocol),) if self.protocol else ()),
        )
        session = ExecSession(wire)
        self.sessions.append(session)
        try:
            self.run(session)
        finally:
            self.ended.release()
        raise HangUp


def agent_pod(
    name: str = POD,
    namespace: str = NAMESPACE,
    node: str = NODE,
    *,
    ready: bool = True,
    state: Object | None = None,
    phase: str = "Running",
    deleted: str = "",
) -> Object:
    """As the API server shows one; `state`: its container's; {} where there is no container yet."""
    metadata: Object = {"name": name, "namespace": namespace}
    if deleted:
        metadata["deletionTimestamp"] = deleted
    shown = {"running": {"startedAt": "2026-11-19T12:00:00Z"}} if state is None else state
    container = {"name": "agent", "ready": ready, "state": shown}
    statuses = [{"name": "mesh", "ready": True, "state": {"running": {}}}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "containerStatuses": [*statuses, container] if shown else statuses,
        },
    }


@contextlib.contextmanager
def exec_server(run: Run) -> Iterator[ExecServer]:
    made = ExecServer(run)
    try:
        yield made
    finally:
        made.server.close()
