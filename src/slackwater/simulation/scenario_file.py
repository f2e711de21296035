"""A scenario's file: apiVersion, kind, and a spec of node, pods and events.

Keys that nobody knows are refused. A pod that an event adds or removes becomes a pod with a start
or an end.
"""

import os
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slackwater.contract.crane.ensurance_set import (
    NO_OBJECTS,
    EnsuranceObjects,
    join_ensurance,
)
from slackwater.contract.decoding import read_over, read_struct
from slackwater.contract.document import Field, member, members, text
from slackwater.contract.kubernetes import (
    CpuQuantity,
    KubernetesObject,
    kind_of,
    milli_cpu,
    read_head,
)
from slackwater.contract.pod_resources import read_amounts
from slackwater.contract.schema import BOUND, Count, Duration, SettingsStruct
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Unlimited, format_duration
from slackwater.model.weight import LARGEST_SHARES
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.observation.objects.object_set import Objects, with_object
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.agent_document import SettingsSchema
from slackwater.settings.setting import check_file
from slackwater.simulation.demand import FOREVER, Chance, read_demand
from slackwater.simulation.scenario import (
    DEFAULT_GRACE,
    Blind,
    Event,
    Kill,
    NewObjects,
    NewSettings,
    Pressure,
    RivalWrite,
    Scenario,
    ScenarioMetric,
    ScenarioPod,
)

KIND = "Scenario"
MOST_CPUS, MOST_PODS, MOST_EVENTS, MOST_METRICS = 512, 500, 1000, 200
_SECOND = 1_000_000
_TICK = 100_000
_LONGEST = 168 * 3_600 * _SECOND
_OLDEST = 10 * 365 * 24 * 3_600 * _SECOND
_TIERS = tuple(tier.value for tier in Tier)
_TARGET = "burstable, besteffort, or the name of a pod"
_OBJECT_THERE = "the kind and name of an object of QoS ensurance that is there, as NodeQOS/latency"
_POD_THERE = "the name of a pod of the scenario"

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


#: The kinds of QoS ensurance, and where EnsuranceObjects has them.
_ENSURANCE = {
    "NodeQOS": "node_qos",
    "NodeQOSEnsurancePolicy": "ensurance_policies",
    "AvoidanceAction": "actions",
    "PodQOS": "pod_qos",
    "EnsuranceMetric": "metrics",
}


class _PodEntry(SettingsStruct, frozen=True):
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


class _MetricEntry(SettingsStruct, frozen=True):
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
    pod: Annotated[str, Meta(extra={BOUND: _POD_THERE})] = ""
    starts: _Time = msgspec.field(default=Micros(0), name="from")
    ends: _Time | None = msgspec.field(default=None, name="until")


class _Entry(SettingsStruct, frozen=True):
    """What every event has."""

    at: _Time
    kind: str


class _KillEntry(_Entry, frozen=True):
    down: _Time = Micros(0)

    def event(self) -> Event:
        return Kill(self.at, self.down)


class _RivalWriteEntry(_Entry, frozen=True):
    target: Annotated[str, Meta(extra={BOUND: _TARGET})]
    quota: Annotated[Any, Meta(extra={BOUND: "a quantity, or unlimited"})]
    times: Annotated[Count, Meta(ge=1, le=MOST_EVENTS)] = 1
    every: _Span = Micros(_SECOND)


class _SettingsEntry(_Entry, frozen=True):
    settings: Annotated[Any, Meta(extra={BOUND: "a mapping"})]


class _ObjectsEntry(_Entry, frozen=True):
    objects: tuple[Any, ...]


class _ObjectRemoved(_Entry, frozen=True):
    name: Annotated[str, Meta(extra={BOUND: _OBJECT_THERE})] = msgspec.field(name="object")


class _PodAdded(_Entry, frozen=True):
    pod: _PodEntry


class _PodRemoved(_Entry, frozen=True):
    pod: Annotated[str, Meta(extra={BOUND: "a pod's name"})]


class _PressureEntry(_Entry, frozen=True):
    def event(self) -> Event:
        return Pressure(self.at)


