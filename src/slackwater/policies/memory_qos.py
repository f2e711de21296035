"""Memory protection and throttling of containers (Volcano's memory QoS, the kubelet's MemoryQoS).

    ratios    memory.high = limit x high / 100, memory.low = request x low / 100,
              memory.min = request x min / 100
    kubelet   memory.high = request + factor x (limit - request), in whole pages;
              memory.min = request

What is protected in a container has to be protected in the groups above it too, or the kernel
hands it out (effective_protection in mm/page_counter.c): the pod, its tier and kubepods get sums.

cgroup v2 only. Batch memory counts where a pod has it, as its own memory is then none. A vendor's
kernel has memory.qos_level as well, on the pod and everything in it: -1 for best effort, else 0.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import Percentage, ResourceName, SettingsStruct
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.decision import Act, Because, Decision, Intent, Remark, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import MEMORY_HIGH, MEMORY_LOW, MEMORY_MIN, MEMORY_QOS_LEVEL, KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bytes, Percent, Unlimited, percent
from slackwater.model.workload import MemoryRatios, Workload, WorkloadContainer
from slackwater.policies.policy import STATELESS, Policy


class MemoryFormula(enum.Enum):
    """Where memory.high, memory.low and memory.min come from."""

    RATIOS = "ratios"
    KUBELET = "kubelet"
    NONE = "none"


class MemoryQosSettings(SettingsStruct, frozen=True):
    """Settings of memory QoS."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether containers get memory.high, memory.low and memory.min, which "
            "only cgroup v2 has, and pods the vendor's memory.qos_level.",
        ),
    ] = False
    formula: Annotated[
        MemoryFormula,
        Meta(
            description="ratios: the fractions of limit and request set by a "
            "ColocationConfiguration or the pod's volcano.sh/colocation-config, and nothing for "
            "other pods. kubelet: for every container what the kubelet's MemoryQoS feature "
            "writes, memory.min = request and memory.high = request + throttlingFactor × (limit "
            "- request), in whole pages. none: neither.",
        ),
    ] = MemoryFormula.RATIOS
    levels: Annotated[
        bool,
        Meta(
            description="Whether pods get the vendor's memory.qos_level where the kernel has it: "
            "-1 for best effort, 0 for all others.",
        ),
    ] = True
    memory_resource: Annotated[
        ResourceName,
        Meta(
            description="The extended resource that stands for memory, in bytes; it is used for "
            "pods that have it.",
        ),
    ] = "kubernetes.io/batch-memory"
    throttling_factor: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="With the kubelet's formula: how much of the room between request and "
            "limit a container may fill before its allocations are slowed down. The kubelet's "
            "memoryThrottlingFactor, 0.9.",
        ),
    ] = Percent(90)


NAME = "memory_qos"
_HUNDRED = 100
_V2_ONLY = "only cgroup v2 has memory.high, memory.low and memory.min"
_RATIO_FIELDS = frozenset(
    {ReadingField.MEMORY_HIGH, ReadingField.MEMORY_LOW, ReadingField.MEMORY_MIN}
)
_PROTECTING = frozenset({MEMORY_LOW.name, MEMORY_MIN.name})
_PROTECTION_FIELDS = frozenset({ReadingField.MEMORY_LOW, ReadingField.MEMORY_MIN})
_LEVEL_FIELDS = frozenset({ReadingField.MEMORY_QOS_LEVEL})


def needs(settings: MemoryQosSettings, _: frozenset[KnobKey]) -> Needs:
    levels = _LEVEL_FIELDS if settings.levels else frozenset()
    if settings.formula is MemoryFormula.NONE:
        return Needs({Level.POD: levels, Level.CONTAINER: levels})
    return Needs(
        {
            Level.NODE: _PROTECTION_FIELDS,
            Level.TIER: _PROTECTION_FIELDS,
            Level.POD: levels | _PROTECTION_FIELDS,
            Level.CONTAINER: levels | _RATIO_FIELDS,
        }
    )


def decide(snapshot: NodeSnapshot, _: object, settings: MemoryQosSettings) -> Decision:
    intents: list[Intent] = []
    remarks: list[Remark] = []
    above = _Above()
    for workload in snapshot.workloads:
        if settings.levels:
            intents += _levels(snapshot, workload)
        remarks += _remarks(snapshot, workload, settings)
        if snapshot.version is not CgroupVersion.V2:
            continue
        inner = list(_of_containers(workload, settings))
        intents += inner
        above.add(snapshot, workload, inner)
    intents += above.intents()
    if settings.formula is MemoryFormula.KUBELET and snapshot.version is CgroupVersion.V1:
        remarks.append(Remark("all pods", _V2_ONLY))
    return Act(tuple(intents), STATELESS, {}, (), tuple(remarks))


class _Above:
    """Adds up what is protected below each group: kubepods, tiers and pods."""

    def __init__(self) -> None:
        self._sums: dict[tuple[CgroupRef, str], int] = {}

    def add(self, snapshot: NodeSnapshot, workload: Workload, inner: Iterable[Intent]) -> None:
        groups = (workload.ref, snapshot.tiers.get(workload.tier), snapshot.kubepods)
        for intent in inner:
            if intent.knob in _PROTECTING and isinstance(intent.value, int) and intent.value:
                for ref in groups:
                    if isinstance(ref, CgroupRef):
                        key = (ref, intent.knob)
                        self._sums[key] = self._sums.get(key, 0) + intent.value

    def intents(self) -> Iterator[Intent]:
        for (ref, knob), total in self._sums.items():
            because = Because("protected below", f"{total} bytes", "nothing more than above")
            yield Intent(ref, knob, Verb.SET, total, because, NAME)


