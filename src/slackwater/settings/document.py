"""The agent's settings file: apiVersion, kind, and a section for each part in its spec.

A section is an annotated Struct; its key in the file is its attribute in Settings in camel case.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.decoding import check_struct, with_stated
from slackwater.contract.document import Field
from slackwater.contract.schema import SettingsStruct
from slackwater.model.problem import InvalidError, Problem
from slackwater.settings.agent import AgentSettings
from slackwater.settings.batch_resources import BatchResourcesSettings
from slackwater.settings.best_effort_share import BestEffortShareSettings
from slackwater.settings.file import check_file
from slackwater.settings.memory_qos import MemoryQosSettings
from slackwater.settings.qos_level import QosLevelSettings
from slackwater.settings.quota_burst import QuotaBurstSettings
from slackwater.settings.setting import Names, Setting, StatedText, check_texts, settings_of

KIND = "AgentSettings"


class Settings(msgspec.Struct, frozen=True):
    """Everything that the agent can be told. `stated` are the keys of those settings that somebody
    wrote down: a foreign dialect may fill the others."""

    agent: AgentSettings = AgentSettings()
    best_effort_share: BestEffortShareSettings = BestEffortShareSettings()
    batch_resources: BatchResourcesSettings = BatchResourcesSettings()
    qos_level: QosLevelSettings = QosLevelSettings()
    memory_qos: MemoryQosSettings = MemoryQosSettings()
    quota_burst: QuotaBurstSettings = QuotaBurstSettings()
    stated: frozenset[str] = frozenset()


DEFAULTS = Settings()

#: The sections by their attribute in Settings, in the order of the page in docs.
SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "agent": AgentSettings,
    "best_effort_share": BestEffortShareSettings,
    "batch_resources": BatchResourcesSettings,
    "qos_level": QosLevelSettings,
    "memory_qos": MemoryQosSettings,
    "quota_burst": QuotaBurstSettings,
}


def section_key(attribute: str) -> str:
    """A section's key in the file."""
    first, *rest = attribute.split("_")
    return first + "".join(word.title() for word in rest)


def _settings_of_section(attribute: str) -> tuple[Setting, ...]:
    """The agent's own section needs no prefix on the agent's command line."""
    key = section_key(attribute)
    names = Names("SLACKWATER_", key, "" if attribute == "agent" else key)
    found = settings_of(SECTIONS[attribute], names)
    return tuple(msgspec.structs.replace(each, path=(attribute, *each.path)) for each in found)


SETTINGS: tuple[Setting, ...] = tuple(
    setting for attribute in SECTIONS for setting in _settings_of_section(attribute)
)


#: What stands under `spec`.
SPEC = msgspec.defstruct(
    "AgentSettingsSpec",
    [(attribute, kind, kind()) for attribute, kind in SECTIONS.items()],
    bases=(SettingsStruct,),
    frozen=True,
)


def read_settings(document: object, source: str, base: Settings = DEFAULTS) -> Settings:
    """A whole settings file over `base`; `source` is its name. Raises InvalidError."""
    problems: list[Problem] = []
    spec = check_file(document, source, KIND, SPEC, problems)
    return _with_spec(base, spec, Field(source, "spec", None), problems)


def read_spec(field: Field, base: Settings = DEFAULTS) -> Settings:
    """What stands under `spec` in a settings file, wherever else it stands."""
    problems: list[Problem] = []
    return _with_spec(base, check_struct(field, SPEC, problems), field, problems)


def with_texts(base: Settings, texts: Mapping[str, str]) -> Settings:
    """`base` with what flags and variables say, by the settings' keys."""
    problems: list[Problem] = []
    said = {
        each.key: StatedText(f"{each.key} ({each.flag} or {each.variable})", texts[each.key])
        for each in SETTINGS
        if each.key in texts
    }
    return _with_spec(base, check_texts(SETTINGS, said, problems), Field("", "", None), problems)


def _with_spec(
    base: Settings, spec: Mapping[str, Any], field: Field, problems: list[Problem]
) -> Settings:
    if problems:
        raise InvalidError(*problems)
    sections = {
        name: with_stated(
            getattr(base, name), field.at(section_key(name), None), spec.get(name, {})
        )
        for name in SECTIONS
    }
    stated = {each.key for each in SETTINGS if each.path[-1] in spec.get(each.path[0], {})}
    return Settings(**sections, stated=base.stated | stated)


_HEAD = """\
# Settings

Every setting of the agent. It can be said three ways, and the first of them wins: as a flag, as
an environment variable, as a key in the settings file. Durations are written `500ms`, `1s`,
`1m30s`. A value outside its bound is refused with one sentence and exit code 2 at start, and with
a warning later, when the last good settings stay.

This page is written by `slackwater.settings.document`; the prose is that of the settings' Structs.

| key | flag | variable | default | bound | unit |
|---|---|---|---|---|---|
"""


def settings_page() -> str:
    """docs/reference/settings.md, which is a copy of it; a test compares them."""
    table = "".join(
        f"| `{each.key}` | `{each.flag}` | `{each.variable}` "
        f"| {each.default} | {each.bound} | {each.unit} |\n"
        for each in SETTINGS
    )
    prose = "".join(f"\n**`{each.key}`** {each.description}\n" for each in SETTINGS)
    return f"{_HEAD}{table}\n## What they do\n{prose}"
