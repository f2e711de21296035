"""The policies of the agent, in the order in which they are listed, and their settings."""

from collections.abc import Iterable

from slackwater.policies import (
    batch_resources,
    best_effort_share,
    memory_qos,
    qos_level,
    quota_burst,
)
from slackwater.policies.policy import Policy
from slackwater.settings.agent_document import SettingsSchema, settings_schema

POLICIES: tuple[Policy, ...] = (
    best_effort_share.POLICY,
    batch_resources.POLICY,
    qos_level.POLICY,
    memory_qos.POLICY,
    quota_burst.POLICY,
)


def schema_of(policies: Iterable[Policy]) -> SettingsSchema:
    return settings_schema({policy.name: policy.settings for policy in policies})


SETTINGS = schema_of(POLICIES)
