"""Pods: metadata, containers of every kind, resources, status.

Owns the pod's field paths and the defaults that the API server would have filled in, so that a
pod written by hand reads like one from a cluster. Refuses a pod without a uid: it has no cgroup.
"""

import enum
import re
from collections.abc import Mapping

import msgspec

from slackwater.contract.document import Field, elements, flag, member, text, whole
from slackwater.contract.kubernetes import (
    Head,
    ObjectHeader,
    milli_cpu,
    optional_text,
    read_head,
    seconds_since_1970,
    size,
)
from slackwater.contract.pod_resources import (
    Container,
    ContainerKind,
    Limits,
    PodResources,
    Requests,
    qos_tier,
    read_amounts,
    read_requests,
)
from slackwater.model.cgroup import Tier
from slackwater.model.units import UNLIMITED
from slackwater.model.workload import MemoryRatios

#: The kubelet's mark on the API copy of a static pod: the uid in the names of its cgroups. Anyone
#: may write it; contract.mirror_pod decides whom to believe.
MIRROR = "kubernetes.io/config.mirror"
# As observation.cgroups.paths: a uuid, 32 hex digits, or a DNS label that a person chose.
_UID = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_UID_WANTED = "a pod's uid: at most 63 lower-case letters, digits and dashes"
_TIERS = {
    "Guaranteed": Tier.GUARANTEED,
    "Burstable": Tier.BURSTABLE,
    "BestEffort": Tier.BESTEFFORT,
}
_LISTS = (
    ("initContainers", "initContainerStatuses", ContainerKind.INIT),
    ("containers", "containerStatuses", ContainerKind.MAIN),
    ("ephemeralContainers", "ephemeralContainerStatuses", ContainerKind.EPHEMERAL),
)
_LARGEST_PORT = 65535
#: One for all pods: most name none.
_NO_PORTS: Mapping[str, int] = {}


class Phase(enum.Enum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class MirrorClaim(msgspec.Struct, frozen=True):
    """What a pod says about being a static pod's copy: the uid in the annotation, and the name and
    uid of the Node that controls it; empty where its controller is something else."""

    static_uid: str
    node_name: str = ""
    node_uid: str = ""


class Pod(ObjectHeader, frozen=True, kw_only=True):
    """One pod. `uid` is the object's, `cgroup_uid` the one in its cgroups' names: the same, until
    contract.mirror_pod believes the claim in `mirror`."""

    cgroup_uid: str
    terminating: bool
    node_name: str
    priority: int
    phase: Phase
    tier: Tier
    resources: PodResources
    mirror: MirrorClaim | None = None
    priority_class: str = ""
    #: Seconds since 1970: when its node took it, else when it was created; None where neither is
    #: stated.
    started: int | None = None
    #: Where its containers can be reached, and their named ports. Of two ports of one name that of
    #: the first container counts, as for a Service.
    address: str = ""
    ports: Mapping[str, int] = {}
    #: Of the ColocationConfiguration that is for this pod; they count before its annotation.
    memory_ratios: MemoryRatios | None = None

    def is_finished(self) -> bool:
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)


def read_pod(document: object, source: str) -> Pod:
    """A Pod object. Without a status it is Unknown, and its QoS class follows from its spec."""
    head, field = read_head(document, source)
    spec = member(field, "spec") or field.at("spec", {})
    status = member(field, "status") or field.at("status", {})
    resources = _resources(spec, status)
    priority = member(spec, "priority")
    uid = _uid(head.uid, field.at("metadata", None).at("uid", head.uid or None))
    return Pod(
        name=head.name,
        namespace=head.namespace or "default",
        uid=uid,
        labels=head.labels,
        annotations=head.annotations,
        cgroup_uid=uid,
        terminating=head.terminating,
        node_name=optional_text(member(spec, "nodeName")),
        priority=0 if priority is None else whole(priority),
        phase=_phase(member(status, "phase")),
        tier=_tier(member(status, "qosClass"), resources),
        resources=resources,
        mirror=_mirror_claim(head, field),
        priority_class=optional_text(member(spec, "priorityClassName")),
        started=_started(field, status),
        address=optional_text(member(status, "podIP")),
        ports=_named_ports(spec),
    )


def _started(field: Field, status: Field) -> int | None:
    metadata = member(field, "metadata") or field.at("metadata", {})
    stated = member(status, "startTime") or member(metadata, "creationTimestamp")
    return None if stated is None else seconds_since_1970(stated)


def _named_ports(spec: Field) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for listed, _, _ in _LISTS:
        containers = member(spec, listed)
        for container in () if containers is None else elements(containers):
            ports = member(container, "ports")
            for port in () if ports is None else elements(ports):
                name, number = optional_text(member(port, "name")), member(port, "containerPort")
                if name and number is not None:
                    found.setdefault(name, _port(number))
    return found or _NO_PORTS


