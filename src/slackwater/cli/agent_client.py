"""Reads from a running agent: finds its unix socket, and decodes what it answers there, or through
the API server on another node (cli.agent_source).

Every way in which this fails is one sentence. Bounds the size of the response and the time it
takes.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
import msgspec

from slackwater.agent.agent_socket import FILE, path_problem, socket_path
from slackwater.cli.host_options import STATE, path_option
from slackwater.cli.output import Failed, WrongSettings

if TYPE_CHECKING:
    from slackwater.agent.endpoint_client import AgentAnswer
    from slackwater.record.explanation import Explanation
    from slackwater.record.overview import Overview

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Answer = TypeVar("_Answer")

_OK, _NOT_FOUND = 200, 404
#: Seconds; the agent answers from memory.
PATIENCE = 5.0
_HOW = "start one with `slackwater agent --standalone DIR`, or name another with --agent"


#: Control characters in JSON text, escaped or not: whoever can label a pod as an agent's must not
#: reach the terminal of somebody who asks another node.
_CONTROL = re.compile(rb"\\u00(?:[01][0-9a-fA-F]|7[fF]|[89][0-9a-fA-F])|\x7f|\xc2[\x80-\x9f]")
_INSTEAD = "\ufffd"


class NoAnswer(Failed):
    """No agent there, or a response that cannot be understood. In one line that can be printed,
    whatever an agent said."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(each if each.isprintable() else _INSTEAD for each in message))


class AgentSource(Protocol):
    """A running agent that can be asked. `name` is for sentences."""

    name: str

    def get(self, target: str, patience: float) -> "AgentAnswer":
        """Its answer to a GET, whatever its status. Raises NoAnswer."""
        ...


class SocketAgent:
    """The agent that listens at a unix socket of this machine."""

    def __init__(self, path: str) -> None:
        self.name = path

    def get(self, target: str, patience: float) -> "AgentAnswer":
        return _get(self.name, target, patience)


def socket_options(command: _Command) -> _Command:
    """--agent and --state: the agent on this machine."""
    agent = click.option(
        "--agent",
        metavar="SOCKET",
        default="",
        envvar="SLACKWATER_AGENT",
        show_envvar=True,
        help=f"The agent's unix socket; only root and the agent's own user may use it. Default: "
        f"{FILE} in --state.",
    )
    state = path_option("--state", STATE, "The agent's folder, in which its socket is.")
    return agent(state(command))


def find_agent(said: str, state: str) -> str:
    """The path of its socket: the caller's choice, else the one in the agent's folder."""
    path = said or socket_path(state)
    problem = path_problem(path)
    if problem:
        raise WrongSettings(f"{'--agent' if said else '--state'} is too long: {problem}")
    return path


def ask_explanation(agent: AgentSource, target: str) -> "list[Explanation]":
    from slackwater.record.explanation import Explanation

    query = {"target": target} if target else {}
    return ask(agent, "/v1/explain", query, list[Explanation])


def ask_overview(agent: AgentSource, patience: float = PATIENCE) -> "Overview":
    from slackwater.record.overview import Overview

    return ask(agent, "/v1/top", {}, Overview, patience)


def ask(
    agent: AgentSource,
    route: str,
    query: Mapping[str, str],
    kind: type[_Answer],
    patience: float = PATIENCE,
) -> _Answer:
    """The answer as `kind`; every way to fail is one sentence."""
    body = _CONTROL.sub(_INSTEAD.encode(), fetch(agent, route, query, patience))
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoAnswer(
            f"{agent.name} answers to {route} what this slackwater cannot read: {error}; "
            "is another program, or another version, listening there?"
        ) from None


def fetch(agent: AgentSource, route: str, query: Mapping[str, str], patience: float) -> bytes:
    """The answer's body; every way to fail is one sentence."""
    from urllib.parse import urlencode

    from slackwater.agent.endpoint_client import LARGEST_ANSWER

    target = f"{route}?{urlencode(query)}" if query else route
    answer = agent.get(target, patience)
    if answer.status == _NOT_FOUND:
        raise NoAnswer(_sentence(answer.body))
    if answer.status != _OK:
        said = _sentence(answer.body)
        raise NoAnswer(f"{agent.name} answers {answer.status} to {route}: {said}")
    if len(answer.body) > LARGEST_ANSWER:
        raise NoAnswer(f"{agent.name} answers to {target} with more than {LARGEST_ANSWER} bytes")
    return answer.body


def _get(path: str, target: str, patience: float) -> "AgentAnswer":
    from slackwater.agent.endpoint_client import NoAgentError, ask_agent

    try:
        return ask_agent(path, "GET", target, patience)
    except TimeoutError:
        raise NoAnswer(f"{path} gave no answer in {patience:g} s") from None
    except PermissionError:
        sentence = f"user {os.geteuid()} may not use it; ask as root"
        raise NoAnswer(f"no agent can be asked at {path}: {sentence}") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise NoAnswer(f"no agent answers at {path}: {why}; {_HOW}") from None
    except NoAgentError as error:
        raise NoAnswer(f"what listens at {path} is not an agent: {error}") from None


def _sentence(body: bytes) -> str:
    """What an error's body says, on one line: an object's `error`, or the text itself."""
    try:
        said = msgspec.json.decode(body, type=dict[str, Any]).get("error")
        text = said if isinstance(said, str) else body.decode("utf-8", "replace")
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace")
    return " ".join(text.split())[:1000] or "nothing more"
