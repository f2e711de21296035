"""Which agent a command asks: the one on this machine, or with --node another node's, through the
API server with the caller's own rights.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from slackwater.cli.agent_client import (
    AgentSource,
    NoAnswer,
    SocketAgent,
    find_agent,
    socket_options,
)
from slackwater.cli.cluster_options import (
    access_options,
    find_cluster_access,
    namespace_option,
    parse_object_name,
)
from slackwater.cli.output import Failed

if TYPE_CHECKING:
    from slackwater.agent.endpoint_client import AgentAnswer
    from slackwater.remote.node_agent import NodeAgent

#: Where something is said about a cluster, but not which node's agent is meant.
_ONLY_WITH_NODE = ("kubeconfig", "context", "namespace")
_ONLY_WITHOUT = ("agent", "state")


class RemoteAgent:
    """An AgentSource: whatever goes wrong is one sentence."""

    def __init__(self, node: str, found: "NodeAgent") -> None:
        self.name = f"the agent on the node {node}"
        self._agent = found

    def get(self, target: str, patience: float) -> "AgentAnswer":
        from slackwater.remote.errors import RemoteAgentError

        try:
            return self._agent.get(target, patience)
        except RemoteAgentError as error:
            raise NoAnswer(str(error)) from None


def agent_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--agent and --state, or --node with the options of a cluster; the command gets the agent as
    one AgentSource."""

    @functools.wraps(command)
    def with_agent(
        *arguments: object,
        agent: str,
        state: str,
        node: str,
        kubeconfig: str,
        context: str,
        namespace: str,
        **others: object,
    ) -> Any:  # noqa: ANN401 - what the command returns
        _refuse_mixed(node)
        if not node:
            source: AgentSource = SocketAgent(find_agent(agent, state))
            return command(*arguments, agent=source, **others)
        with _node_agent(node, kubeconfig, context, namespace) as source:
            return command(*arguments, agent=source, **others)

    option = click.option(
        "--node",
        metavar="NAME",
        default="",
        callback=_parse_node,
        help="Ask this node's agent, through the API server, with your own rights: list pods, get "
        "and create pods/exec where Slackwater is installed.",
    )
    return socket_options(option(access_options(namespace_option(with_agent))))


def _parse_node(context: click.Context, option: click.Parameter, said: str) -> str:
    return parse_object_name(context, option, said) if said or _is_said("node") else ""


def _is_said(name: str) -> bool:
    """On the command line: variables are set for other commands as well."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _refuse_mixed(node: str) -> None:
    others = _ONLY_WITHOUT if node else _ONLY_WITH_NODE
    for name in filter(_is_said, others):
        flag = f"--{name}"
        if node:
            raise click.UsageError(f"{flag} is an agent on this machine; --node is another's")
        raise click.UsageError(f"{flag} goes with --node NAME")


@contextlib.contextmanager
def _node_agent(node: str, kubeconfig: str, context: str, namespace: str) -> Iterator[RemoteAgent]:
    from slackwater import __version__
    from slackwater.kube.client import Client

    place_type, agent_type = import_remote()
    client = Client(find_cluster_access(kubeconfig, context), f"slackwater/{__version__}")
    chosen = click.get_current_context().get_parameter_source("namespace")
    place = place_type(node, namespace, chosen is not ParameterSource.DEFAULT)
    found = agent_type(client, place)
    try:
        yield RemoteAgent(node, found)
        if found.pod is not None and found.pod.namespace != namespace:
            click.echo(
                f"slackwater: the agent is in the namespace {found.pod.namespace}; "
                f"-n {found.pod.namespace} finds it at once",
                err=True,
            )
    finally:
        found.close()
        client.close()


def import_remote() -> "tuple[Any, type[NodeAgent]]":
    try:
        from slackwater.remote.agent_pod import AgentPlace
        from slackwater.remote.node_agent import NodeAgent
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "websockets":
            raise
        raise Failed(
            "--node needs the package websockets: install Slackwater with its extra, as in "
            "pipx install '.[remote]' in Slackwater's source"
        ) from None
    return AgentPlace, NodeAgent
