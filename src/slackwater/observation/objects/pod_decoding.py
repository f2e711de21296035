"""Decodes of a pod only what somebody reads: what a tenant writes there must not fill the agent.

A pod can be 1.5 MiB, most of it environment, annotations and managed fields. Those are skipped
without becoming objects, and of the rest no pod may keep more than a bounded part.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from slackwater.contract.crane.cpu_policy import CPU_MANAGER, CPU_POLICY
from slackwater.contract.koordinator.pod import RESOURCE_STATUS
from slackwater.contract.kubernetes_pod import MIRROR, Pod, read_pod
from slackwater.contract.pod_protection import CONFIG_SOURCE, EXEMPT
from slackwater.contract.volcano.pod import (
    COLOCATION_CONFIG,
    ENABLE_QUOTA_BURST,
    QOS_LEVEL,
    QUOTA_BURST_TIME,
)
from slackwater.model.problem import DocumentName, InvalidError, Problem

#: Every annotation of a pod that is read, and how much of it: a word is longer than all words that
#: mean something, and JSON that is cut is no JSON, so that a longer value is told as a bad one.
_WORD, _JSON = 128, 4096
POD_ANNOTATIONS = {
    QOS_LEVEL: _WORD,
    ENABLE_QUOTA_BURST: _WORD,
    QUOTA_BURST_TIME: _WORD,
    COLOCATION_CONFIG: _JSON,
    CPU_MANAGER: _WORD,
    CPU_POLICY: _WORD,
    RESOURCE_STATUS: _JSON,
    EXEMPT: _WORD,
    CONFIG_SOURCE: _WORD,
    MIRROR: _WORD,
}
#: What is read of one pod, as JSON; of an ordinary pod with three containers that is 2 KiB.
_MOST_READ = 16 << 10
#: As objects these are many times as large as their shortest texts.
_MOST_LABELS, _MOST_CONTAINERS = 128, 64
_Part = msgspec.Raw | UnsetType

_Annotations = msgspec.defstruct(
    "_Annotations",
    [
        (f"annotation_{number}", Any, msgspec.field(default=UNSET, name=name))
        for number, name in enumerate(POD_ANNOTATIONS)
    ],
)


class _Metadata(msgspec.Struct, rename="camel"):
    name: _Part = UNSET
    namespace: _Part = UNSET
    uid: _Part = UNSET
    labels: _Part = UNSET
    annotations: _Annotations | None = None  # type: ignore[valid-type]
    owner_references: _Part = UNSET
    creation_timestamp: _Part = UNSET
    deletion_timestamp: _Part = UNSET


class _Container(msgspec.Struct, rename="camel"):
    name: _Part = UNSET
    resources: _Part = UNSET
    ports: _Part = UNSET
    restart_policy: _Part = UNSET


class _Spec(msgspec.Struct, rename="camel"):
    node_name: _Part = UNSET
    priority: _Part = UNSET
    priority_class_name: _Part = UNSET
    resources: _Part = UNSET
    overhead: _Part = UNSET
    init_containers: list[_Container] | None = None
    containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None


class _ContainerStatus(msgspec.Struct):
    name: _Part = UNSET
    container_id: _Part = msgspec.field(default=UNSET, name="containerID")


class _Status(msgspec.Struct, rename="camel"):
    phase: _Part = UNSET
    qos_class: _Part = UNSET
    start_time: _Part = UNSET
    pod_ip: _Part = msgspec.field(default=UNSET, name="podIP")
    init_container_statuses: list[_ContainerStatus] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    ephemeral_container_statuses: list[_ContainerStatus] | None = None


class _PodParts(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class _Name(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _NamedPod(msgspec.Struct):
    metadata: _Name


_PARTS = msgspec.json.Decoder(_PodParts)
_NAMES = msgspec.json.Decoder(_NamedPod)


def decode_pod(raw: msgspec.Raw, source: str) -> Pod:
    """Raises InvalidError, and msgspec's errors where it is no JSON."""
    try:
        parts = msgspec.json.encode(_with_short_annotations(_PARTS.decode(raw)))
    except msgspec.ValidationError:
        # No API server sends it: the reader of all fields has the sentence for it.
        parts = bytes(raw)
    if len(parts) > _MOST_READ:
        bound = f"at most {_MOST_READ} bytes of labels, containers, resources and ports"
        raise _too_large(raw, source, "", f"{len(parts)} bytes", bound)
    found = msgspec.json.decode(parts)
    if not isinstance(found, dict):
        raise InvalidError(Problem(source, "no object", "a Pod"))
    pod = read_pod({"apiVersion": "v1", "kind": "Pod", **found}, source)
    if len(pod.labels) > _MOST_LABELS:
        seen, bound = f"{len(pod.labels)} labels", f"at most {_MOST_LABELS} labels"
        raise _too_large(raw, source, "metadata.labels", seen, bound)
    if (count := len(pod.resources.containers)) > _MOST_CONTAINERS:
        seen, bound = f"{count} containers", f"at most {_MOST_CONTAINERS} containers of all kinds"
        raise _too_large(raw, source, "spec", seen, bound)
    return pod


def _too_large(raw: msgspec.Raw, source: str, path: str, seen: str, bound: str) -> InvalidError:
    name = _NAMES.decode(raw).metadata
    about = DocumentName(source, "Pod", name.namespace, name.name)
    return InvalidError(Problem(path, seen, bound, document=about))


def _with_short_annotations(parts: _PodParts) -> _PodParts:
    annotations = parts.metadata.annotations if parts.metadata else None
    for field, most in zip(_Annotations.__struct_fields__, POD_ANNOTATIONS.values(), strict=True):
        text = getattr(annotations, field, UNSET)
        if isinstance(text, str):
            setattr(annotations, field, text[:most])
    return parts
