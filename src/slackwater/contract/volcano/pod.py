"""What a Volcano user says about one pod: annotations, and ColocationConfiguration objects.

A bad annotation does not raise: it is a Gap, or a problem beside the effect that Volcano gives it,
and each is one sentence that names the annotation, the value and what to write. The pod's other
annotations go on. In a cluster Volcano's controller copies the memory ratios of a
ColocationConfiguration into the pod's annotation; without that controller, in standalone mode, the
objects themselves are read.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.decoding import BOOL_WANTED, parse_bool, read_struct
from slackwater.contract.document import Field, Spelling, member, members, parse_json
from slackwater.contract.kubernetes import optional_text, read_head
from slackwater.contract.label_selector import LabelSelector, flaw, read_selector
from slackwater.contract.schema import UNIT, Unit, known_keys, struct_type
from slackwater.model.gap import Gap
from slackwater.model.knob import LARGEST_QUOTA
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import Micros
from slackwater.model.workload import BurstRequest, MemoryRatios

API_VERSION = "config.volcano.sh/v1alpha1"
KIND = "ColocationConfiguration"
MEMORY_QOS, SELECTOR = "memoryQos", "selector"

_DEFAULT_NAMESPACE = "default"
# Kubernetes writes UTC to the second; YAML's own type for a time prints a space and +00:00.
_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?P<part>\.[0-9]{1,9})?(?:Z|\+00:00)",
    re.ASCII,
)
_CREATED_WANTED = "a time of UTC such as 2026-01-31T12:00:00Z"


_Ratio = Annotated[int, Meta(ge=0, le=100, extra={UNIT: Unit.PERCENT})]


class MemoryQosSection(msgspec.Struct, frozen=True):
    """Memory ratios as objects and annotations state them."""

    high: Annotated[
        _Ratio, Meta(description="memory.high, of the memory limit; at 100 there is none.")
    ] = field(default=MemoryRatios().high, name="highRatio")
    low: Annotated[_Ratio, Meta(description="memory.low, of the memory request.")] = field(
        default=MemoryRatios().low, name="lowRatio"
    )
    min: Annotated[_Ratio, Meta(description="memory.min, of the memory request.")] = field(
        default=MemoryRatios().min, name="minRatio"
    )


class PodConfiguration(msgspec.Struct, frozen=True):
    """One ColocationConfiguration, for pods of its namespace. Without a usable selector it is
    for no pod. `created` sorts by time and is empty where the object does not say."""

    namespace: str
    name: str
    created: str
    selector: LabelSelector | None
    ratios: MemoryRatios
    warnings: tuple[str, ...] = ()

    def is_for(self, labels: Mapping[str, str], namespace: str) -> bool:
        selector = self.selector
        return self.namespace == namespace and selector is not None and selector.selects(labels)


def read_ratios(spec: Field) -> MemoryRatios:
    """The ratios of a spec with a memoryQos; what it does not state is the default.

    Volcano's agent reads a missing highRatio as 0, which is a memory.high of nothing.
    """
    section = member(spec, MEMORY_QOS)
    found = MemoryQosSection() if section is None else read_struct(section, MemoryQosSection)
    return MemoryRatios(found.high, found.low, found.min)


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
) -> MemoryRatios | None:
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
    known = (MEMORY_QOS, SELECTOR), known_keys(struct_type(MemoryQosSection))
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
        raise stated.refused(_CREATED_WANTED)
    return f"{match['day']}T{match['time']}{(match['part'] or '').rstrip('.0')}"


QOS_LEVEL = "volcano.sh/qos-level"
ENABLE_QUOTA_BURST = "volcano.sh/enable-quota-burst"
QUOTA_BURST_TIME = "volcano.sh/quota-burst-time"
COLOCATION_CONFIG = "volcano.sh/colocation-config"
#: Which ColocationConfiguration the controller applied; only to be shown.
COLOCATION_CONFIG_NAME = "volcano.sh/colocation-config-name"

# Go's strconv.Atoi, up to 18 digits.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TIME_WANTED = f"a whole number from 1 to {LARGEST_QUOTA} (microseconds); the quota counts instead"


class QosLevel(enum.Enum):
    """How sensitive to latency the pod is, in Volcano's words; NONE where it does not say."""

    LC = "LC"  # latency critical
    HLS = "HLS"  # highly latency sensitive
    LS = "LS"  # latency sensitive
    NONE = ""
    BE = "BE"  # best effort, whatever the kubelet's class is

    @property
    def number(self) -> int:
        """What the vendor's cpu.qos_level calls it."""
        return _NUMBERS[self]


_NUMBERS = {QosLevel.LC: 2, QosLevel.HLS: 2, QosLevel.LS: 1, QosLevel.NONE: 0, QosLevel.BE: -1}


def qos_level(annotations: Mapping[str, str]) -> QosLevel | Gap:
    """The pod's level. Volcano reads a word that it does not know as none, silently."""
    word = annotations.get(QOS_LEVEL, "")
    known = {level.value: level for level in QosLevel}
    if word not in known:
        wanted = f"one of {', '.join(filter(None, known))}"
        return Gap(_problem(QOS_LEVEL, word, wanted).sentence())
    return known[word]


def quota_burst(annotations: Mapping[str, str]) -> BurstRequest | Gap | None:
    """Whether the pod may burst and by how much; None where it may not."""
    said = annotations.get(ENABLE_QUOTA_BURST, "")
    enabled = parse_bool(said) if said else False
    if enabled is None:
        return Gap(_problem(ENABLE_QUOTA_BURST, said, BOOL_WANTED).sentence())
    return _burst(annotations.get(QUOTA_BURST_TIME)) if enabled else None


def _burst(said: str | None) -> BurstRequest:
    """Absent means as much as the quota; so does, in Volcano, 0 and what cannot be used. Whoever
    writes 0 may have meant none, so that is reported."""
    if said is None:
        return BurstRequest()
    time = int(said) if _WHOLE.fullmatch(said) else None
    if not time or not 0 <= time <= LARGEST_QUOTA:
        return BurstRequest(None, _problem(QUOTA_BURST_TIME, said, _TIME_WANTED).sentence())
    return BurstRequest(Micros(time))


def memory_qos(annotations: Mapping[str, str]) -> MemoryRatios | Gap | None:
    """The pod's memory ratios; None where they are not stated; "{}" resets them to the defaults."""
    said = annotations.get(COLOCATION_CONFIG, "")
    if not said:
        return None
    where = _where(COLOCATION_CONFIG)
    try:
        # Go's JSON: keys in any case, and null is an empty object.
        found = parse_json(said, where)
        return read_ratios(Field(where, "", {} if found is None else found, Spelling.ANY_CASE))
    except InvalidError as error:
        return Gap(str(error))


def _problem(key: str, value: str, wanted: str) -> Problem:
    return Problem(_where(key), quoted(value), wanted)


def _where(key: str) -> str:
    return f"the annotation {key}"
