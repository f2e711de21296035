"""The policies of the agent, in the order in which they are asked and listed."""

from slackwater.policies import (
    batch_resources,
    best_effort_share,
    memory_qos,
    qos_level,
    quota_burst,
)
from slackwater.policies.policy import Policy

POLICIES: tuple[Policy, ...] = (
    best_effort_share.POLICY,
    batch_resources.POLICY,
    qos_level.POLICY,
    memory_qos.POLICY,
    quota_burst.POLICY,
)
