"""One node's row in `slackwater status`: its state, its agent's numbers, and what is wrong there.

Owns the states, and what counts as a problem of a node. Pure. A node without an agent is shown and
is not a problem: not every node has to have one.
"""

import datetime as dt
import enum
from collections.abc import Iterator, Mapping

import msgspec

from slackwater.contract.node_report import BLIND, RELEASED, NodeReport, read_report
from slackwater.model.gap import Gap
from slackwater.model.units import Unlimited
from slackwater.record.timestamps import format_timedelta, parse_timestamp, time_since
from slackwater.status.api_objects import AgentPod, ClusterNode

#: Agents renew their condition every five minutes; three missed ones are not an accident.
STALE_AFTER = dt.timedelta(minutes=15)
#: How long a pod needs to start, read its node twice and report.
_STARTS_WITHIN = dt.timedelta(minutes=2)
_STANDS = "its last values are still in force"


class NodeState(enum.StrEnum):
    """In the order in which they are shown."""

    UNREADABLE = "unreadable"
    GONE = "gone"
    STALE = "stale"
    BLIND = "blind"
    PROBLEM = "problem"
    RELEASED = "released"
    STARTING = "starting"
    WELL = "well"
    NO_AGENT = "no agent"


ORDER = {state: place for place, state in enumerate(NodeState)}


class NodeStatusRow(msgspec.Struct, frozen=True, rename="camel"):
    """CPU is in milliCPU; `quota` and `used` are the best-effort tier's; null is not known."""

    name: str
    state: NodeState
    allocatable: int | None = None
    quota: int | str | None = None
    used: int | None = None
    holding: int | None = None
    #: "on", or why it is off.
    policies: Mapping[str, str] = {}
    since: str | None = None
    heard: str | None = None
    version: str | None = None
    problems: tuple[str, ...] = ()

    def physical_quota(self) -> int | None:
        """An unlimited tier may use the whole machine; None is not known."""
        return self.allocatable if isinstance(self.quota, str) else self.quota


def node_row(node: ClusterNode, pod: AgentPod | Gap | None, now: dt.datetime) -> NodeStatusRow:
    """`pod` is the agent's there; a Gap where pods may not be seen."""
    row = NodeStatusRow(node.name, NodeState.NO_AGENT, node.allocatable, heard=node.heard)
    if node.report is None:
        return _without_report(row, pod, now) if isinstance(pod, AgentPod) else row
    report = read_report(node.report)
    if isinstance(report, Gap):
        return _in(row, NodeState.UNREADABLE, f"its report cannot be read: {report.reason}")
    if pod is None and node.reason == RELEASED and not report.holding:
        return row  # it released and ended as it should; only this condition is left
    row = _with_report(row, report)
    starting = _is_starting(pod, now)
    if starting and not _has_spoken(pod, node):
        return _in(row, NodeState.STARTING)  # the report is of the one before
    state, why = _standing(node, report, pod, now)
    if why:
        return _in(row, state, why, *_other_problems(node, report))
    problems = (*(() if starting else _ailing(pod)), *report.problems)
    well = NodeState.STARTING if starting else NodeState.WELL
    return _in(row, NodeState.PROBLEM if problems else well, *problems)


def _in(row: NodeStatusRow, state: NodeState, *problems: str) -> NodeStatusRow:
    return msgspec.structs.replace(row, state=state, problems=problems)


def _standing(
    node: ClusterNode, report: NodeReport, pod: AgentPod | Gap | None, now: dt.datetime
) -> tuple[NodeState, str]:
    """Why the report is not what it seems; nothing where it is."""
    silence = time_since(node.heard, now)
    if pod is None:
        return NodeState.GONE, _gone(node.name, report)
    if silence is not None and silence > STALE_AFTER:
        since = f"its agent has not reported for {format_timedelta(silence)}"
        return NodeState.STALE, f"{since}; {_STANDS}"
    if node.reason == BLIND:
        stands = "" if report.holding == 0 else f"; {_STANDS}"
        why = node.message or "it does not say why"
        return NodeState.BLIND, f"its agent cannot read the node: {why}{stands}"
    if node.reason == RELEASED:
        why = node.message or "it restored everything"
        return NodeState.RELEASED, f"its agent is paused: {why}"
    return NodeState.WELL, ""


def _other_problems(node: ClusterNode, report: NodeReport) -> tuple[str, ...]:
    """Without the one that the condition's message tells already, whole or cut."""
    return tuple(
        each
        for each in report.problems
        if node.reason != BLIND or not node.message.startswith(each.removesuffix("..."))
    )


def _gone(node: str, report: NodeReport) -> str:
    rid = f"`kubectl annotate node {node} slackwater.io/report-`"
    if report.holding == 0:
        return f"its agent is gone, and only its report is left; {rid} removes it"
    return (
        "its agent is gone, and its last values may still be in force; install it again, or run "
        f"`slackwater release` on the node and then {rid}"
    )


def _is_starting(pod: AgentPod | Gap | None, now: dt.datetime) -> bool:
    """It is not ready, and need not be yet; or it ends, and the next one will come."""
    if not isinstance(pod, AgentPod) or not pod.trouble:
        return False
    old = time_since(pod.ends or pod.created, now)
    return old is not None and old < _STARTS_WITHIN and (pod.ends is not None or not pod.fails)


def _has_spoken(pod: AgentPod | Gap | None, node: ClusterNode) -> bool:
    """Whether the node's condition was written by this pod, not by the one before it."""
    created = pod.created if isinstance(pod, AgentPod) else None
    heard, began = parse_timestamp(node.heard or ""), parse_timestamp(created or "")
    return heard is not None and (began is None or heard >= began)


def _ailing(pod: AgentPod | Gap | None) -> Iterator[str]:
    if isinstance(pod, AgentPod) and pod.trouble:
        yield f"its agent's pod {pod.name} is not ready: {pod.trouble}"


def _without_report(row: NodeStatusRow, pod: AgentPod, now: dt.datetime) -> NodeStatusRow:
    """One that fails is a problem at any age: waiting does not help."""
    old = time_since(pod.created, now)
    young = not pod.fails and old is not None and old < _STARTS_WITHIN
    if young or _is_starting(pod, now):
        return _in(row, NodeState.STARTING)
    silent = f"its agent's pod {pod.name} runs, but has not reported"
    return _in(row, NodeState.PROBLEM, *(tuple(_ailing(pod)) or (silent,)))


def _with_report(row: NodeStatusRow, report: NodeReport) -> NodeStatusRow:
    quota = report.quota.value if isinstance(report.quota, Unlimited) else report.quota
    return msgspec.structs.replace(
        row,
        quota=quota,
        used=report.used,
        holding=report.holding,
        policies={name: why_off or "on" for name, why_off in sorted(report.policies.items())},
        since=report.since,
        version=report.version,
    )
