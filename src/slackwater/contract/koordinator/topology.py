"""The NodeResourceTopology that a node's agent writes: what its CPUs are, and a zone for each NUMA
node. Names and formats are Koordinator's.

CPU amounts of zones are in the unit in which pods and the Node declare them: while normalization is
on, they are amplified like the Node's allocatable CPU, an attribute of the zone has the raw amount,
and an annotation tells Koordinator's scheduler not to amplify them once more. What the kubelet
reserves by number (reservedSystemCPUs) is not allocatable in its zone. Resources that other
programs add to our zones, such as batch-cpu, stay.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.document import parse_json
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    BASIC_INFO_ANNOTATION,
    ONE,
    RATIO_ANNOTATION,
    CpuBasicInfo,
    Hundredths,
    amplify,
    format_amplification,
    parse_ratio,
    read_basic_info,
    to_hundredths,
)
from slackwater.contract.kubernetes import KubernetesObject, ObjectHeader
from slackwater.contract.resources import NODE_TOPOLOGIES
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.model.units import Bytes, QuantityError, parse_quantity

MANAGED_BY = "app.kubernetes.io/managed-by"
#: The value of that label on objects that this agent writes.
SLACKWATER = "Slackwater"
#: Of a zone: its CPUs, not amplified, and how many of them the kubelet keeps from pods.
RAW_CPU = "slackwater.io/raw-cpu"
RESERVED_CPUS = "slackwater.io/reserved-cpus"
_ATTRIBUTES = (RAW_CPU, RESERVED_CPUS)
#: Where the kubelet's topology manager is off, or nobody knows.
NO_POLICY = "None"
_NODE_ZONE = "Node"
_CPU = "cpu"
_MEMORY = "memory"
_MILLI = 1000
_HIGHEST_AMPLIFICATION = 1000


class ZoneFacts(msgspec.Struct, frozen=True):
    """A NUMA node: online CPUs, of which the kubelet keeps `reserved` from pods, and memory in
    bytes, of which pages that are set aside as huge ones are `hugepages`, by the resource's name.
    """

    number: int
    cpus: int
    memory: Bytes | None = None
    hugepages: dict[str, Bytes] = {}
    reserved: int = 0


class TopologyFacts(msgspec.Struct, frozen=True):
    """What a machine tells about itself."""

    info: CpuBasicInfo
    zones: tuple[ZoneFacts, ...]
    policy: str = NO_POLICY


class ReportedInfo(msgspec.Struct, frozen=True):
    """What a NodeResourceTopology, by whomever it is, says about a node's CPUs."""

    node: str
    info: CpuBasicInfo | Gap
    managed_by: str = ""


def read_reported_info(raw: msgspec.Raw | bytes) -> ReportedInfo:
    """Of any version of the kind, and without its zones: the manager keeps thousands of them."""
    found = msgspec.json.decode(raw, type=KubernetesObject).metadata
    info = read_basic_info(found.annotations, found.name)
    return ReportedInfo(found.name, info, found.labels.get(MANAGED_BY, ""))


def zone_ratio(annotations: Mapping[str, str], node: str) -> Hundredths | Gap:
    """By how much the CPUs of a Node's zones are multiplied: as its allocatable CPU, if
    normalization is on there, and not at all if it is off. A Gap: what stands there stays."""
    text = annotations.get(RATIO_ANNOTATION)
    normalization = ONE if text is None else parse_ratio(text, node)
    if isinstance(normalization, Gap) or normalization == ONE:
        return normalization
    return _amplification(annotations) or normalization


def _amplification(annotations: Mapping[str, str]) -> Hundredths | None:
    """The amplification ratio of CPU; None where there is none that can be read."""
    try:
        found = parse_json(annotations.get(AMPLIFICATION_ANNOTATION, "{}"), "")
    except InvalidError:
        return None
    cpu = found.get(_CPU) if isinstance(found, dict) else None
    if isinstance(cpu, bool) or not isinstance(cpu, int | float):
        return None
    return to_hundredths(cpu) if 1 <= cpu <= _HIGHEST_AMPLIFICATION else None


def topology_object(node: ObjectHeader, facts: TopologyFacts, ratio: Hundredths) -> dict[str, Any]:
    """The whole object. It goes with its Node."""
    annotations = {BASIC_INFO_ANNOTATION: format_basic_info(facts.info)}
    if ratio > ONE:
        annotations[AMPLIFICATION_ANNOTATION] = format_amplification({_CPU: ratio})
    return {
        "apiVersion": NODE_TOPOLOGIES.api_version,
        "kind": NODE_TOPOLOGIES.kind,
        "metadata": {
            "name": node.name,
            "labels": {MANAGED_BY: SLACKWATER},
            "annotations": annotations,
            "ownerReferences": [_owner(node)],
        },
        "topologyPolicies": [facts.policy],
        "zones": [_zone(each, ratio) for each in facts.zones],
    }


def format_basic_info(info: CpuBasicInfo) -> str:
    """Fields that are empty or false are left out."""
    return msgspec.json.encode(info).decode()