class _BlindEntry(_Entry, frozen=True):
    length: _Span = msgspec.field(name="for")

    def event(self) -> Event:
        return Blind(self.at, self.length)


_EventEntry = (
    _KillEntry
    | _RivalWriteEntry
    | _SettingsEntry
    | _ObjectsEntry
    | _ObjectRemoved
    | _PodAdded
    | _PodRemoved
    | _PressureEntry
    | _BlindEntry
)
_EVENTS: dict[str, type[_EventEntry]] = {
    "kill": _KillEntry,
    "rival-write": _RivalWriteEntry,
    "settings": _SettingsEntry,
    "objects": _ObjectsEntry,
    "object-removed": _ObjectRemoved,
    "pod-added": _PodAdded,
    "pod-removed": _PodRemoved,
    "pressure": _PressureEntry,
    "blind": _BlindEntry,
}


class _Spec(SettingsStruct, frozen=True, kw_only=True):
    cgroup: CgroupVersion = CgroupVersion.V2
    cpus: Annotated[Count, Meta(ge=1, le=MOST_CPUS)]
    duration: Annotated[Duration, Meta(ge=_SECOND, le=_LONGEST)]
    period: Any = None
    seed: Annotated[Count, Meta(ge=0, le=2**63 - 1)] = 0
    settings: Any = None
    objects: tuple[Any, ...] = ()
    system: Any = None
    metrics: Annotated[tuple[Any, ...], Meta(max_length=MOST_METRICS)] = ()
    pods: Annotated[tuple[Any, ...], Meta(max_length=MOST_PODS)] = ()
    events: Annotated[tuple[Any, ...], Meta(max_length=MOST_EVENTS)] = ()


def read_scenario(path: str, more: EnsuranceObjects = NO_OBJECTS) -> Scenario:
    """`more` objects are there besides the scenario's own, or in their place. Raises
    InvalidError."""
    source = os.path.basename(path)
    documents = [each for each in documents_in(file_text(path, source), source) if each is not None]
    if len(documents) != 1:
        raise InvalidError(Problem(source, f"{len(documents)} documents", "one document"))
    return scenario_in(documents[0], source, more=more)


def scenario_in(
    document: object,
    source: str,
    schema: SettingsSchema = SETTINGS,
    more: EnsuranceObjects = NO_OBJECTS,
) -> Scenario:
    problems: list[Problem] = []
    stated = check_file(document, source, KIND, _Spec, problems)
    if problems:
        raise InvalidError(*problems)
    spec = msgspec.convert(stated, _Spec)
    reader = _Reader(Field(source, "spec", stated), spec, schema)
    objects = reader.objects(more)
    events, pods = reader.events(reader.pods(), objects)
    metrics = reader.metrics(pods)
    system = None
    if spec.system is not None:
        system = read_demand(reader.at("system", spec.system), Chance(f"{spec.seed}/system"))
    return Scenario(
        name=_title(document, source),
        version=spec.cgroup,
        cpus=spec.cpus,
        duration=spec.duration,
        pods=pods,
        events=events,
        objects=objects,
        system=system,
        metrics=metrics,
        seed=spec.seed,
    )


def _title(document: object, source: str) -> str:
    metadata = member(Field(source, "", document), "metadata")
    name = None if metadata is None else member(metadata, "name")
    return source.rpartition(".")[0] or source if name is None else text(name)


