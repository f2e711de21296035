"""Kubernetes objects: what every object has, Node, ConfigMap. Pods are in kubernetes_pod.

Objects without a name are refused; fields that are not used here are ignored.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.decoding import parse_bool
from slackwater.contract.document import Field, elements, member, text, texts
from slackwater.contract.pod_resources import read_amounts
from slackwater.contract.schema import BOUND, PARSE
from slackwater.model.gap import Gap
from slackwater.model.problem import DocumentName, InvalidError, quoted
from slackwater.model.units import Bytes, MilliCpu, QuantityError, parse_bytes, parse_milli_cpu

_QUANTITY = "a quantity such as 250m, 0.5 or 2Gi"
_LARGEST_AMOUNT = 2**63 - 1
# Kubernetes writes UTC to the second; YAML's own type for a time prints a space and +00:00.
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]{1,9})?"
    r"(?:Z|\+00:00)",
    re.ASCII,
)
_TIME_WANTED = "a time of UTC such as 2026-01-31T12:00:00Z"
_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_FEBRUARY = 2
#: 1970 years and their leap days.
_DAYS_TO_1970 = 365 * 1970 + 1969 // 4 - 1969 // 100 + 1969 // 400


class ObjectHeader(msgspec.Struct, frozen=True):
    """What every object has. `uid` is empty where it is not stated, as in a file written by
    hand."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Head(ObjectHeader, frozen=True, kw_only=True):
    """An object of any kind, without its spec and status."""

    kind: str
    terminating: bool = False


class Node(ObjectHeader, frozen=True, kw_only=True):
    """The node as the cluster sees it. An amount that is not stated is a Gap."""

    allocatable_cpu: MilliCpu | Gap
    allocatable_memory: Bytes | Gap = Gap("the Node object states no allocatable memory")
    #: Extended resources that pods may have, by name.
    allocatable_extended: Mapping[str, int | Gap] = {}


class ConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap's texts; binaryData is not read."""

    namespace: str
    name: str
    data: dict[str, str]


def objects_in(document: object, source: str) -> tuple[object, ...]:
    """The objects of one document: itself, or the items of a List (`kubectl get -o yaml`)."""
    field = Field(source, "", document)
    if optional_text(member(field, "kind")) != "List":
        return (document,)
    items = member(field, "items")
    return () if items is None else tuple(each.value for each in elements(items))


def kind_of(document: object, source: str) -> str:
    """The object's kind; empty where it states none, as a bare configuration does."""
    return optional_text(member(Field(source, "", document), "kind"))


def read_head(document: object, source: str) -> tuple[Head, Field]:
    """What every object has, and the object as a field whose sentences name it."""
    field = Field(source, "", document)
    kind = optional_text(member(field, "kind")) or "object"
    metadata = member(field, "metadata")
    name = None if metadata is None else member(metadata, "name")
    if metadata is None or name is None or not text(name):
        raise field.at("metadata", None).at("name", None).refused("the object's name")
    namespace = optional_text(member(metadata, "namespace"))
    named = Field(DocumentName(source, kind, namespace, text(name)), "", document)
    metadata = Field(named.source, "metadata", metadata.value)
    head = Head(
        text(name),
        namespace,
        optional_text(member(metadata, "uid")),
        optional_texts(member(metadata, "labels")),
        optional_texts(member(metadata, "annotations")),
        kind=kind,
        terminating=member(metadata, "deletionTimestamp") is not None,
    )
    return head, named


def read_node(document: object, source: str) -> Node:
    head, field = read_head(document, source)
    status = member(field, "status")
    allocatable = None if status is None else member(status, "allocatable")
    return Node(
        head.name,
        uid=head.uid,
        labels=head.labels,
        annotations=head.annotations,
        allocatable_cpu=_allocatable_cpu(allocatable),
        allocatable_memory=_allocatable_memory(allocatable),
        allocatable_extended=read_amounts(allocatable),
    )


def read_config_map(document: object, source: str) -> ConfigMap:
    head, field = read_head(document, source)
    return ConfigMap(head.namespace, head.name, optional_texts(member(field, "data")))