def _port(field: Field) -> int:
    number = whole(field)
    if not 1 <= number <= _LARGEST_PORT:
        raise field.refused(f"a port from 1 to {_LARGEST_PORT}")
    return number


def _uid(uid: str, field: Field) -> str:
    if not _UID.fullmatch(uid):
        raise field.refused(_UID_WANTED)
    return uid


def _mirror_claim(head: Head, field: Field) -> MirrorClaim | None:
    claimed = head.annotations.get(MIRROR)
    if claimed is None:
        return None
    metadata = member(field, "metadata")
    owners = None if metadata is None else member(metadata, "ownerReferences")
    for owner in () if owners is None else elements(owners):
        controller = member(owner, "controller")
        if controller is not None and flag(controller):
            kind, name, uid = (optional_text(member(owner, key)) for key in ("kind", "name", "uid"))
            return MirrorClaim(claimed, name, uid) if kind == "Node" else MirrorClaim(claimed)
    return MirrorClaim(claimed)


def _phase(field: Field | None) -> Phase:
    if field is None or not text(field):
        return Phase.UNKNOWN
    known = {phase.value: phase for phase in Phase}
    if text(field) not in known:
        raise field.refused(f"one of {', '.join(known)}")
    return known[text(field)]


def _tier(field: Field | None, resources: PodResources) -> Tier:
    if field is None or not text(field):
        return qos_tier(resources)
    if text(field) not in _TIERS:
        raise field.refused(f"one of {', '.join(_TIERS)}")
    return _TIERS[text(field)]


def _resources(spec: Field, status: Field) -> PodResources:
    own = member(spec, "resources")
    overhead = member(spec, "overhead")
    return PodResources(
        tuple(
            container
            for listed, statuses, kind in _LISTS
            for container in _containers(member(spec, listed), member(status, statuses), kind)
        ),
        Requests() if own is None else _requests(member(own, "requests")),
        Limits() if own is None else _limits(member(own, "limits")),
        _requests(overhead),
    )


def _containers(
    field: Field | None, statuses: Field | None, kind: ContainerKind
) -> list[Container]:
    ids = {} if statuses is None else dict(_id(each) for each in elements(statuses))
    return [] if field is None else [_container(each, ids, kind) for each in elements(field)]


def _id(status: Field) -> tuple[str, str]:
    return optional_text(member(status, "name")), optional_text(member(status, "containerID"))


def _container(field: Field, ids: dict[str, str], kind: ContainerKind) -> Container:
    name = member(field, "name")
    if name is None or not text(name):
        raise field.at("name", None).refused("the container's name")
    restart = optional_text(member(field, "restartPolicy"))
    if kind is ContainerKind.INIT and restart == "Always":
        kind = ContainerKind.SIDECAR
    resources = member(field, "resources") or field.at("resources", {})
    limits = _limits(member(resources, "limits"))
    requests = _completed(resources, limits)
    extended = read_amounts(member(resources, "limits"))
    return Container(
        text(name),
        kind,
        ids.get(text(name), ""),
        requests,
        limits,
        read_requests(member(resources, "requests"), extended),
        extended,
    )


def _completed(resources: Field, limits: Limits) -> Requests:
    """The requests, where they are absent the limits: SetDefaults_Pod in Kubernetes."""
    field = member(resources, "requests") or resources.at("requests", {})
    cpu, memory = member(field, "cpu"), member(field, "memory")
    asked = _requests(field)
    if cpu is None and limits.cpu is not UNLIMITED:
        asked = Requests(limits.cpu, asked.memory)
    if memory is None and limits.memory is not UNLIMITED:
        asked = Requests(asked.cpu, limits.memory)
    if limits.cpu is not UNLIMITED and cpu is not None and asked.cpu > limits.cpu:
        raise cpu.refused(f"at most the limit, which is {limits.cpu}m")
    if limits.memory is not UNLIMITED and memory is not None and asked.memory > limits.memory:
        raise memory.refused(f"at most the limit, which is {limits.memory} bytes")
    return asked


def _requests(field: Field | None) -> Requests:
    cpu, memory = (None, None) if field is None else (member(field, "cpu"), member(field, "memory"))
    asked = Requests() if cpu is None else Requests(milli_cpu(cpu))
    return asked if memory is None else Requests(asked.cpu, size(memory))


def _limits(field: Field | None) -> Limits:
    """A limit of zero is none: the kubelet writes no quota for it."""
    asked = _requests(field)
    return Limits(asked.cpu or UNLIMITED, asked.memory or UNLIMITED)
