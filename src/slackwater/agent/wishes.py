"""Which policies are on, and how they are set: our own settings and Volcano's configuration.

Owns the translation of foreign configuration into settings. Configuration that is wrong is
told, and what was good before stays.
"""

from typing import Any

import msgspec

from slackwater.contract.document import ContractError
from slackwater.contract.volcano import for_node
from slackwater.contract.volcano_document import ColocationConfig
from slackwater.contract.volcano_node import Feature, is_active
from slackwater.observation.folder import Objects
from slackwater.policies import best_effort_share
from slackwater.settings import best_effort_share as share_settings
from slackwater.settings.best_effort_share import BestEffortShareSettings
from slackwater.settings.bound import SettingsError
from slackwater.settings.document import DEFAULTS, Settings


class Wishes(msgspec.Struct, frozen=True):
    """Settings by policy name; a policy that is off is not in it."""

    policies: dict[str, Any] = {}
    problems: tuple[str, ...] = ()


def wishes_of(objects: Objects, before: Wishes) -> Wishes:
    """Our own settings switch a policy on directly; Volcano's need the node's label as well."""
    own = objects.settings or DEFAULTS
    labels = objects.node.labels if objects.node else {}
    try:
        share = _best_effort_share(own, objects.colocation, labels)
    except (ContractError, SettingsError) as error:
        return Wishes(before.policies, (*objects.problems, f"{error}; what was set before stays"))
    return Wishes({best_effort_share.NAME: share} if share.enabled else {}, objects.problems)


def _best_effort_share(
    own: Settings, config: ColocationConfig | None, labels: dict[str, str]
) -> BestEffortShareSettings:
    if own.best_effort_share.enabled or config is None:
        return own.best_effort_share
    colocation = for_node(config, labels)
    section = colocation.cpu_throttling
    said = {
        "enabled": is_active(colocation, Feature.CPU_THROTTLE),
        "threshold": section.threshold,
        "jitter": section.jitter,
        "recover": section.recover,
    }
    return share_settings.read(said, "cpuThrottlingConfig", own.best_effort_share)
