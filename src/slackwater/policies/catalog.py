"""The policies of the agent, in the order in which they are listed, and their settings."""

from collections.abc import Iterable

import msgspec

from slackwater.policies import (
    best_effort_share,
    core_pinning,
    elastic_resources,
    memory_qos,
    normalization,
    oversold,
    qos_level,
    quota_burst,
)
from slackwater.policies.ensurance import watermark_relief
from slackwater.policies.policy import Policy
from slackwater.settings.agent_document import SettingsSchema, settings_schema

POLICIES: tuple[Policy, ...] = (
    best_effort_share.POLICY,
    elastic_resources.POLICY,
    qos_level.POLICY,
    memory_qos.POLICY,
    quota_burst.POLICY,
    watermark_relief.POLICY,
    core_pinning.POLICY,
    oversold.POLICY,
    normalization.POLICY,
)


def schema_of(policies: Iterable[Policy]) -> SettingsSchema:
    sections: dict[str, type[msgspec.Struct]] = {}
    for policy in policies:
        if policy.name in sections:
            raise ValueError(f"two policies are called {policy.name}")
        sections[policy.name] = policy.settings
    return settings_schema(sections)


SETTINGS = schema_of(POLICIES)
