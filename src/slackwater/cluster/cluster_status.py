"""The cluster at a glance, from the API server's objects alone: what `slackwater status` shows.

Owns what counts as a problem, the rows and their order. Pure: asks nobody and draws nothing.
A node without an agent is said and is no problem: nobody promised one there.
"""

import datetime as dt
import enum
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from slackwater.cluster.policy_status import ENFORCED, VALID
from slackwater.cluster.seen_objects import AgentPod, ClusterNode, JudgedPolicy, SeenLease
from slackwater.contract.node_report import NodeReport, read_report
from slackwater.model.gap import Gap
from slackwater.model.units import Unlimited
from slackwater.record.ages import age, span
from slackwater.record.view import API_VERSION

#: Agents renew their word every five minutes; three missed ones are no accident.
STALE_AFTER = dt.timedelta(minutes=15)
#: A pod needs so long to start, read its node twice and report.
_STARTS_WITHIN = dt.timedelta(minutes=2)
#: Clocks of a cluster and of who looks at it may differ so much.
_CLOCKS_DIFFER = dt.timedelta(seconds=30)
_INSTALL = "`slackwater install --print | kubectl apply -f -` installs it"


class NodeState(enum.StrEnum):
    """In the order in which they are shown."""

    UNREADABLE = "unreadable"
    STALE = "stale"
    PROBLEM = "problem"
    STARTING = "starting"
    WELL = "well"
    NO_AGENT = "no agent"


_ORDER = {state: place for place, state in enumerate(NodeState)}


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
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


class PolicyRow(msgspec.Struct, frozen=True, rename="camel"):
    """`valid` and `enforced` are True, False or Unknown; null before the manager judged it."""

    kind: str
    name: str
    valid: str | None = None
    enforced: str | None = None
    nodes: int | None = None
    summary: str = ""
    problems: tuple[str, ...] = ()


class ManagerRow(msgspec.Struct, frozen=True, rename="camel"):
    """Who leads, and when it last said so."""

    leader: str
    renewed: str | None = None
    alive: bool = False


class Totals(msgspec.Struct, frozen=True, rename="camel"):
    """`allocatable`, `quota` and `used` are sums over the nodes that report; an unlimited quota
    counts as the node's allocatable CPU."""

    nodes: int = 0
    reporting: int = 0
    nodes_with_problems: int = 0
    without_agent: int = 0
    allocatable: int = 0
    quota: int = 0
    used: int = 0
    holding: int = 0
    policies: int = 0
    policies_invalid: int = 0
    policies_enforced: int = 0


class ClusterStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`problems` are the cluster's own; those of nodes and policies stand in their rows. `notes`
    say what could not be looked at."""

    api_version: str = API_VERSION
    kind: str = "ClusterStatus"
    at: str
    server: str
    manager: ManagerRow | None = None
    totals: Totals = Totals()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    policies: tuple[PolicyRow, ...] = ()

    def has_problem(self) -> bool:
        return bool(
            self.problems or self.totals.nodes_with_problems or self.totals.policies_invalid
        )


class Facts(msgspec.Struct, frozen=True):
    """What was asked for. A kind of policy that the cluster does not have is in `missing`, one
    that may not be read in `unseen` with the reason; `pods` and `lease` are Gaps where they may
    not be read, and `lease` is None where there is none."""

    server: str
    nodes: Sequence[ClusterNode]
    pods: Sequence[AgentPod] | Gap = ()
    policies: Sequence[JudgedPolicy] = ()
    missing: Sequence[str] = ()
    unseen: Mapping[str, str] = {}
    lease: SeenLease | Gap | None = None


def cluster_status(facts: Facts, now: dt.datetime) -> ClusterStatus:
    nodes = tuple(sorted(_node_rows(facts, now), key=lambda row: (_ORDER[row.state], row.name)))
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
    )


def _node_rows(facts: Facts, now: dt.datetime) -> Iterator[NodeRow]:
    pods = () if isinstance(facts.pods, Gap) else facts.pods
    by_node = {pod.node: pod for pod in pods}
    for node in facts.nodes:
        yield _node_row(node, by_node.get(node.name), bool(by_node), now)


def _node_row(node: ClusterNode, pod: AgentPod | None, are_pods: bool, now: dt.datetime) -> NodeRow:
    """`are_pods`: agents of this cluster run as pods, so where there is none there is no agent."""
    row = NodeRow(node.name, NodeState.NO_AGENT, node.allocatable, heard=node.heard)
    if node.report is None:
        return row if pod is None else _without_report(row, pod, now)
    report = read_report(node.report)
    if isinstance(report, Gap):
        unread = f"its report cannot be read: {report.reason}"
        return msgspec.structs.replace(row, state=NodeState.UNREADABLE, problems=(unread,))
    row = _with_report(row, report)
    gone = _gone(node, pod, are_pods, now)
    if gone:
        return msgspec.structs.replace(
            row, state=NodeState.STALE, problems=(gone, *report.problems)
        )
    problems = (*_ailing(pod), *report.problems)
    state = NodeState.PROBLEM if problems else NodeState.WELL
    return msgspec.structs.replace(row, state=state, problems=problems)


def _ailing(pod: AgentPod | None) -> Iterator[str]:
    if pod is not None and pod.trouble:
        yield f"its agent's pod {pod.name} is not ready: {pod.trouble}"


def _without_report(row: NodeRow, pod: AgentPod, now: dt.datetime) -> NodeRow:
    old = age(pod.created, now)
    if old is not None and old < _STARTS_WITHIN:
        return msgspec.structs.replace(row, state=NodeState.STARTING)
    why = f"is not ready: {pod.trouble}" if pod.trouble else "runs, but has not reported"
    problem = f"its agent's pod {pod.name} {why}"
    return msgspec.structs.replace(row, state=NodeState.PROBLEM, problems=(problem,))


def _with_report(row: NodeRow, report: NodeReport) -> NodeRow:
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


def _gone(node: ClusterNode, pod: AgentPod | None, are_pods: bool, now: dt.datetime) -> str:
    """Why the report counts as a dead agent's; empty where it does not."""
    silence = age(node.heard, now)
    if silence is not None and silence > STALE_AFTER:
        return f"its agent has not been heard for {span(silence)}; what it set last still stands"
    if are_pods and pod is None:
        return "no agent runs here any more; what it set last still stands"
    return ""


