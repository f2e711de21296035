"""What `slackwater status` shows of a cluster, from the API server's objects alone.

Owns the rows, their order, and what counts as a problem of a node or of the cluster. Pure.
"""

import datetime as dt
import enum
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from slackwater.contract.crane.fields import ENFORCED, TRIGGERED, VALID, Truth
from slackwater.contract.node_report import (
    BLIND,
    RELEASED,
    FollowedObjects,
    NodeReport,
    read_report,
)
from slackwater.kube.lease import LeaseSpec
from slackwater.model.gap import Gap
from slackwater.model.units import DEFAULT_PERIOD, MilliCpu, Ratio, Unlimited, smallest_milli
from slackwater.record.agent_view import API_VERSION
from slackwater.record.timestamps import format_timedelta, parse_timestamp, time_since
from slackwater.status.api_objects import AgentPod, ClusterNode, JudgedPolicy
from slackwater.status.normalization_status import (
    NormalizationFacts,
    NormalizationStatus,
    normalization_status,
)

#: Agents renew their condition every five minutes; three missed ones are not an accident.
STALE_AFTER = dt.timedelta(minutes=15)
#: How long a pod needs to start, read its node twice and report.
_STARTS_WITHIN = dt.timedelta(minutes=2)
_STANDS = "its last values are still in force"
#: A quota of so little of the node, or the kernel's smallest one, is room for nothing.
NO_ROOM, FLOOR = Ratio(1, 100), smallest_milli(DEFAULT_PERIOD)
_TAKEN = "here, as all else takes the rest; `slackwater explain besteffort` there says how much"


def is_stale(heard: str | None, now: str) -> bool:
    """Whether an agent that was heard then has been silent for too long; both in RFC 3339."""
    at = parse_timestamp(now)
    silence = None if at is None else time_since(heard, at)
    return silence is not None and silence > STALE_AFTER


class NodeState(enum.StrEnum):
    """In the order in which they are shown."""

    UNREADABLE = "unreadable"
    GONE = "gone"
    STALE = "stale"
    BLIND = "blind"
    PROBLEM = "problem"
    RELEASED = "released"
    STARTING = "starting"
    NO_ROOM = "no room"
    WELL = "well"
    NO_AGENT = "no agent"


ORDER = {state: place for place, state in enumerate(NodeState)}


class NodeStatusRow(msgspec.Struct, frozen=True, rename="camel"):
    """CPU is in milliCPU; `quota` and `used` are the best-effort tier's; null is not known.
    `remarks` are worth a look and no problem."""

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
    #: Of the objects that it follows, by their titles: the rules that are not quiet.
    rules: FollowedObjects = {}
    #: How new containers come by their quotas; null where no policy has any for them.
    container_starts: str | None = None
    #: Whether quota and usage are of now; false where they are of a last report.
    current: bool = True
    remarks: tuple[str, ...] = ()
    #: CPU that the Node offers as gocrane.io/cpu or kubernetes.io/batch-cpu; null if it has none.
    sold: int | None = None

    def has_no_room(self) -> bool:
        """Whether best-effort work may use next to nothing, so that it starves if there is any."""
        if not self.current or not isinstance(self.quota, int) or self.allocatable is None:
            return False
        return self.quota <= max(FLOOR, NO_ROOM.left_of(MilliCpu(self.allocatable)))

    def physical_quota(self) -> int | None:
        """An unlimited tier may use the whole machine; None is not known."""
        return self.allocatable if isinstance(self.quota, str) else self.quota


def node_row(node: ClusterNode, pod: AgentPod | Gap | None, now: dt.datetime) -> NodeStatusRow:
    """`pod` is the agent's there; a Gap where pods may not be seen."""
    row = NodeStatusRow(
        node.name, NodeState.NO_AGENT, node.allocatable, heard=node.heard, sold=node.sold
    )
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
        return _in(_as_last_reported(row), NodeState.STARTING)  # the report is of the one before
    state, why = _standing(node, report, pod, now)
    if state in (NodeState.GONE, NodeState.STALE):
        row = _as_last_reported(row)
    if row.has_no_room():
        row = msgspec.structs.replace(row, remarks=(f"best-effort pods get {row.quota}m {_TAKEN}",))
    if why:
        return _in(row, state, why, *_other_problems(node, report))
    problems = (*(() if starting else _ailing(pod)), *report.problems)
    well = NodeState.NO_ROOM if row.has_no_room() else NodeState.WELL
    return _in(
        row, NodeState.PROBLEM if problems else NodeState.STARTING if starting else well, *problems
    )


