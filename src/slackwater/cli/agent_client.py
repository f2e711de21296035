"""Reads from a running agent over HTTP: finds its address, and decodes its response.

Every way in which this fails is one sentence. Follows no redirect, and bounds the size of the
response and the time it takes.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from slackwater.agent.endpoint_file import ENDPOINT
from slackwater.cli.host_options import LISTEN, STATE, path_option
from slackwater.cli.output import Failed, WrongSettings

if TYPE_CHECKING:
    from slackwater.record.explanation import Explanation
    from slackwater.record.overview import Overview

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Answer = TypeVar("_Answer")

#: Where to reach an agent that listens on all addresses.
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
#: More than an agent sends about 1000 pods with their containers.
_LONGEST = 64 * 1024 * 1024
_LONGEST_ADDRESS = 300
_OK, _NOT_FOUND = 200, 404
#: Seconds; the agent answers from memory.
PATIENCE = 5.0
_HOW = "start one with `slackwater agent --standalone DIR`, or name another with --agent"


class AgentAddress(msgspec.Struct, frozen=True):
    """`source` says where it comes from, for messages."""

    host: str
    port: int
    source: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NoAnswer(Failed):
    """No agent there, or a response that cannot be understood."""


def agent_options(command: _Command) -> _Command:
    """--agent and --state, the same for every command that asks a running agent."""
    agent = click.option(
        "--agent",
        metavar="ADDRESS",
        default="",
        envvar="SLACKWATER_AGENT",
        show_envvar=True,
        help=f"Where the agent listens, as host:port. Default: what the file {ENDPOINT} in "
        f"--state says, else {LISTEN}.",
    )
    state = path_option("--state", STATE, "The agent's folder, which says where it listens.")
    return agent(state(command))


def find_agent(said: str, state: str) -> AgentAddress:
    """The caller's choice, else the address in the agent's folder, else the default."""
    if said:
        found = parse_address(said, "--agent")
        if found is None:
            raise WrongSettings(f"--agent is {said!r}; it must be host:port, port 1 to 65535")
        return found
    file = f"{state}/{ENDPOINT}"
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_LONGEST_ADDRESS).strip()
    except OSError as error:
        # Only root may read the agent's folder; anyone may ask where it usually listens.
        host, _, port = LISTEN.rpartition(":")
        return AgentAddress(host, int(port), f"the default; {file}: {error.strerror}")
    found = parse_address(text, file)
    if found is None:
        raise NoAnswer(f"{file} says {text!r}, which is not host:port; {_HOW}")
    return found


def parse_address(text: str, source: str) -> AgentAddress | None:
    """host:port, [v6]:port, or either as a URL; None where it is none of these."""
    bare = text.removeprefix("http://").removesuffix("/")
    host, colon, port = bare.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5:
        return None
    if not 1 <= int(port) <= 65_535 or not host.isascii() or any(c in host for c in "/@ \t\n?#"):
        return None
    return AgentAddress(_EVERYWHERE.get(host, host), int(port), source)


def ask_explanation(address: AgentAddress, target: str) -> "list[Explanation]":
    from slackwater.record.explanation import Explanation

    query = {"target": target} if target else {}
    return ask(address, "/v1/explain", query, list[Explanation])


def ask_overview(address: AgentAddress, patience: float = PATIENCE) -> "Overview":
    from slackwater.record.overview import Overview

    return ask(address, "/v1/top", {}, Overview, patience)


def ask(
    address: AgentAddress,
    path: str,
    query: Mapping[str, str],
    kind: type[_Answer],
    patience: float = PATIENCE,
) -> _Answer:
    """The answer as `kind`; every way to fail is one sentence."""
    from urllib.parse import urlencode

    full = f"{path}?{urlencode(query)}" if query else path
    status, body = _get(address, full, patience)
    if status == _NOT_FOUND:
        raise NoAnswer(_sentence(body))
    if status != _OK:
        raise NoAnswer(f"{address} answers {status} to {path}: {_sentence(body)}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoAnswer(
            f"{address} answers to {path} what this slackwater cannot read: {error}; "
            "is another program, or another version, listening there?"
        ) from None


def _get(address: AgentAddress, path: str, patience: float) -> tuple[int, bytes]:
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(address.host, address.port, timeout=patience)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(_LONGEST + 1)
    except TimeoutError:
        raise NoAnswer(f"{address} ({address.source}) gave no answer in {patience:g} s") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise NoAnswer(f"no agent answers at {address} ({address.source}): {why}; {_HOW}") from None
    except HTTPException as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise NoAnswer(
            f"what listens at {address} ({address.source}) is not an agent: {what}"
        ) from None
    finally:
        connection.close()
    if len(body) > _LONGEST:
        raise NoAnswer(f"{address} answers to {path} with more than {_LONGEST} bytes")
    return response.status, body


def _sentence(body: bytes) -> str:
    """What an error's body says, on one line: an object's `error`, or the text itself."""
    try:
        said = msgspec.json.decode(body, type=dict[str, Any]).get("error")
        text = said if isinstance(said, str) else body.decode("utf-8", "replace")
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace")
    return " ".join(text.split())[:1000] or "nothing more"
