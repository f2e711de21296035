"""The API server's objects that the status is made of: Nodes, agents' Pods, policies, a Lease.

Only the fields that are used are decoded: of a Node's 10 KiB little is kept, because the manager
caches thousands of them. Odd values are kept as they are; their users judge them.
"""

import sys
from collections.abc import Mapping

import msgspec

from slackwater.contract.crane.fields import EnsuranceStatus, PolicyCondition, read_ensurance_status
from slackwater.contract.koordinator.amplification import (
    AMPLIFIED_RESOURCES,
    NodeAmounts,
    own_annotations,
)
from slackwater.contract.koordinator.node_ratios import (
    CPU,
    HELD_CONDITION,
    MEMORY,
    NODE_ANNOTATIONS,
    NodeFacts,
)
from slackwater.contract.koordinator.normalization import CpuBasicInfo
from slackwater.contract.kubernetes import Condition, ConditionState, KubernetesObject
from slackwater.contract.node_report import ANNOTATION, RULES_POLICY, RulesReport, read_rules
from slackwater.contract.node_report import CONDITION as ACTING
from slackwater.kube.lease import Lease, LeaseSpec
from slackwater.model.elastic import BATCH_CPU, ELASTIC_CPU
from slackwater.model.gap import Gap
from slackwater.model.problem import shorten
from slackwater.model.units import (
    Bytes,
    MilliCpu,
    QuantityError,
    parse_bytes,
    parse_milli_cpu,
)

READY = "Ready"
_MILLI = 1000
#: Reasons to wait that are not failures.
_BEGINNINGS = ("ContainerCreating", "PodInitializing")
_LONGEST_TROUBLE = 400


class ClusterNode(msgspec.Struct, frozen=True):
    """A Node. `report` is the text of the agent's annotation; `heard`, `reason` and `message` are
    the heartbeat time (RFC 3339), reason and message of its condition. None: not there. `rules` is
    of the same report, which may be unreadable. `amplification` is None for a node that takes no
    part in it."""

    name: str
    labels: dict[str, str]
    allocatable: MilliCpu | None = None
    report: str | None = None
    heard: str | None = None
    reason: str = ""
    message: str = ""
    rules: RulesReport | None = None
    uid: str = ""
    #: Those that CPU normalization reads and writes.
    annotations: Mapping[str, str] = {}
    allocatable_memory: Bytes | None = None
    #: The manager's own condition: why a ratio is held back.
    held: ConditionState | None = None

    def facts(self, info: CpuBasicInfo | Gap) -> NodeFacts:
        """For its ratios; `info` is of its NodeResourceTopology."""
        amounts = {CPU: self.allocatable, MEMORY: self.allocatable_memory}
        known = {name: amount for name, amount in amounts.items() if amount is not None}
        return NodeFacts(self.name, self.labels, self.annotations, known, info)

    amplification: NodeAmounts | None = None
    #: CPU that is offered to pods beside the node's own; None where nothing is.
    sold: MilliCpu | None = None


class AgentPod(msgspec.Struct, frozen=True):
    """An agent's Pod. `trouble` is why it is not ready, empty if it is. `fails`: it has been tried,
    so waiting alone does not help. `ends` is its deletion time, None if it is not being deleted."""

    name: str
    namespace: str
    node: str
    created: str | None = None
    trouble: str = ""
    fails: bool = False
    ends: str | None = None


class JudgedPolicy(msgspec.Struct, frozen=True):
    """A policy object and the status that the manager wrote on it; an empty one before that."""

    kind: str
    name: str
    generation: int = 0
    status: EnsuranceStatus = EnsuranceStatus()

    def condition(self, kind: str) -> PolicyCondition | None:
        """None also if the status is about an older generation of the object."""
        found = next((each for each in self.status.conditions if each.type == kind), None)
        return found if self.status.observed_generation >= self.generation else None


class _NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[Condition, ...] = ()


class _Node(KubernetesObject, frozen=True):
    status: _NodeStatus = _NodeStatus()


def read_node(raw: msgspec.Raw | bytes) -> ClusterNode:
    node = msgspec.json.decode(raw, type=_Node)
    acting = next((each for each in node.status.conditions if each.type == ACTING), None)
    report = node.metadata.annotations.get(ANNOTATION)
    return ClusterNode(
        name=node.metadata.name,
        # Thousands of nodes share some dozens of keys and values.
        labels={sys.intern(key): sys.intern(value) for key, value in node.metadata.labels.items()},
        allocatable=_milli(node.status.allocatable.get("cpu")),
        report=report,
        heard=acting.last_heartbeat_time if acting else None,
        reason=sys.intern(acting.reason) if acting else "",
        message=sys.intern(acting.message) if acting else "",
        rules=None if report is None else _shared_rules(report),
        uid=node.metadata.uid,
        annotations={
            key: sys.intern(node.metadata.annotations[key])
            for key in NODE_ANNOTATIONS
            if key in node.metadata.annotations
        },
        allocatable_memory=_bytes(node.status.allocatable.get("memory")),
        held=_held(node),
        amplification=_amplification(node),
        sold=_sold(node.status.allocatable),
    )


