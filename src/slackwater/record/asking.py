"""Which policies a pod speaks to: those that its annotations and resources ask something of.

Owns that list, so that a pod is told why such a policy is off, and is not bothered with others.
"""

from collections.abc import Iterator

from slackwater.model.cgroup import Tier
from slackwater.model.workload import Workload
from slackwater.policies import (
    batch_resources,
    best_effort_share,
    memory_qos,
    qos_level,
    quota_burst,
)


def asked_by(pod: Workload) -> frozenset[str]:
    """Names of policies; a wish that cannot be read is one too."""
    return frozenset(_asked(pod))


def _asked(pod: Workload) -> Iterator[str]:
    if pod.tier is Tier.BESTEFFORT:
        yield best_effort_share.NAME
    if pod.qos_level != 0:
        yield qos_level.NAME
    if pod.burst is not None:
        yield quota_burst.NAME
    if pod.memory_ratios is not None:
        yield memory_qos.NAME
    if any(each.extended_requests or each.extended_limits for each in pod.containers):
        yield batch_resources.NAME