class _Reader:
    """Reads what the annotations of the spec leave open: other documents, and lists of shapes."""

    def __init__(self, field: Field, spec: _Spec, schema: SettingsSchema) -> None:
        self._field = field
        self._spec = spec
        self._schema = schema

    def at(self, key: str, value: object) -> Field:
        return self._field.at(key, value)

    def _listed(self, key: str, values: tuple[Any, ...]) -> Iterator[Field]:
        for place, each in enumerate(values):
            yield Field(self._field.source, f"{self._field.path}.{key}[{place}]", each)

    def objects(self, more: EnsuranceObjects) -> Objects:
        """What the agent is told: ordinary objects, and the settings over those among them."""
        found = Objects()
        for each in self._listed("objects", self._spec.objects):
            if kind_of(each.value, each.where()) == "Pod":
                bound = "an object of another kind: pods are listed under spec.pods, with their"
                raise InvalidError(each.problem(f"{bound} demand", "a Pod"))
            found = with_object(found, each.value, each.where(), self._schema)
        own = found.settings or self._schema.defaults
        if self._spec.settings is not None:
            own = self._schema.read_spec(self.at("settings", self._spec.settings), own)
        if self._spec.period is not None:
            stated = Field(self._field.source, "spec", {"period": self._spec.period})
            own = msgspec.structs.replace(own, agent=read_over(stated, own.agent))
        ensurance = join_ensurance((found.ensurance, more))
        return msgspec.structs.replace(found, settings=own, ensurance=ensurance)

    def pods(self) -> tuple[ScenarioPod, ...]:
        pods: tuple[ScenarioPod, ...] = ()
        for each in self._listed("pods", self._spec.pods):
            pods = self._with_pod(pods, read_struct(each, _PodEntry), each)
        return pods

    def _with_pod(
        self,
        pods: tuple[ScenarioPod, ...],
        pod: _PodEntry,
        field: Field,
        starts: Micros | None = None,
    ) -> tuple[ScenarioPod, ...]:
        if any(pod.name == other.name for other in pods):
            raise field.at("name", pod.name).refused("a name that no other pod has")
        demand = field.at("demand", pod.demand)
        made = ScenarioPod(
            name=pod.name,
            tier=pod.tier,
            demand=read_demand(demand, Chance(f"{self._spec.seed}/{pod.name}")),
            request=pod.request,
            limit=pod.limit or UNLIMITED,
            weight=pod.weight,
            starts=pod.starts if starts is None else starts,
            ends=FOREVER if pod.ends is None else pod.ends,
            labels=pod.labels,
            namespace=pod.namespace,
            priority=pod.priority,
            annotations=pod.annotations,
            extended=_extended(field.at("extendedResources", pod.extended_resources)),
            age=pod.age,
            grace=pod.grace,
            replaced=pod.replaced,
            replaced_after=pod.replaced_after,
        )
        return (*pods, made)

    def metrics(self, pods: tuple[ScenarioPod, ...]) -> tuple[ScenarioMetric, ...]:
        names = {pod.name for pod in pods}
        found = []
        for place, field in enumerate(self._listed("metrics", self._spec.metrics)):
            entry = read_struct(field, _MetricEntry)
            if entry.pod and entry.pod not in names:
                raise field.at("pod", entry.pod).refused(_POD_THERE)
            chance = Chance(f"{self._spec.seed}/metrics/{place}")
            found.append(
                ScenarioMetric(
                    name=entry.name,
                    series=read_demand(field.at("series", entry.series), chance),
                    source=entry.source,
                    labels=entry.labels,
                    pod=entry.pod,
                    starts=entry.starts,
                    ends=FOREVER if entry.ends is None else entry.ends,
                )
            )
        return tuple(found)

    def events(
        self, pods: tuple[ScenarioPod, ...], objects: Objects
    ) -> tuple[tuple[Event, ...], tuple[ScenarioPod, ...]]:
        """Sorted by time; settings and objects are said over those before them, in that order."""
        settings = objects.settings or self._schema.defaults
        found = [(each, self._event(each)) for each in self._listed("events", self._spec.events)]
        events: list[Event] = []
        targets: list[Field] = []
        for field, each in sorted(found, key=lambda pair: pair[1].at):
            match each:
                case _PodAdded():
                    pods = self._with_pod(pods, each.pod, field.at("pod", each.pod), each.at)
                case _PodRemoved():
                    pods = _without_pod(pods, each, field)
                case _SettingsEntry():
                    settings = self._schema.read_spec(field.at("settings", each.settings), settings)
                    events.append(NewSettings(each.at, settings))
                case _ObjectsEntry():
                    objects, told = self._with_objects(objects, each, field)
                    events.append(NewObjects(each.at, objects.ensurance, told))
                case _ObjectRemoved():
                    objects = _without_object(objects, each, field)
                    events.append(NewObjects(each.at, objects.ensurance, f"{each.name} is deleted"))
                case _RivalWriteEntry():
                    events += _rival_writes(each, field)
                    targets.append(field.at("target", each.target))
                case _KillEntry() | _BlindEntry() | _PressureEntry():
                    events.append(each.event())
        if len(events) > MOST_EVENTS:
            raise self.at("events", len(events)).refused(f"at most {MOST_EVENTS} events")
        _check_targets(targets, pods)
        return tuple(sorted(events, key=lambda event: event.at)), pods

    def _with_objects(
        self, objects: Objects, event: _ObjectsEntry, field: Field
    ) -> tuple[Objects, str]:
        titles = []
        for place, document in enumerate(event.objects):
            each = Field(field.source, f"{field.path}.objects[{place}]", document)
            kind = kind_of(document, each.where())
            if kind not in _ENSURANCE:
                bound = f"an object of one of the kinds {', '.join(_ENSURANCE)}"
                raise InvalidError(each.problem(bound, quoted(kind)))
            objects = with_object(objects, document, each.where(), self._schema)
            titles.append(f"{kind}/{read_head(document, each.where())[0].name}")
        return objects, f"{', '.join(titles)} applied"

    def _event(self, field: Field) -> _EventEntry:
        kind = member(field, "kind")
        if kind is None or kind.value not in _EVENTS:
            raise (kind or field.at("kind", None)).refused(f"one of {', '.join(_EVENTS)}")
        found = read_struct(field, _EVENTS[str(kind.value)])
        if found.at > self._spec.duration:
            at = member(field, "at") or field
            raise at.refused(f"at most {format_duration(self._spec.duration)}, the duration")
        return found


