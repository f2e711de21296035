"""Which policies are on, and how they are set: our own settings and Volcano's configuration.

Owns the translation of foreign configuration into settings. Configuration that is wrong is
told, and what was good before stays.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.document import ContractError
from slackwater.contract.kubernetes import Node
from slackwater.contract.volcano import for_node
from slackwater.contract.volcano_document import ColocationConfig
from slackwater.contract.volcano_node import Feature, is_active
from slackwater.observation.folder import Objects
from slackwater.policies import best_effort_share
from slackwater.settings import best_effort_share as share_settings
from slackwater.settings.agent import AgentSettings
from slackwater.settings.best_effort_share import BestEffortShareSettings
from slackwater.settings.bound import SettingsError
from slackwater.settings.document import DEFAULTS, Settings, with_texts

NOTHING: Mapping[str, str] = {}


class Wishes(msgspec.Struct, frozen=True):
    """Settings by policy name, where a policy that is off is not in it; and the agent's own."""

    policies: dict[str, Any] = {}
    agent: AgentSettings = DEFAULTS.agent
    problems: tuple[str, ...] = ()


def node_of(objects: Objects, name: str, host: str) -> Node | None:
    """The Node object of this name. Where no name was asked for: the host's, else the last."""
    by_name = {node.name: node for node in objects.nodes}
    if name:
        return by_name.get(name)
    return by_name.get(host) or next(reversed(by_name.values()), None)


def wishes_of(
    objects: Objects, node: Node | None, before: Wishes, said: Mapping[str, str] = NOTHING
) -> Wishes:
    """Our own settings switch a policy on directly; Volcano's need the node's label as well.
    `said` is what flags and variables say over the folder's settings."""
    labels = node.labels if node else {}
    try:
        own = with_texts(objects.settings or DEFAULTS, said)
        share = _best_effort_share(own, objects.colocation, labels)
    except (ContractError, SettingsError) as error:
        stays = "; what was set before stays" if before != Wishes() else ""
        problems = (*objects.problems, f"{error}{stays}")
        return msgspec.structs.replace(before, problems=problems)
    policies = {best_effort_share.NAME: share} if share.enabled else {}
    return Wishes(policies, own.agent, objects.problems)


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