def _of_containers(workload: Workload, settings: MemoryQosSettings) -> Iterator[Intent]:
    if settings.formula is MemoryFormula.KUBELET:
        yield from _by_kubelet(workload, settings)
    elif _has_ratios(workload, settings) and isinstance(workload.memory_ratios, MemoryRatios):
        yield from _by_ratios(workload, workload.memory_ratios, settings.memory_resource)


def _has_ratios(workload: Workload, settings: MemoryQosSettings) -> bool:
    return settings.formula is MemoryFormula.RATIOS and workload.memory_ratios is not None


def _remarks(
    snapshot: NodeSnapshot, workload: Workload, settings: MemoryQosSettings
) -> Iterator[Remark]:
    """Why a pod does not get what it asks for."""
    if not _has_ratios(workload, settings):
        return
    match workload.memory_ratios:
        case Gap(reason):
            yield Remark(workload.title(), reason)
        case MemoryRatios() if snapshot.version is CgroupVersion.V1:
            yield Remark(workload.title(), _V2_ONLY)
        case MemoryRatios(high=high) if high < _HUNDRED:
            lacking = [
                each.name
                for each in workload.containers
                if isinstance(_memory(each, workload, settings.memory_resource)[1], Unlimited)
            ]
            if lacking:
                text = f"without a memory limit there is no memory.high: {', '.join(lacking)}"
                yield Remark(workload.title(), text)


def _levels(snapshot: NodeSnapshot, workload: Workload) -> Iterator[Intent]:
    level = workload.qos_level
    if isinstance(level, Gap):
        return
    value = -1 if level < 0 else 0
    because = Because("volcano.sh/qos-level", str(level), "the kernel has memory.qos_level")
    for ref in (workload.ref, *(each.ref for each in workload.containers)):
        if not isinstance(ref, CgroupRef):
            continue
        reading = snapshot.readings.get(ref.id)
        if reading is None or isinstance(reading.value(MEMORY_QOS_LEVEL.name), Gap):
            continue
        yield Intent(ref, MEMORY_QOS_LEVEL.name, Verb.SET, value, because, NAME)


def _by_ratios(workload: Workload, ratios: MemoryRatios, resource: str) -> Iterator[Intent]:
    because = Because(
        "memory ratios", f"high {ratios.high} %, low {ratios.low} %, min {ratios.min} %", "stated"
    )
    for each, ref in _inner(workload):
        request, limit = _memory(each, workload, resource)
        yield Intent(ref, MEMORY_HIGH.name, Verb.SET, _high(limit, ratios.high), because, NAME)
        low, least = (percent(part).left_of(request) for part in (ratios.low, ratios.min))
        yield Intent(ref, MEMORY_LOW.name, Verb.SET, low, because, NAME)
        yield Intent(ref, MEMORY_MIN.name, Verb.SET, least, because, NAME)


def _high(limit: int | Unlimited, ratio: int) -> int | Unlimited:
    if isinstance(limit, Unlimited) or ratio >= _HUNDRED:
        return UNLIMITED
    return percent(ratio).left_of(limit)


def _by_kubelet(workload: Workload, settings: MemoryQosSettings) -> Iterator[Intent]:
    """Whole pages are the writer's care. Where limit and request are equal nothing is throttled:
    the limit itself is what the container may have."""
    factor = percent(settings.throttling_factor)
    for each, ref in _inner(workload):
        request, limit = _memory(each, workload, settings.memory_resource)
        because = Because("memory", f"request {request}, limit {_shown(limit)}", "the kubelet's")
        if request:
            yield Intent(ref, MEMORY_MIN.name, Verb.SET, request, because, NAME)
        if not isinstance(limit, Unlimited) and limit > request:
            high = request + factor.left_of(limit - request)
            yield Intent(ref, MEMORY_HIGH.name, Verb.SET, high, because, NAME)


def _inner(workload: Workload) -> Iterator[tuple[WorkloadContainer, CgroupRef]]:
    for each in workload.containers:
        if isinstance(each.ref, CgroupRef):
            yield each, each.ref


def _memory(
    each: WorkloadContainer, workload: Workload, resource: str
) -> tuple[int, int | Unlimited]:
    """Request and limit; batch memory stands in where the pod is not latency-critical."""
    level = workload.qos_level
    if isinstance(level, Gap) or level <= 1:
        request = each.extended_requests.get(resource)
        limit = each.extended_limits.get(resource)
        if isinstance(request, int) or isinstance(limit, int):
            return (
                request if isinstance(request, int) else 0,
                limit if isinstance(limit, int) and limit else UNLIMITED,
            )
    return each.memory_request, each.memory_limit


def _shown(limit: Bytes | int | Unlimited) -> str:
    return "none" if isinstance(limit, Unlimited) else str(limit)


def concerns(pod: Workload) -> bool:
    return pod.memory_ratios is not None


POLICY = Policy(
    NAME,
    STATELESS,
    needs,
    decide,
    settings=MemoryQosSettings,
    description="protects and bounds memory by class",
    concerns=concerns,
    ignores_counters=True,
    knobs=(
        (MEMORY_QOS_LEVEL.name,),
        (MEMORY_HIGH.name, MEMORY_LOW.name, MEMORY_MIN.name),
    ),
)