def _policy_row(policy: JudgedPolicy) -> PolicyRow:
    valid, enforced = policy.condition(VALID), policy.condition(ENFORCED)
    return PolicyRow(
        policy.kind,
        policy.name,
        valid.status if valid else None,
        enforced.status if enforced else None,
        policy.nodes,
        policy.summary,
        (valid.message or valid.reason,) if valid and valid.status == "False" else (),
    )


def _worst_first(row: PolicyRow) -> tuple[bool, str, str]:
    return (row.valid != "False", row.kind, row.name)


def _manager(lease: SeenLease | Gap | None, now: dt.datetime) -> ManagerRow | None:
    if lease is None or isinstance(lease, Gap) or not lease.holder:
        return None
    silence = age(lease.renewed, now)
    allowed = dt.timedelta(seconds=2 * lease.duration) + _CLOCKS_DIFFER
    alive = silence is not None and silence <= allowed
    return ManagerRow(lease.holder, lease.renewed, alive)


def _problems(
    facts: Facts,
    nodes: Sequence[NodeRow],
    policies: Sequence[PolicyRow],
    manager: ManagerRow | None,
) -> Iterator[str]:
    if nodes and all(row.state is NodeState.NO_AGENT for row in nodes):
        yield f"no node has an agent; {_INSTALL}"
    if facts.missing:
        kinds = ", ".join(facts.missing)
        yield f"the cluster does not know the kind {kinds}; {_INSTALL}"
    if isinstance(facts.lease, Gap):
        return
    if manager is not None and not manager.alive:
        yield f"the manager {manager.leader} has not renewed its lease since {manager.renewed}"
    unjudged = sum(row.valid is None for row in policies)
    if manager is None and unjudged:
        yield f"no manager runs, so nobody has judged {_count(unjudged, 'policy', 'policies')}"


def _notes(facts: Facts) -> Iterator[str]:
    for kind, why in facts.unseen.items():
        yield f"{kind} is not shown: {why}"
    if isinstance(facts.pods, Gap):
        yield f"whether agents run is not known: {facts.pods.reason}"
    if isinstance(facts.lease, Gap):
        yield f"whether a manager runs is not known: {facts.lease.reason}"


def _totals(nodes: Sequence[NodeRow], policies: Sequence[PolicyRow]) -> Totals:
    reporting = [row for row in nodes if row.version is not None or row.since is not None]
    return Totals(
        nodes=len(nodes),
        reporting=len(reporting),
        nodes_with_problems=sum(bool(row.problems) for row in nodes),
        without_agent=sum(row.state is NodeState.NO_AGENT for row in nodes),
        allocatable=sum(row.allocatable or 0 for row in reporting),
        quota=sum(_physical_quota(row) for row in reporting),
        used=sum(row.used or 0 for row in reporting),
        holding=sum(row.holding or 0 for row in reporting),
        policies=len(policies),
        policies_invalid=sum(row.valid == "False" for row in policies),
        policies_enforced=sum(row.enforced == "True" for row in policies),
    )


def _physical_quota(row: NodeRow) -> int:
    return row.quota if isinstance(row.quota, int) else row.allocatable or 0


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
