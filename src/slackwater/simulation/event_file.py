"""What happens in a scenario, as its file writes it: kills, rivals, settings, pods.

Owns the events' keys, defaults and bounds. A pod that an event adds or removes becomes a pod with
a start or an end.
"""

import msgspec

from slackwater.contract.document import Field, elements, members, text
from slackwater.contract.kubernetes import milli_cpu
from slackwater.model.cgroup import Tier
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Unlimited
from slackwater.settings.document import Settings, SettingsSchema
from slackwater.simulation.demand_file import duration, known, needed, number, word
from slackwater.simulation.pod_file import (
    LONGEST,
    SHORTEST,
    TICK,
    ZERO,
    check_new,
    read_pod,
)
from slackwater.simulation.scenario import (
    Blind,
    Event,
    Kill,
    NewSettings,
    Pressure,
    RivalWrite,
    ScenarioPod,
)

MOST_EVENTS = 1000
_TARGET = "burstable, besteffort, or the name of a pod"


def read_events(
    field: Field | None,
    pods: tuple[ScenarioPod, ...],
    settings: Settings,
    length: Micros,
    seed: int,
    schema: SettingsSchema,
) -> tuple[tuple[Event, ...], tuple[ScenarioPod, ...]]:
    """Sorted by time; settings are said over those before them, in that order."""
    listed = () if field is None else elements(field)
    kinds = [(each, _head(each, length)) for each in listed]
    events: list[Event] = []
    for each, (kind, at) in sorted(kinds, key=lambda pair: pair[1][1]):
        match kind:
            case "pod-added":
                pods = _added(each, at, pods, seed)
            case "pod-removed":
                pods = _removed(each, at, pods)
            case "settings":
                settings = schema.read_spec(_only(each, "settings", "a mapping"), settings)
                events.append(NewSettings(at, settings))
            case "rival-write":
                events += _rival_writes(each, at)
            case _:
                events.append(_plain_event(each, kind, at))
    if field is not None and len(events) > MOST_EVENTS:
        raise Field(field.source, field.path, len(events)).refused(f"at most {MOST_EVENTS} events")
    targets = {Tier.BURSTABLE.value, Tier.BESTEFFORT.value, *(pod.name for pod in pods)}
    for event in events:
        if field is not None and isinstance(event, RivalWrite) and event.target not in targets:
            raise field.at("target", event.target).refused(_TARGET)
    return tuple(sorted(events, key=lambda event: event.at)), pods


_KEYS = {
    "kill": ("down",),
    "rival-write": ("target", "quota", "times", "every"),
    "settings": ("settings",),
    "pod-added": ("pod",),
    "pod-removed": ("pod",),
    "pressure": (),
    "blind": ("for",),
}


def _head(field: Field, length: Micros) -> tuple[str, Micros]:
    every = dict(members(field))
    kind = word(needed(field, every, "kind", f"one of {', '.join(_KEYS)}"), {**_KEYS})
    said = known(field, "at", "kind", *_KEYS[kind])
    return kind, duration(needed(field, said, "at", "a time such as 10m"), ZERO, length)


def _only(field: Field, key: str, wanted: str) -> Field:
    return needed(field, dict(members(field)), key, wanted)


def _plain_event(field: Field, kind: str, at: Micros) -> Event:
    said = dict(members(field))
    match kind:
        case "kill":
            return Kill(at, duration(said["down"], ZERO, LONGEST) if "down" in said else ZERO)
        case "blind":
            return Blind(at, duration(needed(field, said, "for", "how long"), TICK, LONGEST))
        case _:
            return Pressure(at)


def _rival_writes(field: Field, at: Micros) -> list[Event]:
    said = dict(members(field))
    target = needed(field, said, "target", _TARGET)
    quota = needed(field, said, "quota", "a quantity, or unlimited")
    times = number(said["times"], 1, MOST_EVENTS) if "times" in said else 1
    every = duration(said["every"], TICK, LONGEST) if "every" in said else SHORTEST
    return [RivalWrite(Micros(at + n * every), text(target), _quota(quota)) for n in range(times)]


def _quota(field: Field) -> MilliCpu | Unlimited:
    if field.value == UNLIMITED.value:
        return UNLIMITED
    if milli_cpu(field) == 0:
        raise field.refused("at least 1m, or unlimited")
    return milli_cpu(field)


def _added(
    field: Field, at: Micros, pods: tuple[ScenarioPod, ...], seed: int
) -> tuple[ScenarioPod, ...]:
    inner = _only(field, "pod", "a mapping")
    pod = msgspec.structs.replace(read_pod(inner, seed), starts=at)
    check_new(pod, pods, inner)
    return (*pods, pod)


def _removed(field: Field, at: Micros, pods: tuple[ScenarioPod, ...]) -> tuple[ScenarioPod, ...]:
    named = _only(field, "pod", "a pod's name")
    found = next((pod for pod in pods if pod.name == named.value and pod.starts < at), None)
    if found is None:
        seen = quoted(named.value)
        raise InvalidError(Problem(named.where(), seen, "the name of a pod that is there"))
    ended = msgspec.structs.replace(found, ends=at)
    return tuple(ended if pod is found else pod for pod in pods)
