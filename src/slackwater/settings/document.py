"""The settings file as one object: apiVersion, kind, and a section for each part in its spec.

Owns the file's outline. The sections' keys, defaults and bounds are their modules'.
"""

from collections.abc import Mapping

import msgspec

from slackwater.model.complaint import Complaint, quoted
from slackwater.settings import agent, best_effort_share
from slackwater.settings.agent import AgentSettings
from slackwater.settings.best_effort_share import BestEffortShareSettings
from slackwater.settings.bound import Bound, SettingsError
from slackwater.settings.section import checked_text, key_of, known_keys

API_VERSION = "slackwater.io/v1"
KIND = "AgentSettings"
_OUTLINE = ("apiVersion", "kind", "metadata", "spec")
_SECTIONS = ("agent", "bestEffortShare")


class Settings(msgspec.Struct, frozen=True):
    """Everything that the agent can be told."""

    agent: AgentSettings = agent.DEFAULTS
    best_effort_share: BestEffortShareSettings = best_effort_share.DEFAULTS


DEFAULTS = Settings()


def read_settings(document: object, source: str, base: Settings = DEFAULTS) -> Settings:
    """A whole settings file over `base`; `source` is its name, for the sentences."""
    outline = known_keys(document, _OUTLINE, source)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if outline.get(key) != expected:
            raise SettingsError(Complaint(f"{source}: {key}", quoted(outline.get(key)), expected))
    spec = known_keys(outline.get("spec", {}), _SECTIONS, f"{source}: spec")
    return Settings(
        agent.read(spec.get("agent", {}), f"{source}: spec.agent", base.agent),
        best_effort_share.read(
            spec.get("bestEffortShare", {}),
            f"{source}: spec.bestEffortShare",
            base.best_effort_share,
        ),
    )


def with_texts(base: Settings, said: Mapping[str, str]) -> Settings:
    """`base` with what flags and variables say: a text for each setting's name."""
    spec: dict[str, dict[str, object]] = {name: {} for name in _SECTIONS}
    for section in (agent.SECTION, best_effort_share.SECTION):
        for setting in section.values():
            text = said.get(setting.name)
            if text is not None:
                value = checked_text(setting, text, setting.name)
                filed = setting.written(int(value)) if isinstance(setting, Bound) else value
                spec[setting.name.partition(".")[0]][key_of(setting)] = filed
    return Settings(
        agent.read(spec["agent"], "agent", base.agent),
        best_effort_share.read(spec["bestEffortShare"], "bestEffortShare", base.best_effort_share),
    )


def render_settings(settings: Settings) -> dict[str, object]:
    """The file that reads as these settings."""
    spec = {
        "agent": agent.render(settings.agent),
        "bestEffortShare": best_effort_share.render(settings.best_effort_share),
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}
