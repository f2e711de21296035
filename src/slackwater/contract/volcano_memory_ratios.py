"""Volcano's memory QoS ratios, and the ColocationConfiguration objects that give them to pods.

Owns the keys of memoryQos with their defaults and bounds, and which object counts for a pod. In
a cluster Volcano's controller copies the ratios into the pod's annotation, which volcano_pod
reads; without that controller, in standalone mode, the objects themselves are read.
Refuses wrong types and ratios out of bounds; a selector that selects nothing is a warning.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.contract.document import Field, member, members, whole
from slackwater.contract.kubernetes import optional_text, read_head
from slackwater.contract.label_selector import LabelSelector, flaw, read_selector

API_VERSION = "config.volcano.sh/v1alpha1"
KIND = "ColocationConfiguration"
MEMORY_QOS, SELECTOR = "memoryQos", "selector"

_LARGEST_RATIO = 100
_RATIO_WANTED = f"a whole number from 0 to {_LARGEST_RATIO} (percent)"
_DEFAULT_NAMESPACE = "default"
# Kubernetes writes UTC to the second; YAML's own type for a time prints a space and +00:00.
_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?P<part>\.[0-9]{1,9})?(?:Z|\+00:00)",
    re.ASCII,
)
_TIME_WANTED = "a time of UTC such as 2026-01-31T12:00:00Z"


class MemoryQosRatios(msgspec.Struct, frozen=True):
    """Percents: `high` of the memory limit, 100 being no throttling; `low` and `min` of the
    request. The defaults set nothing."""

    high: int = msgspec.field(default=_LARGEST_RATIO, name="highRatio")
    low: int = msgspec.field(default=0, name="lowRatio")
    min: int = msgspec.field(default=0, name="minRatio")


_RATIOS = msgspec.structs.fields(MemoryQosRatios)


class PodConfiguration(msgspec.Struct, frozen=True):
    """One ColocationConfiguration, for pods of its namespace. Without a usable selector it is
    for no pod. `created` sorts by time and is empty where the object does not say."""

    namespace: str
    name: str
    created: str
    selector: LabelSelector | None
    ratios: MemoryQosRatios
    warnings: tuple[str, ...] = ()

    def is_for(self, labels: Mapping[str, str], namespace: str) -> bool:
        selector = self.selector
        return self.namespace == namespace and selector is not None and selector.selects(labels)


def read_ratios(spec: Field) -> MemoryQosRatios:
    """The ratios of a spec with a memoryQos; what it does not state is the default.

    Volcano's agent reads a missing highRatio as 0, which is a memory.high of nothing.
    """
    section = member(spec, MEMORY_QOS)
    if section is None:
        return MemoryQosRatios()
    stated = {info.name: member(section, info.encode_name) for info in _RATIOS}
    return MemoryQosRatios(**{name: _ratio(each) for name, each in stated.items() if each})


def _ratio(field: Field) -> int:
    if not 0 <= whole(field) <= _LARGEST_RATIO:
        raise field.refused(_RATIO_WANTED)
    return whole(field)


def read_colocation_configuration(document: object, source: str) -> PodConfiguration:
    """A ColocationConfiguration object."""
    head, field = read_head(document, source)
    version = optional_text(member(field, "apiVersion"))
    if version != API_VERSION:
        raise field.at("apiVersion", version or None).refused(API_VERSION)
    spec = member(field, "spec") or field.at("spec", {})
    selector, warnings = _selector(spec)
    return PodConfiguration(
        head.namespace or _DEFAULT_NAMESPACE,
        head.name,
        _created(field),
        selector,
        read_ratios(spec),
        (*warnings, *_strangers(spec)),
    )


def ratios_for(
    configurations: Iterable[PodConfiguration], labels: Mapping[str, str], namespace: str
) -> MemoryQosRatios | None:
    """The ratios of the newest object for a pod; of equally new ones the last by name counts.

    Volcano leaves that last case to chance.
    """
    found = [each for each in configurations if each.is_for(labels, namespace)]
    newest = max(found, key=lambda each: (each.created, each.name), default=None)
    return None if newest is None else newest.ratios


def _selector(spec: Field) -> tuple[LabelSelector | None, tuple[str, ...]]:
    """As in Kubernetes no selector selects nothing and an empty one everything."""
    written = member(spec, SELECTOR)
    if written is None:
        return None, (f"{spec.where()} has no selector and is for no pod",)
    selector = read_selector(written)
    bad = flaw(selector)
    if bad is not None:
        return None, (f"{bad.sentence()}; until then it is for no pod",)
    return selector, ()


def _strangers(spec: Field) -> tuple[str, ...]:
    """A misspelt ratio is a ratio that is silently not set."""
    section = member(spec, MEMORY_QOS) or spec.at(MEMORY_QOS, {})
    known = (MEMORY_QOS, SELECTOR), tuple(info.encode_name for info in _RATIOS)
    return tuple(
        f"{each.where()} is not known and has no effect"
        for field, names in zip((spec, section), known, strict=True)
        for key, each in members(field)
        if key not in names
    )


def _created(field: Field) -> str:
    """The creation time as text that sorts. YAML makes a datetime of an unquoted one."""
    metadata = member(field, "metadata") or field.at("metadata", {})
    stated = member(metadata, "creationTimestamp")
    if stated is None:
        return ""
    value = stated.value
    written = str(value) if type(value).__name__ == "datetime" else value
    match = _TIME.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise stated.refused(_TIME_WANTED)
    return f"{match['day']}T{match['time']}{(match['part'] or '').rstrip('.0')}"
