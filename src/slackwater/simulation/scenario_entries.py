"""What a scenario's file may say: the keys of its spec, its pods, metrics and events.

simulation.scenario_file reads them, and makes a scenario of them.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slackwater.contract.kubernetes import CpuQuantity
from slackwater.contract.schema import BOUND, Count, Duration, SettingsStruct
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.problem import Problem, quoted
from slackwater.model.units import Micros, MilliCpu, format_duration
from slackwater.model.weight import LARGEST_SHARES
from slackwater.simulation.scenario import (
    DEFAULT_GRACE,
    Blind,
    Event,
    Kill,
    NewAnnotations,
    Pressure,
)
from slackwater.simulation.scenario_machine import MOST_CPUS

MOST_PODS, MOST_EVENTS, MOST_METRICS, MOST_JOBS = 500, 1000, 200, 500
_SECOND = 1_000_000
_TICK = 100_000
_LONGEST = 168 * 3_600 * _SECOND
_OLDEST = 10 * 365 * 24 * 3_600 * _SECOND
_TIERS = tuple(tier.value for tier in Tier)
TARGET = "burstable, besteffort, or the name of a pod"
OBJECT_THERE = "the kind and name of an object of QoS ensurance that is there, as NodeQOS/latency"
POD_THERE = "the name of a pod of the scenario"

_Time = Annotated[Duration, Meta(ge=0, le=_LONGEST)]
_Span = Annotated[Duration, Meta(ge=_TICK, le=_LONGEST)]
#: A pod's name becomes its uid, and that a directory's name.
_Name = Annotated[
    str,
    Meta(
        pattern=r"^(?a:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)\Z",
        extra={BOUND: "a name: at most 63 lower-case letters, digits and dashes"},
    ),
]


class PodEntry(SettingsStruct, frozen=True):
    name: _Name
    tier: Tier
    demand: Annotated[Any, Meta(extra={BOUND: "a quantity or a shape"})]
    request: CpuQuantity = MilliCpu(0)
    limit: CpuQuantity | None = None
    weight: Annotated[Count, Meta(ge=1, le=LARGEST_SHARES)] | None = None
    starts: _Time = msgspec.field(default=Micros(0), name="from")
    ends: _Time | None = msgspec.field(default=None, name="until")
    namespace: _Name = "default"
    priority: Annotated[Count, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    extended_resources: dict[str, Any] = msgspec.field(default_factory=dict)
    age: Annotated[Duration, Meta(ge=0, le=_OLDEST)] = Micros(0)
    grace: _Time = DEFAULT_GRACE
    replaced: bool = False
    replaced_after: _Time = Micros(5 * _SECOND)

    def conflicts(self) -> Iterator[Problem]:
        if self.name in _TIERS:
            yield Problem("name", quoted(self.name), "a name that is not a tier's")
        if self.request and self.tier is Tier.BESTEFFORT:
            bound = "absent: a best-effort pod requests nothing"
            yield Problem("request", f"{self.request}m", bound)
        if self.ends is not None and self.ends < self.starts + _TICK:
            seen, later = quoted(format_duration(self.ends)), Micros(self.starts + _TICK)
            yield Problem("until", seen, f"at least {format_duration(later)}")


class JobEntry(SettingsStruct, frozen=True):
    """`count` jobs, the first at `arrives`, the others `every` so often."""

    name: _Name
    cpu: CpuQuantity
    duration: _Span
    arrives: _Time = Micros(0)
    count: Annotated[Count, Meta(ge=1, le=MOST_JOBS)] = 1
    every: _Time = Micros(0)

    def conflicts(self) -> Iterator[Problem]:
        if not self.cpu or self.cpu % 1000:
            yield Problem("cpu", f"{self.cpu}m", "whole CPUs, as an extended resource is")


class MetricEntry(SettingsStruct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=253, extra={BOUND: "the name of a metric"})]
    series: Annotated[Any, Meta(extra={BOUND: "a quantity or a shape"})]
    source: Annotated[
        str,
        Meta(
            pattern=r"^((NodeQOS|NodeQOSEnsurancePolicy|PodQOS|EnsuranceMetric)/.+)?\Z",
            extra={BOUND: "a kind, a slash and a name, such as NodeQOS/latency"},
        ),
    ] = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    pod: Annotated[str, Meta(extra={BOUND: POD_THERE})] = ""
    starts: _Time = msgspec.field(default=Micros(0), name="from")
    ends: _Time | None = msgspec.field(default=None, name="until")


class _Entry(SettingsStruct, frozen=True):
    """What every event has."""

    at: _Time
    kind: str


class KillEntry(_Entry, frozen=True):
    down: _Time = Micros(0)

    def event(self) -> Event:
        return Kill(self.at, self.down)


class RivalWriteEntry(_Entry, frozen=True):
    target: Annotated[str, Meta(extra={BOUND: TARGET})]
    quota: Annotated[Any, Meta(extra={BOUND: "a quantity, or unlimited"})]
    times: Annotated[Count, Meta(ge=1, le=MOST_EVENTS)] = 1
    every: _Span = Micros(_SECOND)


class SettingsEntry(_Entry, frozen=True):
    settings: Annotated[Any, Meta(extra={BOUND: "a mapping"})]


class ObjectsEntry(_Entry, frozen=True):
    objects: tuple[Any, ...]


class ObjectRemovedEntry(_Entry, frozen=True):
    name: Annotated[str, Meta(extra={BOUND: OBJECT_THERE})] = msgspec.field(name="object")


class PodAddedEntry(_Entry, frozen=True):
    pod: PodEntry


class PodRemovedEntry(_Entry, frozen=True):
    pod: Annotated[str, Meta(extra={BOUND: "a pod's name"})]


class AnnotationsEntry(_Entry, frozen=True):
    pod: Annotated[str, Meta(extra={BOUND: POD_THERE})]
    annotations: dict[str, str]

    def event(self) -> Event:
        return NewAnnotations(self.at, self.pod, self.annotations)


class PressureEntry(_Entry, frozen=True):
    def event(self) -> Event:
        return Pressure(self.at)


class BlindEntry(_Entry, frozen=True):
    length: _Span = msgspec.field(name="for")

    def event(self) -> Event:
        return Blind(self.at, self.length)


EventEntry = (
    KillEntry
    | RivalWriteEntry
    | SettingsEntry
    | ObjectsEntry
    | ObjectRemovedEntry
    | PodAddedEntry
    | PodRemovedEntry
    | AnnotationsEntry
    | PressureEntry
    | BlindEntry
)
EVENTS: dict[str, type[EventEntry]] = {
    "kill": KillEntry,
    "rival-write": RivalWriteEntry,
    "settings": SettingsEntry,
    "objects": ObjectsEntry,
    "object-removed": ObjectRemovedEntry,
    "pod-added": PodAddedEntry,
    "pod-removed": PodRemovedEntry,
    "pod-annotated": AnnotationsEntry,
    "pressure": PressureEntry,
    "blind": BlindEntry,
}


class SpecEntry(SettingsStruct, frozen=True, kw_only=True):
    cgroup: CgroupVersion = CgroupVersion.V2
    cpus: Annotated[Count, Meta(ge=1, le=MOST_CPUS)] | None = None
    machine: Any = None
    duration: Annotated[Duration, Meta(ge=_SECOND, le=_LONGEST)]
    period: Any = None
    seed: Annotated[Count, Meta(ge=0, le=2**63 - 1)] = 0
    settings: Any = None
    objects: tuple[Any, ...] = ()
    system: Any = None
    metrics: Annotated[tuple[Any, ...], Meta(max_length=MOST_METRICS)] = ()
    jobs: Annotated[tuple[Any, ...], Meta(max_length=MOST_JOBS)] = ()
    pods: Annotated[tuple[Any, ...], Meta(max_length=MOST_PODS)] = ()
    events: Annotated[tuple[Any, ...], Meta(max_length=MOST_EVENTS)] = ()