def _check_targets(targets: list[Field], pods: tuple[ScenarioPod, ...]) -> None:
    known = {Tier.BURSTABLE.value, Tier.BESTEFFORT.value, *(pod.name for pod in pods)}
    for target in targets:
        if target.value not in known:
            raise target.refused(_TARGET)


def _without_pod(
    pods: tuple[ScenarioPod, ...], event: _PodRemoved, field: Field
) -> tuple[ScenarioPod, ...]:
    found = next((pod for pod in pods if pod.name == event.pod and pod.starts < event.at), None)
    if found is None:
        raise field.at("pod", event.pod).refused("the name of a pod that is there")
    ended = msgspec.structs.replace(found, ends=event.at)
    return tuple(ended if pod is found else pod for pod in pods)


def _without_object(objects: Objects, event: _ObjectRemoved, field: Field) -> Objects:
    kind, _, name = event.name.partition("/")
    there: tuple[KubernetesObject, ...] = getattr(objects.ensurance, _ENSURANCE.get(kind, ""), ())
    left = tuple(each for each in there if each.metadata.name != name)
    if left == there:
        raise field.at("object", event.name).refused(_OBJECT_THERE)
    ensurance = msgspec.structs.replace(objects.ensurance, **{_ENSURANCE[kind]: left})
    return msgspec.structs.replace(objects, ensurance=ensurance)


def _extended(field: Field) -> dict[str, int]:
    """Amounts by the names of extended resources, which have a domain."""
    found: dict[str, int] = {}
    for name, each in members(field):
        if "/" not in name:
            bound = "a domain, a slash and a name, such as gocrane.io/cpu"
            raise InvalidError(field.unknown_key(name, bound))
        amount = read_amounts(field)[name]
        if isinstance(amount, Gap):
            raise each.refused("a whole number, zero or more, such as 2")
        found[name] = amount
    return found


def _rival_writes(event: _RivalWriteEntry, field: Field) -> list[Event]:
    quota = _quota(field.at("quota", event.quota))
    times = (Micros(event.at + place * event.every) for place in range(event.times))
    return [RivalWrite(at, event.target, quota) for at in times]


def _quota(field: Field) -> MilliCpu | Unlimited:
    if field.value == UNLIMITED.value:
        return UNLIMITED
    if milli_cpu(field) == 0:
        raise field.refused("at least 1m, or unlimited")
    return milli_cpu(field)
