"""A scenario's file: apiVersion, kind, and a spec of node, pods and events.

Keys that nobody knows are refused. A pod that an event adds or removes becomes a pod with a start
or an end.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from slackwater.contract.crane.ensurance_set import join_ensurance
from slackwater.contract.decoding import read_over, read_struct
from slackwater.contract.document import Field, member, members, text
from slackwater.contract.kubernetes import (
    KubernetesObject,
    kind_of,
    milli_cpu,
    read_head,
)
from slackwater.contract.pod_resources import amount_wanted, read_amounts
from slackwater.model.cgroup import Tier
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Unlimited, format_duration
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.observation.objects.object_set import Objects, with_object
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.agent_document import SettingsSchema
from slackwater.settings.setting import check_file
from slackwater.simulation.demand import FOREVER, Chance, read_demand
from slackwater.simulation.scenario import (
    Event,
    NewObjects,
    NewSettings,
    RivalWrite,
    Scenario,
    ScenarioJob,
    ScenarioMetric,
    ScenarioPod,
)
from slackwater.simulation.scenario_entries import (
    EVENTS,
    MOST_EVENTS,
    MOST_JOBS,
    OBJECT_THERE,
    POD_THERE,
    TARGET,
    AnnotationsEntry,
    BlindEntry,
    EventEntry,
    JobEntry,
    KillEntry,
    MetricEntry,
    ObjectRemovedEntry,
    ObjectsEntry,
    PodAddedEntry,
    PodEntry,
    PodRemovedEntry,
    PressureEntry,
    RivalWriteEntry,
    SettingsEntry,
    SpecEntry,
)
from slackwater.simulation.scenario_machine import MOST_CPUS, ScenarioMachine, plain_machine

KIND = "Scenario"
_NO_MORE = Objects()
#: The kinds of QoS ensurance, and where EnsuranceObjects has them.
_ENSURANCE = {
    "NodeQOS": "node_qos",
    "NodeQOSEnsurancePolicy": "ensurance_policies",
    "AvoidanceAction": "actions",
    "PodQOS": "pod_qos",
    "EnsuranceMetric": "metrics",
}


def read_scenario(path: str, more: Objects = _NO_MORE) -> Scenario:
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
    more: Objects = _NO_MORE,
) -> Scenario:
    problems: list[Problem] = []
    stated = check_file(document, source, KIND, SpecEntry, problems)
    if problems:
        raise InvalidError(*problems)
    spec = msgspec.convert(stated, SpecEntry)
    reader = _Reader(Field(source, "spec", stated), spec, schema)
    machine = reader.machine()
    objects = reader.objects(more)
    events, pods = reader.events(reader.pods(), objects)
    metrics = reader.metrics(pods)
    system = None
    if spec.system is not None:
        system = read_demand(reader.at("system", spec.system), Chance(f"{spec.seed}/system"))
    return Scenario(
        name=_title(document, source),
        version=spec.cgroup,
        cpus=machine.cpus(),
        duration=spec.duration,
        pods=pods,
        events=events,
        objects=objects,
        system=system,
        metrics=metrics,
        seed=spec.seed,
        jobs=reader.jobs(pods),
        machine=machine,
    )


def _title(document: object, source: str) -> str:
    metadata = member(Field(source, "", document), "metadata")
    name = None if metadata is None else member(metadata, "name")
    return source.rpartition(".")[0] or source if name is None else text(name)


class _Reader:
    """Reads what the annotations of the spec leave open: other documents, and lists of shapes."""

    def __init__(self, field: Field, spec: SpecEntry, schema: SettingsSchema) -> None:
        self._field = field
        self._spec = spec
        self._schema = schema

    def at(self, key: str, value: object) -> Field:
        return self._field.at(key, value)

    def _listed(self, key: str, values: tuple[Any, ...]) -> Iterator[Field]:
        for place, each in enumerate(values):
            yield Field(self._field.source, f"{self._field.path}.{key}[{place}]", each)

    def machine(self) -> ScenarioMachine:
        cpus, stated = self._spec.cpus, self._spec.machine
        if stated is None:
            if cpus is None:
                bound = f"a whole number, 1 to {MOST_CPUS}, where there is no machine"
                raise self.at("cpus", None).refused(bound)
            return plain_machine(cpus)
        machine = read_struct(self.at("machine", stated), ScenarioMachine)
        if cpus not in (None, machine.cpus()):
            bound = f"absent, or the machine's {machine.cpus()}"
            raise self.at("cpus", cpus).refused(bound)
        return machine

    def objects(self, more: Objects) -> Objects:
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
        ensurance = join_ensurance((found.ensurance, more.ensurance))
        warnings = (*found.warnings, *more.warnings)
        return msgspec.structs.replace(found, settings=own, ensurance=ensurance, warnings=warnings)

    def pods(self) -> tuple[ScenarioPod, ...]:
        pods: tuple[ScenarioPod, ...] = ()
        for each in self._listed("pods", self._spec.pods):
            pods = self._with_pod(pods, read_struct(each, PodEntry), each)
        return pods

    def _with_pod(
        self,
        pods: tuple[ScenarioPod, ...],
        pod: PodEntry,
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

    def jobs(self, pods: tuple[ScenarioPod, ...]) -> tuple[ScenarioJob, ...]:
        names = {pod.name for pod in pods}
        found: list[ScenarioJob] = []
        for field in self._listed("jobs", self._spec.jobs):
            entry = read_struct(field, JobEntry)
            for number in range(entry.count):
                name = entry.name if entry.count == 1 else f"{entry.name}-{number + 1}"
                if name in names:
                    raise field.at("name", name).refused("a name that no other pod or job has")
                names.add(name)
                arrives = Micros(entry.arrives + number * entry.every)
                found.append(ScenarioJob(name, entry.cpu, entry.duration, arrives))
        if len(found) > MOST_JOBS:
            raise self.at("jobs", len(found)).refused(f"at most {MOST_JOBS} jobs")
        return tuple(found)

    def metrics(self, pods: tuple[ScenarioPod, ...]) -> tuple[ScenarioMetric, ...]:
        names = {pod.name for pod in pods}
        found = []
        for place, field in enumerate(self._listed("metrics", self._spec.metrics)):
            entry = read_struct(field, MetricEntry)
            if entry.pod and entry.pod not in names:
                raise field.at("pod", entry.pod).refused(POD_THERE)
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
                case PodAddedEntry():
                    pods = self._with_pod(pods, each.pod, field.at("pod", each.pod), each.at)
                case PodRemovedEntry():
                    pods = _without_pod(pods, each, field)
                case SettingsEntry():
                    settings = self._schema.read_spec(field.at("settings", each.settings), settings)
                    events.append(NewSettings(each.at, settings))
                case ObjectsEntry():
                    objects, told = self._with_objects(objects, each, field)
                    events.append(NewObjects(each.at, objects.ensurance, told))
                case ObjectRemovedEntry():
                    objects = _without_object(objects, each, field)
                    events.append(NewObjects(each.at, objects.ensurance, f"{each.name} is deleted"))
                case RivalWriteEntry():
                    events += _rival_writes(each, field)
                    targets.append(field.at("target", each.target))
                case KillEntry() | BlindEntry() | PressureEntry() | AnnotationsEntry():
                    events.append(each.event())
        if len(events) > MOST_EVENTS:
            raise self.at("events", len(events)).refused(f"at most {MOST_EVENTS} events")
        _check_targets(targets, pods)
        _check_annotated(found, pods)
        return tuple(sorted(events, key=lambda event: event.at)), pods

    def _with_objects(
        self, objects: Objects, event: ObjectsEntry, field: Field
    ) -> tuple[Objects, str]:
        titles = []
        warned = len(objects.warnings)
        for place, document in enumerate(event.objects):
            each = Field(field.source, f"{field.path}.objects[{place}]", document)
            kind = kind_of(document, each.where())
            if kind not in _ENSURANCE:
                bound = f"an object of one of the kinds {', '.join(_ENSURANCE)}"
                raise InvalidError(each.problem(bound, quoted(kind)))
            objects = with_object(objects, document, each.where(), self._schema)
            titles.append(f"{kind}/{read_head(document, each.where())[0].name}")
        told = f"{', '.join(titles)} applied"
        return objects, "; ".join((told, *objects.warnings[warned:]))

    def _event(self, field: Field) -> EventEntry:
        kind = member(field, "kind")
        if kind is None or not isinstance(kind.value, str) or kind.value not in EVENTS:
            raise (kind or field.at("kind", None)).refused(f"one of {', '.join(EVENTS)}")
        found = read_struct(field, EVENTS[kind.value])
        if found.at > self._spec.duration:
            at = member(field, "at") or field
            raise at.refused(f"at most {format_duration(self._spec.duration)}, the duration")
        return found


def _check_targets(targets: list[Field], pods: tuple[ScenarioPod, ...]) -> None:
    known = {Tier.BURSTABLE.value, Tier.BESTEFFORT.value, *(pod.name for pod in pods)}
    for target in targets:
        if target.value not in known:
            raise target.refused(TARGET)


def _check_annotated(found: list[tuple[Field, EventEntry]], pods: tuple[ScenarioPod, ...]) -> None:
    names = {pod.name for pod in pods}
    for field, each in found:
        if isinstance(each, AnnotationsEntry) and each.pod not in names:
            raise field.at("pod", each.pod).refused(POD_THERE)


def _without_pod(
    pods: tuple[ScenarioPod, ...], event: PodRemovedEntry, field: Field
) -> tuple[ScenarioPod, ...]:
    found = next((pod for pod in pods if pod.name == event.pod and pod.starts < event.at), None)
    if found is None:
        raise field.at("pod", event.pod).refused("the name of a pod that is there")
    ended = msgspec.structs.replace(found, ends=event.at)
    return tuple(ended if pod is found else pod for pod in pods)


def _without_object(objects: Objects, event: ObjectRemovedEntry, field: Field) -> Objects:
    kind, _, name = event.name.partition("/")
    there: tuple[KubernetesObject, ...] = getattr(objects.ensurance, _ENSURANCE.get(kind, ""), ())
    left = tuple(each for each in there if each.metadata.name != name)
    if left == there:
        raise field.at("object", event.name).refused(OBJECT_THERE)
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
            raise each.refused(amount_wanted(name))
        found[name] = amount
    return found


def _rival_writes(event: RivalWriteEntry, field: Field) -> list[Event]:
    quota = _quota(field.at("quota", event.quota))
    times = (Micros(event.at + place * event.every) for place in range(event.times))
    return [RivalWrite(at, event.target, quota) for at in times]


def _quota(field: Field) -> MilliCpu | Unlimited:
    if field.value == UNLIMITED.value:
        return UNLIMITED
    if milli_cpu(field) == 0:
        raise field.refused("at least 1m, or unlimited")
    return milli_cpu(field)