def _as_last_reported(row: NodeStatusRow) -> NodeStatusRow:
    return msgspec.structs.replace(row, current=False)


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
        rules=report.rules,
        container_starts=report.container_starts,
    )


#: How far the clocks of the cluster and of this machine may be apart.
_CLOCKS_DIFFER = dt.timedelta(seconds=30)
_APPLY = "kubectl apply --server-side -f -"
_INSTALL = f"install the Helm chart, or run `slackwater install --print --image IMAGE | {_APPLY}`"
#: Only the definitions: the programs' manifests would replace a Helm release's settings.
_DEFINE = f"`slackwater install --print --definitions | {_APPLY}` installs"


class PolicyRow(msgspec.Struct, frozen=True, rename="camel"):
    """`valid`, `enforced` and `triggered` are True, False or Unknown; null before the manager
    judged it, and `triggered` of objects without rules. `followed` says which nodes follow it, or
    why none does; `where` is which rules are triggered on which nodes. `idle`: on some node, or on
    all, it does nothing, as `followed` says: nobody follows it, its metric is missing, or its value
    is above the node's size."""

    kind: str
    name: str
    valid: str | None = None
    enforced: str | None = None
    triggered: str | None = None
    nodes: int | None = None
    summary: str = ""
    followed: str = ""
    where: str = ""
    problems: tuple[str, ...] = ()
    idle: bool = False


class ManagerRow(msgspec.Struct, frozen=True, rename="camel"):
    """Which replica leads, and when it last renewed its Lease."""

    leader: str
    renewed: str | None = None
    alive: bool = False


class Totals(msgspec.Struct, frozen=True, rename="camel"):
    """`allocatable`, `quota` and `used` are sums over the `known` nodes, those of which all three
    are known and of now; None where there are none. An unlimited quota counts as the node's
    allocatable CPU."""

    nodes: int = 0
    reporting: int = 0
    nodes_with_problems: int = 0
    without_agent: int = 0
    without_room: int = 0
    known: int = 0
    allocatable: int | None = None
    quota: int | None = None
    used: int | None = None
    holding: int = 0
    policies: int = 0
    policies_invalid: int = 0
    policies_enforced: int = 0
    policies_triggered: int = 0
    policies_idle: int = 0


class ClusterStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`problems` are the cluster's own; those of nodes and policies are in their rows. `notes` name
    what could not be read."""

    api_version: str = API_VERSION
    kind: str = "ClusterStatus"
    at: str
    server: str
    manager: ManagerRow | None = None
    totals: Totals = Totals()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    nodes: tuple[NodeStatusRow, ...] = ()
    policies: tuple[PolicyRow, ...] = ()
    #: Null where the cluster has nothing to do with it, or the ConfigMap may not be read.
    normalization: NormalizationStatus | None = None

    def has_problem(self) -> bool:
        return bool(
            self.problems
            or self.totals.nodes_with_problems
            or self.totals.policies_invalid
            or (self.normalization and self.normalization.problems)
        )

    def problem_count(self) -> int:
        """Of sentences, as they are shown."""
        of_nodes = sum(len(row.problems) for row in self.nodes)
        of_model = len(self.normalization.problems) if self.normalization else 0
        of_policies = sum(len(row.problems) for row in self.policies)
        return len(self.problems) + of_nodes + of_policies + of_model


class ClusterFacts(msgspec.Struct, frozen=True):
    """What was fetched. A kind of policy that the cluster does not have is in `missing`; one that
    may not be read is in `unseen`, with the reason. `pods` and `lease` are Gaps if they may not be
    read; `lease` is None if there is none."""

    server: str
    nodes: Sequence[ClusterNode]
    pods: Sequence[AgentPod] | Gap = ()
    policies: Sequence[JudgedPolicy] = ()
    missing: Sequence[str] = ()
    unseen: Mapping[str, str] = {}
    lease: LeaseSpec | Gap | None = None
    normalization: NormalizationFacts | None = None


def cluster_status(facts: ClusterFacts, now: dt.datetime) -> ClusterStatus:
    nodes = tuple(sorted(_node_rows(facts, now), key=lambda row: (ORDER[row.state], row.name)))
    policies = tuple(sorted((_policy_row(each) for each in facts.policies), key=_worst_first))
    manager = _manager(facts.lease, now)
    return ClusterStatus(
        at=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        server=facts.server,
        manager=manager,
        totals=_totals(nodes, policies),
        problems=tuple(_problems(facts, nodes, policies, manager)),
        notes=tuple(_notes(facts)),
        nodes=nodes,
        policies=policies,
        normalization=normalization_status(facts.normalization, facts.nodes),
    )


def _node_rows(facts: ClusterFacts, now: dt.datetime) -> Iterator[NodeStatusRow]:
    pods = facts.pods
    # While one is replaced there are two: what becomes of the new one counts.
    last = () if isinstance(pods, Gap) else sorted(pods, key=lambda pod: pod.ends is None)
    by_node = {pod.node: pod for pod in last}
    for node in facts.nodes:
        yield node_row(node, pods if isinstance(pods, Gap) else by_node.get(node.name), now)


#: Reasons of `enforced` where a policy does all that it says.
_IN_USE = ("Followed", "Used")


def _policy_row(policy: JudgedPolicy) -> PolicyRow:
    valid, enforced = policy.condition(VALID), policy.condition(ENFORCED)
    triggered = policy.condition(TRIGGERED)
    return PolicyRow(
        policy.kind,
        policy.name,
        valid.status.value if valid else None,
        enforced.status.value if enforced else None,
        triggered.status.value if triggered else None,
        policy.status.nodes,
        policy.status.summary,
        enforced.message if enforced else "",
        triggered.message if triggered and triggered.status is Truth.TRUE else "",
        (valid.message or valid.reason,) if valid and valid.status is Truth.FALSE else (),
        enforced is not None and enforced.reason not in _IN_USE,
    )


def _worst_first(row: PolicyRow) -> tuple[bool, str, str]:
    return (row.valid != "False", row.kind, row.name)


def _manager(lease: LeaseSpec | Gap | None, now: dt.datetime) -> ManagerRow | None:
    if lease is None or isinstance(lease, Gap) or not lease.holder_identity:
        return None
    silence = time_since(lease.renew_time, now)
    allowed = dt.timedelta(seconds=2 * (lease.lease_duration_seconds or 0)) + _CLOCKS_DIFFER
    alive = silence is not None and silence <= allowed
    return ManagerRow(lease.holder_identity, lease.renew_time, alive)


def _problems(
    facts: ClusterFacts,
    nodes: Sequence[NodeStatusRow],
    policies: Sequence[PolicyRow],
    manager: ManagerRow | None,
) -> Iterator[str]:
    if nodes and all(row.state is NodeState.NO_AGENT for row in nodes):
        yield f"no node has an agent; {_INSTALL}"
    if facts.missing:
        kinds = ", ".join(facts.missing)
        noun, them = ("kind", "it") if len(facts.missing) == 1 else ("kinds", "them")
        yield f"the cluster does not know the {noun} {kinds}; {_DEFINE} {them}"
    if isinstance(facts.lease, Gap):
        return
    if manager is not None and not manager.alive:
        yield f"the manager {manager.leader} has not renewed its lease since {manager.renewed}"
    unjudged = sum(row.valid is None for row in policies)
    if manager is None and unjudged:
        yield f"no manager runs, so there is no verdict on {_count(unjudged, 'policy', 'policies')}"


def _notes(facts: ClusterFacts) -> Iterator[str]:
    for kind, why in facts.unseen.items():
        yield f"{kind} is not shown: {why}"
    if isinstance(facts.pods, Gap):
        yield f"whether agents run is not known: {facts.pods.reason}"
    if isinstance(facts.lease, Gap):
        yield f"whether a manager runs is not known: {facts.lease.reason}"


def _totals(nodes: Sequence[NodeStatusRow], policies: Sequence[PolicyRow]) -> Totals:
    reporting = [row for row in nodes if row.version is not None or row.since is not None]
    sums = [found for row in reporting if (found := _amounts(row))]
    allocatable, quota, used = map(sum, zip(*sums, strict=True)) if sums else (None,) * 3
    return Totals(
        nodes=len(nodes),
        reporting=len(reporting),
        nodes_with_problems=sum(bool(row.problems) for row in nodes),
        without_agent=sum(row.state is NodeState.NO_AGENT for row in nodes),
        without_room=sum(row.has_no_room() for row in nodes),
        known=len(sums),
        allocatable=allocatable,
        quota=quota,
        used=used,
        holding=sum(row.holding or 0 for row in reporting),
        policies=len(policies),
        policies_invalid=sum(row.valid == "False" for row in policies),
        policies_enforced=sum(row.enforced == "True" for row in policies),
        policies_triggered=sum(row.triggered == "True" for row in policies),
        policies_idle=sum(row.idle for row in policies),
    )


def _amounts(row: NodeStatusRow) -> tuple[int, int, int] | None:
    """Allocatable, quota and used; None where one of them is not known, or old."""
    quota = row.physical_quota()
    if not row.current or row.allocatable is None or quota is None or row.used is None:
        return None
    return row.allocatable, quota, row.used


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
