"""A scenario's file: apiVersion, kind, and a spec of node, pods and events.

Owns the file's keys, defaults and bounds. Every bad value is one sentence with file, field, value
and bound; a key that nobody knows is refused.
"""

import os

import msgspec

from slackwater.contract.decoding import read_over
from slackwater.contract.document import Field, elements, members, text
from slackwater.contract.kubernetes import kind_of
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.problem import InvalidError, Problem
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.observation.objects.object_set import Objects, with_object
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.document import SettingsSchema
from slackwater.settings.file import API_VERSION
from slackwater.simulation.demand_file import (
    Chance,
    duration,
    known,
    needed,
    number,
    read_demand,
    word,
)
from slackwater.simulation.event_file import read_events
from slackwater.simulation.pod_file import LONGEST, SHORTEST, read_pods
from slackwater.simulation.scenario import Scenario

KIND = "Scenario"
MOST_CPUS = 512
_VERSIONS = {version.value: version for version in CgroupVersion}
_KEYS = ("cgroup", "cpus", "duration", "period", "seed", "settings", "objects", "system", "pods",
         "events")  # fmt: skip


def read_scenario(path: str) -> Scenario:
    """Raises InvalidError, whose str() is the sentence."""
    source = os.path.basename(path)
    documents = [each for each in documents_in(file_text(path, source), source) if each is not None]
    if len(documents) != 1:
        seen = f"{len(documents)} documents"
        raise InvalidError(Problem(source, seen, "one document"))
    return scenario_in(documents[0], source)


def scenario_in(document: object, source: str, schema: SettingsSchema = SETTINGS) -> Scenario:
    top = Field(source, "", document)
    outline = known(top, "apiVersion", "kind", "metadata", "spec")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        stated = outline.get(key)
        if stated is None or stated.value != expected:
            raise (stated or top.at(key, None)).refused(expected)
    spec = needed(top, outline, "spec", "a mapping")
    said = known(spec, *_KEYS)
    length = duration(needed(spec, said, "duration", "how long, such as 2h"), SHORTEST, LONGEST)
    seed = number(said["seed"], 0, 2**63 - 1) if "seed" in said else 0
    objects = _objects(said, source, schema)
    pods = read_pods(said.get("pods"), seed)
    events, pods = read_events(
        said.get("events"), pods, objects.settings or schema.defaults, length, seed, schema
    )
    version = said.get("cgroup")
    return Scenario(
        name=_title(outline.get("metadata"), source),
        version=_VERSIONS[word(version, {**_VERSIONS})] if version else CgroupVersion.V2,
        cpus=number(needed(spec, said, "cpus", "how many CPUs"), 1, MOST_CPUS),
        duration=length,
        pods=pods,
        events=events,
        objects=objects,
        system=read_demand(said["system"], Chance(f"{seed}/system")) if "system" in said else None,
        seed=seed,
    )


def _title(metadata: Field | None, source: str) -> str:
    stem = source.rpartition(".")[0] or source
    if metadata is None:
        return stem
    found = {key: each for key, each in members(metadata) if each.value is not None}
    return text(found["name"]) if "name" in found else stem


def _objects(said: dict[str, Field], source: str, schema: SettingsSchema) -> Objects:
    """What the agent is told: ordinary objects, and the settings over those among them."""
    found = Objects()
    for each in elements(said["objects"]) if "objects" in said else ():
        where = f"{source}: {each.path}"
        if kind_of(each.value, where) == "Pod":
            raise InvalidError(Problem(where, "a Pod", "an object of another kind: pods are "
                                          "listed under spec.pods, with their demand"))  # fmt: skip
        found = with_object(found, each.value, where, schema)
    own = found.settings or schema.defaults
    if "settings" in said:
        own = schema.read_spec(said["settings"], own)
    if "period" in said:
        period = Field(source, "spec", {"period": said["period"].value})
        own = msgspec.structs.replace(own, agent=read_over(period, own.agent))
    return msgspec.structs.replace(found, settings=own)
