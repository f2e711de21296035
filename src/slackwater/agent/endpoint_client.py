"""Asks a running agent over its unix socket."""

import socket

import msgspec

from slackwater.agent.agent_socket import socket_path
from slackwater.agent.shared_state import ReleaseDone
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

#: Longer than the agent waits for its own loop (endpoint_server.RELEASE_PATIENCE).
_PATIENCE = 30.0
_OK = 200
#: More than an agent sends about 1000 pods with their containers.
LARGEST_ANSWER = 64 << 20


class AgentAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes


class NoAgentError(Exception):
    """What listens there is not an agent; str() says why."""


class _Refusal(msgspec.Struct, frozen=True):
    error: str


def ask_release(state: str) -> ReleaseDone | Gap:
    """Everything back, by the agent that holds the ledger in this folder. A failure is a Gap with
    one sentence."""
    path = socket_path(state)
    try:
        answer = ask_agent(path, "POST", "/v1/release", _PATIENCE)
    except (OSError, NoAgentError) as error:
        return Gap(f"it does not answer at {path}: {_reason(error)}; stop it first")
    if answer.status != _OK:
        return Gap(f"it refuses with {answer.status}: {_error_in(answer.body)}")
    try:
        return msgspec.json.decode(answer.body, type=ReleaseDone)
    except msgspec.DecodeError as error:
        return Gap(f"what answers at {path} is not an agent: {error}")


def ask_agent(path: str, method: str, target: str, patience: float) -> AgentAnswer:
    """The answer of the agent at this socket, whatever its status, with up to one byte more than
    LARGEST_ANSWER. Raises OSError and NoAgentError."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("agent", timeout=patience)
    try:
        connection.sock = _connected(path, patience)
        connection.request(method, target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        return AgentAnswer(response.status, response.read(LARGEST_ANSWER + 1))
    except HTTPException as error:
        raise NoAgentError(f"{type(error).__name__}: {error}".rstrip(": ")) from None
    finally:
        connection.close()


def _connected(path: str, patience: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(patience)
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made


def _reason(error: OSError | NoAgentError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "no answer"


def _error_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error
    except msgspec.DecodeError:
        return quoted(body[:200].decode("utf-8", "replace"))