def _owner(node: ObjectHeader) -> dict[str, object]:
    """Without blockOwnerDeletion: where OwnerReferencesPermissionEnforcement is on, that needs a
    right to change the Node's finalizers."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node.name,
        "uid": node.uid,
        "controller": True,
    }


def _zone(zone: ZoneFacts, ratio: Hundredths) -> dict[str, object]:
    there, for_pods = (
        _milli_text(amplify(cpus * _MILLI, ratio))
        for cpus in (zone.cpus, zone.cpus - zone.reserved)
    )
    resources = [_row(_CPU, for_pods) | {"capacity": there}]
    if zone.memory is not None:
        free = max(zone.memory - sum(zone.hugepages.values()), 0)
        resources.append(_row(_MEMORY, str(free)) | {"capacity": str(zone.memory)})
    resources += (_row(name, str(size)) for name, size in sorted(zone.hugepages.items()))
    told: dict[str, object] = {"name": zone_name(zone), "type": _NODE_ZONE}
    attributes = _attributes(zone, ratio)
    if attributes:
        told["attributes"] = attributes
    return {**told, "resources": resources}


def _attributes(zone: ZoneFacts, ratio: Hundredths) -> list[dict[str, str]]:
    """Only those that say something."""
    told = ((RAW_CPU, zone.cpus, ratio > ONE), (RESERVED_CPUS, zone.reserved, zone.reserved))
    return [{"name": name, "value": str(cpus)} for name, cpus, is_told in told if is_told]


def zone_name(zone: ZoneFacts) -> str:
    return f"node-{zone.number}"


def _row(name: str, amount: str) -> dict[str, str]:
    return {"name": name, "capacity": amount, "allocatable": amount, "available": amount}


def _milli_text(milli: int) -> str:
    whole, rest = divmod(milli, _MILLI)
    return f"{milli}m" if rest else str(whole)


class SeenTopology(msgspec.Struct, frozen=True):
    """An object as the API server has it. `document` is all of it."""

    document: dict[str, Any]

    @property
    def managed_by(self) -> str:
        return str(self._part("labels").get(MANAGED_BY, ""))

    @property
    def is_ours(self) -> bool:
        return self.managed_by == SLACKWATER

    @property
    def uid(self) -> str:
        return str(self.document.get("metadata", {}).get("uid", ""))

    def differs(self, wanted: Mapping[str, Any]) -> bool:
        """Whether anything that we write is not as wanted, by value: 1000m is 1."""
        return self.corrected(wanted) != self.document

    def corrected(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """This object as wanted: what is not ours in it stays, and so does the spelling of an
        amount that is right."""
        meta, ours = self.document.get("metadata", {}), wanted["metadata"]
        annotations = {**self._part("annotations"), **ours["annotations"]}
        if AMPLIFICATION_ANNOTATION not in ours["annotations"]:
            annotations.pop(AMPLIFICATION_ANNOTATION, None)
        metadata = {
            **meta,
            "labels": {**self._part("labels"), **ours["labels"]},
            "annotations": annotations,
            "ownerReferences": ours["ownerReferences"],
        }
        present = {
            each["name"]: each
            for each in _mappings(self.document.get("zones"))
            if isinstance(each.get("name"), str)
        }
        zones = [_corrected_zone(present.get(each["name"], {}), each) for each in wanted["zones"]]
        return {
            **self.document,
            "metadata": metadata,
            "topologyPolicies": wanted["topologyPolicies"],
            "zones": zones,
        }

    @property
    def annotations(self) -> dict[str, str]:
        return self._part("annotations")

    def _part(self, name: str) -> dict[str, str]:
        found = self.document.get("metadata", {}).get(name)
        return found if isinstance(found, dict) else {}


def _corrected_zone(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    rows = {row["name"]: row for row in wanted["resources"]}
    kept = [
        each
        for each in _mappings(present.get("resources"))
        if not _is_native(str(each.get("name"))) or _says(each, rows.get(str(each.get("name"))))
    ]
    there = {each.get("name") for each in kept}
    resources = [*kept, *(row for name, row in rows.items() if name not in there)]
    ours = wanted.get("attributes", [])
    others = [
        each
        for each in _mappings(present.get("attributes"))
        if each.get("name") not in _ATTRIBUTES or each in ours
    ]
    attributes = [*others, *(each for each in ours if each not in others)]
    told = {**present, "name": wanted["name"], "type": wanted["type"], "resources": resources}
    told.pop("attributes", None)
    return {**told, "attributes": attributes} if attributes else told


def _is_native(name: str) -> bool:
    """What the machine itself has, and nobody but us reports in our zones."""
    return name in (_CPU, _MEMORY) or name.startswith("hugepages-")


def _says(row: Mapping[str, Any], wanted: Mapping[str, str] | None) -> bool:
    if wanted is None or row.keys() != wanted.keys():
        return False
    return all(_same_amount(row[key], value) for key, value in wanted.items() if key != "name")


def _same_amount(one: object, other: str) -> bool:
    try:
        mine, theirs = parse_quantity(str(one)), parse_quantity(other)
    except QuantityError:
        return False
    return mine.numerator * theirs.denominator == theirs.numerator * mine.denominator


def _mappings(listed: object) -> list[dict[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def shown_ratio(seen: SeenTopology | None) -> Hundredths:
    """By which an object's zones are amplified now."""
    return ONE if seen is None else _amplification(seen.annotations) or ONE


def read_seen_topology(raw: msgspec.Raw | bytes) -> SeenTopology:
    """Raises DecodeError where it is no object."""
    found = msgspec.json.decode(raw, type=dict[str, Any])
    meta = found.get("metadata")
    return SeenTopology(found if isinstance(meta, dict) else {**found, "metadata": {}})
