"""The agent's settings file: apiVersion, kind, and a section for each part in its spec.

A section is an annotated Struct: the agent's own, and one for each policy. Its key in the file is
the policy's name in camel case. What there is to be set follows from the policies that an agent
has, so it is a value: SettingsSchema.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.decoding import check_struct, with_stated
from slackwater.contract.document import Field
from slackwater.contract.schema import SettingsStruct
from slackwater.model.problem import DocumentName, InvalidError, Problem
from slackwater.settings.agent import AgentSettings
from slackwater.settings.file import check_file
from slackwater.settings.setting import Names, Setting, StatedText, check_texts, nest, settings_of

KIND = "AgentSettings"
_AGENT = "agent"

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


class Settings(msgspec.Struct, frozen=True):
    """Everything that the agent can be told: its own settings, and each policy's by its name.
    `stated` are the keys of those settings that somebody wrote down: a foreign dialect may fill
    the others."""

    agent: AgentSettings = AgentSettings()
    policies: Mapping[str, Any] = {}
    stated: frozenset[str] = frozenset()


class SettingsSchema(msgspec.Struct, frozen=True):
    """What an agent with certain policies can be told, in a file, by flags and by variables.

    `sections` are Structs by the policy's name, the agent's own first, in the order of the page in
    docs. `rows` has a row for each setting; `spec` is the type of what stands under that key.
    """

    sections: Mapping[str, type[msgspec.Struct]]
    rows: tuple[Setting, ...]
    spec: type[msgspec.Struct]
    defaults: Settings

    def read_file(
        self, document: object, source: str | DocumentName, base: Settings | None = None
    ) -> Settings:
        """A whole settings file over `base`; `source` is its name. Raises InvalidError."""
        problems: list[Problem] = []
        spec = check_file(document, source, KIND, self.spec, problems)
        return self._with_spec(base, spec, Field(source, "spec", None), problems)

    def read_spec(self, field: Field, base: Settings | None = None) -> Settings:
        """What stands under `spec` in a settings file, wherever else it stands."""
        problems: list[Problem] = []
        return self._with_spec(base, check_struct(field, self.spec, problems), field, problems)

    def with_texts(self, base: Settings | None, texts: Mapping[str, str]) -> Settings:
        """`base` with what flags and variables say, by the settings' keys."""
        problems: list[Problem] = []
        said = {
            each.key: StatedText(f"{each.key} ({each.flag} or {each.variable})", texts[each.key])
            for each in self.rows
            if each.key in texts
        }
        spec = nest(self.rows, check_texts(self.rows, said, problems))
        return self._with_spec(base, spec, Field("", "", None), problems)

    def render_page(self) -> str:
        """docs/reference/settings.md, which is a copy of it; a test compares them."""
        table = "".join(
            f"| `{each.key}` | `{each.flag}` | `{each.variable}` "
            f"| {each.default} | {each.bound} | {each.unit} |\n"
            for each in self.rows
        )
        prose = "".join(f"\n**`{each.key}`** {each.description}\n" for each in self.rows)
        return f"{_HEAD}{table}\n## What they do\n{prose}"

    def _with_spec(
        self,
        base: Settings | None,
        spec: Mapping[str, Any],
        field: Field,
        problems: list[Problem],
    ) -> Settings:
        if problems:
            raise InvalidError(*problems)
        base = base or self.defaults
        before = {_AGENT: base.agent, **self.defaults.policies, **base.policies}
        sections = {
            name: with_stated(before[name], field.at(section_key(name), None), spec.get(name, {}))
            for name in self.sections
        }
        stated = {each.key for each in self.rows if each.path[-1] in spec.get(each.path[0], {})}
        return Settings(sections.pop(_AGENT), sections, base.stated | stated)


def settings_schema(policies: Mapping[str, type[msgspec.Struct]]) -> SettingsSchema:
    """Of an agent with these policies: their settings by their names."""
    sections: dict[str, type[msgspec.Struct]] = {_AGENT: AgentSettings, **policies}
    return SettingsSchema(
        sections=sections,
        rows=tuple(row for name, kind in sections.items() for row in _section_rows(name, kind)),
        spec=msgspec.defstruct(
            "AgentSettingsSpec",
            [(name, kind, kind()) for name, kind in sections.items()],
            bases=(SettingsStruct,),
            frozen=True,
        ),
        defaults=Settings(AgentSettings(), {name: kind() for name, kind in policies.items()}),
    )


def section_key(name: str) -> str:
    """A section's key in the file."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _section_rows(name: str, kind: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """The agent's own section needs no prefix on the agent's command line."""
    key = section_key(name)
    names = Names("SLACKWATER_", key, "" if name == _AGENT else key)
    found = settings_of(kind, names)
    return tuple(msgspec.structs.replace(each, path=(name, *each.path)) for each in found)
