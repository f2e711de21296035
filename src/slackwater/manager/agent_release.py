"""Asks every agent to release everything, and waits until the Nodes say that it is done.

The request is a word in the ConfigMap of the agents' settings, which only who owns that namespace
may write; the answer is the same word in each Node's report, which only that node's agent may
write. A word of an earlier request is no answer to this one. Nobody waits for ever: a node that is
down, or whose agent is, is named.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slackwater.contract.node_report import ANNOTATION, NodeReport, read_report
from slackwater.contract.resources import CONFIG_MAPS, NODES, PODS, ObjectSelector
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.model.gap import Gap
from slackwater.observation.objects.object_set import RELEASE_KEY, SETTINGS_MAP

#: The label of the agents' pods in the chart.
AGENTS = "app.kubernetes.io/name=slackwater,app.kubernetes.io/component=agent"
#: Between two looks, in seconds, and how much longer than the last look itself at least.
_PAUSE, _PART = 1.0, 4.0
_NO_ANSWER = "its agent has not answered"


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str
    annotations: dict[str, str] | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _Status = _Status()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    spec: _Spec


class ReleasedNodes(msgspec.Struct, frozen=True):
    """Who has answered, and why each of the others has not. `unattended` are nodes without an
    agent whose last report says that values of ours are there."""

    released: tuple[str, ...] = ()
    silent: Mapping[str, str] = {}
    unattended: tuple[str, ...] = ()


class NotInstalledError(Exception):
    """There is nobody to ask; str() is one sentence."""


def release_every_node(
    client: Client,
    namespace: str,
    patience: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> ReleasedNodes:
    """Waits up to `patience` seconds. Raises NotInstalledError and RequestError."""
    word = _ask(client, namespace)
    ends = clock() + patience
    while True:
        began = clock()
        try:
            found = _look(client, namespace, word)
        except RequestError:
            if clock() >= ends:
                raise
        else:
            if not found.silent or clock() >= ends:
                return found
        now = clock()
        sleep(min(max(_PAUSE, _PART * (now - began)), max(ends - now, 0.0)))


def resume_every_node(client: Client, namespace: str) -> None:
    """Takes the request back. Raises NotInstalledError and RequestError."""
    _write(client, namespace, "")


def judge_nodes(nodes: Sequence[_Node], with_agent: frozenset[str], word: str) -> ReleasedNodes:
    reports = {node.metadata.name: _report(node) for node in nodes}
    released = {name for name, report in reports.items() if report and report.released == word}
    ready = {node.metadata.name: _is_ready(node) for node in nodes}
    silent = {
        name: _describe(reports.get(name), is_ready=ready.get(name, False))
        for name in sorted(with_agent - released)
    }
    unattended = tuple(
        name
        for name, report in sorted(reports.items())
        if report and report.holding and name not in with_agent | released
    )
    return ReleasedNodes(tuple(sorted(released & with_agent)), silent, unattended)


def _describe(report: NodeReport | None, *, is_ready: bool) -> str:
    parts = ["" if is_ready else "the node is not Ready", _NO_ANSWER]
    if report is not None and report.holding:
        parts.append(f"it last held {report.holding} values")
    if report is not None and report.problems:
        parts.append(report.problems[0])
    return "; ".join(filter(None, parts))


def _report(node: _Node) -> NodeReport | None:
    text = (node.metadata.annotations or {}).get(ANNOTATION)
    report = None if text is None else read_report(text)
    return None if isinstance(report, Gap) else report


def _is_ready(node: _Node) -> bool:
    return any(
        each.type == "Ready" and each.status == "True" for each in node.status.conditions or ()
    )


def _ask(client: Client, namespace: str) -> str:
    """The word that is asked by: an earlier one that was not taken back counts on."""
    try:
        found = msgspec.json.decode(
            client.get(CONFIG_MAPS, SETTINGS_MAP, namespace), type=_ConfigMap
        )
    except HttpStatusError as refused:
        raise _explained(refused, namespace) from None
    asked = ((found.data or {}).get(RELEASE_KEY) or "").strip()
    word = asked or secrets.token_hex(8)
    _write(client, namespace, word)
    return word


def _write(client: Client, namespace: str, word: str) -> None:
    body = {"data": {RELEASE_KEY: word}}
    try:
        client.patch(CONFIG_MAPS, SETTINGS_MAP, body, kind=PatchKind.MERGE, namespace=namespace)
    except HttpStatusError as refused:
        raise _explained(refused, namespace) from None


def _explained(refused: HttpStatusError, namespace: str) -> Exception:
    if refused.reason != "NotFound":
        return refused
    return NotInstalledError(
        f"there is no ConfigMap {SETTINGS_MAP} in the namespace {namespace}; "
        "--namespace names the one where Slackwater is installed"
    )


def _look(client: Client, namespace: str, word: str) -> ReleasedNodes:
    chosen = ObjectSelector(labels=AGENTS)
    pods = client.list(PODS, _read_pod, namespace=namespace, selector=chosen).items
    nodes = client.list(NODES, _read_node).items
    with_agent = frozenset(each.spec.node_name for each in pods) - {""}
    return judge_nodes(nodes, with_agent, word)


def _read_pod(raw: msgspec.Raw) -> _Pod:
    return msgspec.json.decode(raw, type=_Pod)


def _read_node(raw: msgspec.Raw) -> _Node:
    return msgspec.json.decode(raw, type=_Node)
