"""The settings file as one object: apiVersion, kind, and a section for each part in its spec.

Owns the file's outline. The sections' keys, defaults and bounds are their modules'; a new one is
a line in Settings and a line in PARTS.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.settings import (
    agent,
    batch_resources,
    best_effort_share,
    memory_qos,
    qos_level,
    quota_burst,
)
from slackwater.settings.agent import AgentSettings
from slackwater.settings.batch_resources import BatchResourcesSettings
from slackwater.settings.best_effort_share import BestEffortShareSettings
from slackwater.settings.bound import Bound
from slackwater.settings.memory_qos import MemoryQosSettings
from slackwater.settings.qos_level import QosLevelSettings
from slackwater.settings.quota_burst import QuotaBurstSettings
from slackwater.settings.section import Section, checked_text, key_of, known_keys
from slackwater.settings.spelling import flag_of, variable_of

API_VERSION = "slackwater.io/v1"
KIND = "AgentSettings"
_OUTLINE = ("apiVersion", "kind", "metadata", "spec")


class Settings(msgspec.Struct, frozen=True):
    """Everything that the agent can be told. `stated` are the names of those settings that somebody
    wrote down: a foreign dialect may fill the others."""

    agent: AgentSettings = agent.DEFAULTS
    best_effort_share: BestEffortShareSettings = best_effort_share.DEFAULTS
    batch_resources: BatchResourcesSettings = batch_resources.DEFAULTS
    qos_level: QosLevelSettings = qos_level.DEFAULTS
    memory_qos: MemoryQosSettings = memory_qos.DEFAULTS
    quota_burst: QuotaBurstSettings = quota_burst.DEFAULTS
    stated: frozenset[str] = frozenset()


DEFAULTS = Settings()


class Part(Protocol):
    """A module of one section. The sections' Structs are its own, hence Any."""

    SECTION: Section

    def read(self, value: object, where: str, base: Any) -> Any: ...  # noqa: ANN401

    def render(self, settings: Any) -> dict[str, object]: ...  # noqa: ANN401


#: The modules by their attribute in Settings, in the order of the page in docs.
PARTS: Mapping[str, Part] = {
    "agent": agent,
    "best_effort_share": best_effort_share,
    "batch_resources": batch_resources,
    "qos_level": qos_level,
    "memory_qos": memory_qos,
    "quota_burst": quota_burst,
}


def section_key(part: Part) -> str:
    """A section's key in the file: the first word of its settings' names."""
    return next(iter(part.SECTION.values())).name.partition(".")[0]


def read_settings(document: object, source: str, base: Settings = DEFAULTS) -> Settings:
    """A whole settings file over `base`; `source` is its name, for the sentences."""
    outline = known_keys(document, _OUTLINE, source)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if outline.get(key) != expected:
            raise InvalidError(Problem(f"{source}: {key}", quoted(outline.get(key)), expected))
    keys = tuple(section_key(part) for part in PARTS.values())
    spec = known_keys(outline.get("spec", {}), keys, f"{source}: spec")
    return _read_spec(spec, f"{source}: spec.", base)


def with_texts(base: Settings, said: Mapping[str, str]) -> Settings:
    """`base` with what flags and variables say: a text for each setting's name."""
    return _read_spec({section_key(part): _filed(part, said) for part in PARTS.values()}, "", base)


def _filed(part: Part, said: Mapping[str, str]) -> dict[str, object]:
    """What flags and variables say of a section, as a file would say it."""
    filed: dict[str, object] = {}
    for setting in part.SECTION.values():
        text = said.get(setting.name)
        if text is not None:
            where = f"{setting.name} ({flag_of(setting)} or {variable_of(setting)})"
            value = checked_text(setting, text, where)
            written = setting.written(int(value)) if isinstance(setting, Bound) else value
            filed[key_of(setting)] = written
    return filed


def _read_spec(spec: Mapping[str, object], where: str, base: Settings) -> Settings:
    sections = {
        attribute: part.read(spec.get(key, {}), f"{where}{key}", getattr(base, attribute))
        for attribute, part in PARTS.items()
        for key in (section_key(part),)
    }
    return Settings(**sections, stated=base.stated | _stated(spec))


def _stated(spec: Mapping[str, object]) -> frozenset[str]:
    """Of a spec that was read, so all its keys are known; null states nothing."""
    return frozenset(
        f"{key}.{name}"
        for key, section in spec.items()
        if isinstance(section, dict)
        for name, value in section.items()
        if value is not None
    )


def render_settings(settings: Settings) -> dict[str, object]:
    """The file that reads as these settings."""
    spec = {
        section_key(part): part.render(getattr(settings, attribute))
        for attribute, part in PARTS.items()
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}