def _allocatable_cpu(amounts: Field | None) -> MilliCpu | Gap:
    stated = None if amounts is None else member(amounts, "cpu")
    return Gap("the Node object states no allocatable cpu") if stated is None else milli_cpu(stated)


def _allocatable_memory(amounts: Field | None) -> Bytes | Gap:
    stated = None if amounts is None else member(amounts, "memory")
    return Gap("the Node object states no allocatable memory") if stated is None else size(stated)


def milli_cpu(field: Field) -> MilliCpu:
    """A CPU quantity, zero or more."""
    return MilliCpu(_amount(field, parse_milli_cpu))


def size(field: Field) -> Bytes:
    """A memory quantity, zero or more."""
    return Bytes(_amount(field, parse_bytes))


def _amount(field: Field, parse: Callable[[str], int]) -> int:
    """Kubernetes takes a bare number for a quantity as well: cpu: 2, cpu: 0.5."""
    value = field.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise field.refused(_QUANTITY)
    try:
        amount = parse(value if isinstance(value, str) else quoted(value))
    except QuantityError:
        raise field.refused(_QUANTITY) from None
    if not 0 <= amount <= _LARGEST_AMOUNT:
        raise field.refused("a quantity from 0 to what 64 bits hold")
    return amount


def seconds_since_1970(field: Field) -> int:
    """metav1.Time. Pure arithmetic: what is read of an object knows no clock."""
    value = field.value
    written = str(value) if type(value).__name__ == "datetime" else value
    match = _TIME.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise field.refused(_TIME_WANTED)
    year, month, day, hour, minute, second = map(int, match.groups())
    if not 1 <= month <= 12 or year < 1970:
        raise field.refused(_TIME_WANTED)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = _DAYS_BEFORE_MONTH[month] - _DAYS_BEFORE_MONTH[month - 1]
    if month == _FEBRUARY and leap:
        longest += 1
    if not 1 <= day <= longest or hour > 23 or minute > 59 or second > 60:
        raise field.refused(_TIME_WANTED)
    before = year - 1
    days = 365 * year + before // 4 - before // 100 + before // 400 - _DAYS_TO_1970
    days += _DAYS_BEFORE_MONTH[month - 1] + day - 1 + (leap and month > _FEBRUARY)
    return ((days * 24 + hour) * 60 + minute) * 60 + second


def _parsed_cpu(value: object) -> MilliCpu | None:
    try:
        return milli_cpu(Field("", "", value))
    except InvalidError:
        return None


#: A CPU quantity as a field of a Struct, zero or more.
CpuQuantity = Annotated[MilliCpu, Meta(extra={PARSE: _parsed_cpu, BOUND: _QUANTITY})]


def optional_text(field: Field | None) -> str:
    return "" if field is None else text(field)


def optional_texts(field: Field | None) -> dict[str, str]:
    return {} if field is None else texts(field)


def is_true(labels: Mapping[str, str], key: str) -> bool:
    """Whether a label says true, in any of Go's spellings; anything else says nothing."""
    return parse_bool(labels.get(key, "")) is True


class LocalReference(msgspec.Struct, frozen=True):
    """Another object of the same namespace."""

    kind: str
    name: str


class OwnerReference(LocalReference, frozen=True):
    """An owner. The one with `controller` replaces this object when it is deleted."""

    uid: str
    controller: bool = False


class ConditionState(msgspec.Struct, frozen=True):
    """`status` is True, False or Unknown, as Kubernetes spells them; `reason` is one word and
    `message` one sentence."""

    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class Condition(ConditionState, frozen=True, rename="camel"):
    """A condition in an object's status, of any type."""

    type: str = ""
    last_heartbeat_time: str | None = None


class ObjectMeta(ObjectHeader, frozen=True, rename="camel"):
    """metav1.ObjectMeta, as far as it is used. Times are RFC 3339."""

    resource_version: str = ""
    generation: int = 0
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.owner_references if owner.controller), None)

    @property
    def place(self) -> str:
        """For a sentence."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class KubernetesObject(msgspec.Struct, frozen=True):
    """An object of the API server; each kind adds its spec and status."""

    metadata: ObjectMeta
