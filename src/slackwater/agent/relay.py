"""Passes requests for an agent from one stream to its unix socket, and its answers to another.

`slackwater --node` runs this beside the agent and speaks to it over a websocket: a request is a
line with a path, an answer a line of JSON that says its status and length, and the body. Only GET:
what changes something cannot be asked for.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from slackwater.agent.endpoint_client import AgentAnswer, NoAgentError, ask_agent

#: More than any route and a target.
LONGEST_REQUEST = 1 << 12
#: Seconds. Whoever asks has a shorter patience of his own.
_PATIENCE = 60.0
_BAD_REQUEST, _BAD_GATEWAY = 400, 502


class AnswerHead(msgspec.Struct, frozen=True):
    """The line before a body of `length` bytes."""

    status: int
    length: int


class RelayedRequests(Protocol):
    """A stream of lines, such as stdin."""

    def readline(self, limit: int, /) -> bytes: ...


def relay_requests(
    socket: str, requests: RelayedRequests, write: Callable[[bytes], object]
) -> None:
    """Until the requests end. Each answer is one `write`. Its errors pass through."""
    while line := requests.readline(LONGEST_REQUEST):
        answer = _answer(socket, line)
        head = msgspec.json.encode(AnswerHead(answer.status, len(answer.body)))
        write(head + b"\n" + answer.body)


def _answer(socket: str, line: bytes) -> AgentAnswer:
    target = line.strip().decode("ascii", "replace")
    if not (line.endswith(b"\n") and target.startswith("/") and target.isprintable()):
        return _problem(_BAD_REQUEST, "a request must be one line with a path, such as /v1/top")
    if " " in target or not target.isascii():
        return _problem(_BAD_REQUEST, "a path must be percent-encoded")
    try:
        return ask_agent(socket, "GET", target, _PATIENCE)
    except NoAgentError as error:
        return _problem(_BAD_GATEWAY, f"what listens at {socket} is not an agent: {error}")
    except TimeoutError:
        return _problem(_BAD_GATEWAY, f"{socket} gave no answer in {_PATIENCE:g} s")
    except OSError as error:
        why = error.strerror or str(error)
        return _problem(_BAD_GATEWAY, f"no agent answers at {socket}: {why}")


def _problem(status: int, sentence: str) -> AgentAnswer:
    return AgentAnswer(status, msgspec.json.encode({"error": sentence}))
