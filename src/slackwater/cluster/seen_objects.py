"""Objects of the cluster as small values: a node, an agent's pod, a judged policy, a lease.

Owns which fields are decoded: of a Node's 10 KiB only what is used is kept, because a manager keeps
thousands of them. Values that are merely odd are kept as they are; who uses them judges them.
"""

import sys

import msgspec

from slackwater.contract.node_condition import CONDITION as ACTING
from slackwater.contract.node_report import ANNOTATION
from slackwater.model.units import MilliCpu, QuantityError, parse_milli_cpu

READY = "Ready"


class ClusterNode(msgspec.Struct, frozen=True):
    """A Node. `report` is the annotation's text; `heard` is when the agent last said that it is
    there, in RFC 3339. None: the object does not say."""

    name: str
    labels: dict[str, str]
    allocatable: MilliCpu | None = None
    report: str | None = None
    heard: str | None = None


class AgentPod(msgspec.Struct, frozen=True):
    """An agent's pod; `trouble` says in a clause why it is not ready, and is empty where it is."""

    name: str
    namespace: str
    node: str
    created: str | None = None
    trouble: str = ""


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None


class JudgedPolicy(msgspec.Struct, frozen=True):
    """A policy object as `slackwater status` needs it: what the manager said about it."""

    kind: str
    name: str
    generation: int = 0
    observed: int = 0
    summary: str = ""
    nodes: int | None = None
    conditions: tuple[Condition, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """None also where it was said about an older generation of the object."""
        found = next((each for each in self.conditions if each.type == kind), None)
        return found if self.observed >= self.generation else None


class SeenLease(msgspec.Struct, frozen=True):
    """Who leads; `holder` is empty after a release."""

    holder: str = ""
    renewed: str | None = None
    duration: int = 0


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None


class _NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[Condition, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _NodeStatus = _NodeStatus()


def read_node(raw: msgspec.Raw | bytes) -> ClusterNode:
    node = msgspec.json.decode(raw, type=_Node)
    acting = next((each for each in node.status.conditions if each.type == ACTING), None)
    return ClusterNode(
        name=node.metadata.name,
        # Thousands of nodes share some dozens of keys and values.
        labels={sys.intern(key): sys.intern(value) for key, value in node.metadata.labels.items()},
        allocatable=_milli(node.status.allocatable.get("cpu")),
        report=node.metadata.annotations.get(ANNOTATION),
        heard=acting.last_heartbeat_time if acting else None,
    )


def _milli(amount: str | float | None) -> MilliCpu | None:
    try:
        return None if amount is None else parse_milli_cpu(str(amount))
    except QuantityError:
        return None


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    state: _ContainerState = _ContainerState()


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def read_agent_pod(raw: msgspec.Raw | bytes) -> AgentPod:
    pod = msgspec.json.decode(raw, type=_Pod)
    meta = pod.metadata
    trouble = _trouble(pod.status)
    return AgentPod(meta.name, meta.namespace, pod.spec.node_name, meta.creation_timestamp, trouble)


def _trouble(status: _PodStatus) -> str:
    if any(each.type == READY and each.status == "True" for each in status.conditions):
        return ""
    waiting = (each.state.waiting for each in status.container_statuses)
    reason = next((each.reason for each in waiting if each and each.reason), "")
    return reason or status.phase or "not ready"


class _PolicyStatus(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    summary: str = ""
    nodes: int | None = None
    conditions: tuple[Condition, ...] = ()


class _Policy(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _PolicyStatus = _PolicyStatus()


def read_judged_policy(raw: msgspec.Raw | bytes, kind: str) -> JudgedPolicy:
    found = msgspec.json.decode(raw, type=_Policy)
    status = found.status
    return JudgedPolicy(
        kind,
        found.metadata.name,
        found.metadata.generation,
        status.observed_generation,
        status.summary,
        status.nodes,
        status.conditions,
    )


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


def read_lease(raw: msgspec.Raw | bytes) -> SeenLease:
    spec = msgspec.json.decode(raw, type=_Lease).spec
    return SeenLease(spec.holder_identity or "", spec.renew_time, spec.lease_duration_seconds or 0)
