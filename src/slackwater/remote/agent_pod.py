"""Finds the pod of a node's agent: by its labels and its node, in the chart's namespace, or in all
namespaces where nobody named one. Every way in which there is none is one sentence.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from slackwater.contract.resources import NODES, PODS, ObjectSelector
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.remote.errors import RemoteAgentError
from slackwater.remote.rights import describe_refusal

#: As the chart labels the agent's pods, and calls their container.
LABELS = "app.kubernetes.io/name=slackwater,app.kubernetes.io/component=agent"
CONTAINER = "agent"
_FORBIDDEN, _NOT_FOUND = 403, 404


class AgentPlace(msgspec.Struct, frozen=True):
    """A node, and where its agent's pod is; `chosen`: in no other namespace."""

    node: str
    namespace: str
    chosen: bool


class RunningAgentPod(msgspec.Struct, frozen=True):
    """`problem`: why nothing can run in its container; empty if something can. `ready` is the
    pod's own readiness."""

    namespace: str
    name: str
    ready: bool
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    deletion_timestamp: str = ""


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""


class _State(msgspec.Struct, frozen=True):
    running: dict[str, Any] | None = None
    waiting: _Waiting | None = None
    terminated: _Waiting | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str
    ready: bool = False
    state: _State = _State()


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: tuple[_Container, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _PodStatus = _PodStatus()


def find_agent_pod(client: Client, place: AgentPlace) -> RunningAgentPod:
    """The one in which a command can run. Raises RemoteAgentError and RequestError."""
    found = _list_pods(client, place)
    if not found:
        raise RemoteAgentError(_why_none(client, place))
    if len({each.namespace for each in found}) > 1:
        names = ", ".join(map(str, found))
        raise RemoteAgentError(
            f"the node {place.node} has agents in several namespaces: {names}; name one with -n"
        )
    # During a rolling update the old one may still be there.
    best = min(found, key=lambda each: (bool(each.problem), not each.ready, each.name))
    if best.problem:
        raise RemoteAgentError(
            f"the agent on the node {place.node} is not running: its pod {best} {best.problem}; "
            f"`kubectl -n {best.namespace} describe pod {best.name}` says more"
        )
    return best


def _list_pods(client: Client, place: AgentPlace) -> Sequence[RunningAgentPod]:
    """In the namespace; where there are none, and none was chosen, in all."""
    try:
        found = _list_in(client, place, place.namespace)
    except HttpStatusError as refused:
        if refused.status != _FORBIDDEN:
            raise
        missing = describe_refusal(client, refused, place.namespace)
        found = () if place.chosen else _list_everywhere(client, place)
        if not found:
            raise RemoteAgentError(missing) from None
    if found or place.chosen:
        return found
    return _list_everywhere(client, place)


def _list_everywhere(client: Client, place: AgentPlace) -> Sequence[RunningAgentPod]:
    """Nothing where that is not allowed."""
    try:
        return _list_in(client, place, "")
    except HttpStatusError as refused:
        if refused.status != _FORBIDDEN:
            raise
        return ()


def _list_in(client: Client, place: AgentPlace, namespace: str) -> Sequence[RunningAgentPod]:
    selector = ObjectSelector(LABELS, f"spec.nodeName={place.node}")
    return client.list(PODS, _read_pod, namespace=namespace, selector=selector).items


def _read_pod(raw: msgspec.Raw) -> RunningAgentPod:
    pod = msgspec.json.decode(raw, type=_Pod)
    states = [each for each in pod.status.container_statuses if each.name == CONTAINER]
    ready = bool(states) and states[0].ready and not pod.metadata.deletion_timestamp
    return RunningAgentPod(
        pod.metadata.namespace, pod.metadata.name, ready, _problem_of(pod, states)
    )


def _problem_of(pod: _Pod, states: Sequence[_Container]) -> str:
    if pod.metadata.deletion_timestamp:
        return "is being deleted"
    if not states:
        return f"is {pod.status.phase or 'of an unknown state'}"
    state = states[0].state
    if state.running is not None:
        return ""
    told = state.waiting or state.terminated or _Waiting()
    return f"is {told.reason or pod.status.phase or 'not started'}"


def _why_none(client: Client, place: AgentPlace) -> str:
    where = f"in the namespace {place.namespace}"
    if not place.chosen:
        where += " or in any other that you may look into"
    try:
        client.get(NODES, place.node)
    except HttpStatusError as refused:
        if refused.status == _NOT_FOUND:
            return f"there is no node {place.node}; `kubectl get nodes` lists them"
        if refused.status != _FORBIDDEN:
            raise
        return (
            f"no agent's pod is on a node {place.node} {where}, and you may not get nodes to see "
            "whether there is such a node; is the name right?"
        )
    return (
        f"no agent's pod is on the node {place.node} {where}; is Slackwater installed there (-n "
        "names its namespace), and does the chart's agent.nodeSelector take the node in?"
    )