def _sold(allocatable: Mapping[str, str | int | float]) -> MilliCpu | None:
    """In milliCPU by either name: batch-cpu counts them, gocrane.io/cpu whole CPUs."""
    batch = _milli(allocatable.get(BATCH_CPU))
    if batch is not None:
        return MilliCpu(batch // _MILLI)
    return _milli(allocatable.get(ELASTIC_CPU))


def _held(node: _Node) -> ConditionState | None:
    """One mistake in the model is about thousands of nodes."""
    found = next((each for each in node.status.conditions if each.type == HELD_CONDITION), None)
    if found is None:
        return None
    return ConditionState(
        sys.intern(found.status), sys.intern(found.reason), sys.intern(found.message)
    )


def _amplification(node: _Node) -> NodeAmounts | None:
    annotations = own_annotations(node.metadata.annotations)
    if not annotations:
        return None
    capacity, allocatable = (
        {name: str(stated[name]) for name in AMPLIFIED_RESOURCES if name in stated}
        for stated in (node.status.capacity, node.status.allocatable)
    )
    return NodeAmounts(node.metadata.name, capacity, allocatable, annotations)


def _shared_rules(report: str) -> RulesReport | None:
    """Thousands of nodes follow the same few objects, and most rules are quiet."""
    found = read_rules(report)
    if found is None:
        return None
    said = {name: sys.intern(why) for name, why in found.policies.items() if name == RULES_POLICY}
    return RulesReport(said, {sys.intern(title): each for title, each in found.rules.items()})


def _milli(amount: str | float | None) -> MilliCpu | None:
    try:
        return None if amount is None else parse_milli_cpu(str(amount))
    except QuantityError:
        return None


def _bytes(amount: str | float | None) -> Bytes | None:
    try:
        return None if amount is None else parse_bytes(str(amount))
    except QuantityError:
        return None


class _Stopped(msgspec.Struct, frozen=True, rename="camel"):
    """A container that waits, or one that ended."""

    reason: str = ""
    message: str = ""
    exit_code: int | None = None


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Stopped | None = None
    terminated: _Stopped | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    state: _ContainerState = _ContainerState()
    last_state: _ContainerState = _ContainerState()
    restart_count: int = 0


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(KubernetesObject, frozen=True):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def read_agent_pod(raw: msgspec.Raw | bytes) -> AgentPod:
    pod = msgspec.json.decode(raw, type=_Pod)
    meta, status = pod.metadata, pod.status
    where = (meta.name, meta.namespace, pod.spec.node_name, meta.creation_timestamp or None)
    if any(each.type == READY and each.status == "True" for each in status.conditions):
        return AgentPod(*where, ends=meta.deletion_timestamp or None)
    containers = (*status.init_container_statuses, *status.container_statuses)
    failure = next(filter(None, map(_failure, containers)), "")
    trouble = failure or _waiting(status)
    return AgentPod(*where, trouble, bool(failure), meta.deletion_timestamp or None)


def _waiting(status: _PodStatus) -> str:
    states = (each.state.waiting for each in status.container_statuses)
    reason = next((each.reason for each in states if each and each.reason), "")
    if not reason and status.phase == "Running":
        return "it runs, but gives its probe no good answer"
    return reason or status.phase or "not ready"


def _failure(container: _ContainerStatus) -> str:
    """Why a container fails; empty for one that is starting or running."""
    waits, ended = container.state.waiting, container.state.terminated
    before = ended or container.last_state.terminated
    if waits and waits.reason and waits.reason not in _BEGINNINGS:
        return _because(waits.reason, _last_line(before) or _last_line(waits))
    failed = ended is not None and ended.exit_code != 0
    if not failed and not (container.restart_count and before):
        return ""
    count = container.restart_count
    times = f"restarted {count} time{'' if count == 1 else 's'}" if count else "ended"
    reason = before.reason if before else ""
    return _because(f"{times} ({reason})" if reason else times, _last_line(before))


def _last_line(stopped: _Stopped | None) -> str:
    """The end of a log says why; line breaks and control sequences are dropped."""
    if stopped is None:
        return ""
    lines = [each for each in stopped.message.splitlines() if each.strip()]
    if not lines:
        return f"exit code {stopped.exit_code}" if stopped.exit_code else ""
    return " ".join(lines[-1].split())


def _because(reason: str, message: str) -> str:
    said = f"{reason}: {message}" if message else reason
    return shorten(said, _LONGEST_TROUBLE)


class PolicyHeader(KubernetesObject, frozen=True):
    """A policy object without its spec; the status is read leniently afterwards."""

    status: msgspec.Raw = msgspec.Raw(b"null")


def read_judged_policy(raw: msgspec.Raw | bytes, kind: str) -> JudgedPolicy:
    found = msgspec.json.decode(raw, type=PolicyHeader)
    status = read_ensurance_status(found.status) or EnsuranceStatus()
    return JudgedPolicy(kind, found.metadata.name, found.metadata.generation, status)


def read_lease(raw: msgspec.Raw | bytes) -> LeaseSpec:
    """Who leads; the holder is empty after a release."""
    return msgspec.json.decode(raw, type=Lease).spec
