"""Which policies are on, and how they are set: our own settings and Volcano's configuration.

Owns the translation of foreign configuration into settings. Configuration that is wrong is
told, and what was good before stays.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slackwater.contract.document import ContractError
from slackwater.contract.kubernetes import Node
from slackwater.contract.volcano import for_node
from slackwater.contract.volcano_node import (
    COLOCATION_LABEL,
    OVER_SUBSCRIPTION_LABEL,
    Feature,
    is_active,
    is_supported,
)
from slackwater.contract.volcano_sections import Colocation, NodeLabel
from slackwater.model.complaint import quoted
from slackwater.observation.objects import Objects
from slackwater.policies import (
    batch_resources,
    best_effort_share,
    memory_qos,
    qos_level,
    quota_burst,
)
from slackwater.settings.agent import AgentSettings
from slackwater.settings.bound import SettingsError
from slackwater.settings.document import DEFAULTS, PARTS, Settings, section_key, with_texts
from slackwater.settings.memory_qos import MemoryFormula

NOTHING: Mapping[str, str] = {}
#: Volcano's own default lacks CPUThrottle; here the configuration decides (docs/differences.md).
EVERY_FEATURE = ("*",)


class Wishes(msgspec.Struct, frozen=True):
    """Settings by policy name, where a policy that is off is not in it; and the agent's own.
    `off` says of each policy that is not in it what would switch it on; `wanted` are
    those that a ColocationConfig enables, in vain or not."""

    policies: dict[str, Any] = {}
    agent: AgentSettings = DEFAULTS.agent
    problems: tuple[str, ...] = ()
    off: dict[str, str] = {}
    wanted: frozenset[str] = frozenset()

    def is_known(self) -> bool:
        """Whether the objects were ever good: then each policy is on, or off for a reason."""
        return bool(self.policies or self.off)


def node_of(objects: Objects, name: str, host: str) -> Node | None:
    """The Node object of this name. Where no name was asked for: the host's, else the last."""
    by_name = {node.name: node for node in objects.nodes}
    if name:
        return by_name.get(name)
    return by_name.get(host) or next(reversed(by_name.values()), None)


def wishes_of(
    objects: Objects,
    node: Node | None,
    before: Wishes,
    said: Mapping[str, str] = NOTHING,
    features: tuple[str, ...] = EVERY_FEATURE,
) -> Wishes:
    """Our own settings switch a policy on directly; Volcano's need the node's label as well.
    `said` is what flags and variables say over the folder's settings; `features` are those of
    Volcano's that this agent supports."""
    labels = node.labels if node else {}
    try:
        own = with_texts(objects.settings or DEFAULTS, said)
        colocation = for_node(objects.colocation, labels) if objects.colocation else None
        found = {each.policy: _choose(each, own, colocation, features, labels) for each in _DIALECT}
    except (ContractError, SettingsError) as error:
        stays = "; what was set before stays" if before != Wishes() else ""
        problems = (*objects.problems, f"{error}{stays}")
        return msgspec.structs.replace(before, problems=problems)
    return Wishes(
        {name: each for name, each in found.items() if not isinstance(each, str)},
        own.agent,
        objects.problems,
        {name: each for name, each in found.items() if isinstance(each, str)},
        frozenset(each.policy for each in _DIALECT if _is_wanted(each, colocation)),
    )


class _Feature(msgspec.Struct, frozen=True):
    """A policy in Volcano's words: the features that switch it on, the section of its file, and
    what that section says of our own settings."""

    policy: str
    features: tuple[Feature, ...]
    section: str
    says: Callable[[Colocation, frozenset[Feature]], dict[str, object]]


def _share(config: Colocation, _: frozenset[Feature]) -> dict[str, object]:
    section = config.cpu_throttling
    return {
        "threshold": section.threshold,
        "jitter": section.jitter,
        "recover": section.recover,
    }


def _memory(_: Colocation, on: frozenset[Feature]) -> dict[str, object]:
    """Volcano's two features are one policy here: levels, and ratios on cgroup v2."""
    ratios = Feature.MEMORY_QOS_V2 in on
    return {
        "levels": Feature.MEMORY_QOS in on,
        "formula": (MemoryFormula.RATIOS if ratios else MemoryFormula.NONE).value,
    }


def _nothing(_: Colocation, __: frozenset[Feature]) -> dict[str, object]:
    return {}


_DIALECT = (
    _Feature(best_effort_share.NAME, (Feature.CPU_THROTTLE,), "cpuThrottlingConfig", _share),
    _Feature(batch_resources.NAME, (Feature.RESOURCES,), "", _nothing),
    _Feature(qos_level.NAME, (Feature.CPU_QOS,), "cpuQosConfig", _nothing),
    _Feature(
        memory_qos.NAME,
        (Feature.MEMORY_QOS, Feature.MEMORY_QOS_V2),
        "memoryQosConfig or memoryQosV2Config",
        _memory,
    ),
    _Feature(quota_burst.NAME, (Feature.CPU_BURST,), "cpuBurstConfig", _nothing),
)


def _choose(
    feature: _Feature,
    own: Settings,
    config: Colocation | None,
    supported: tuple[str, ...],
    labels: Mapping[str, str],
) -> Any:  # noqa: ANN401 - each policy's own settings
    """The policy's settings, or a sentence about why it is off."""
    settings, part = getattr(own, feature.policy), PARTS[feature.policy]
    if settings.enabled:
        return settings
    key = section_key(part)
    if config is None:
        where = feature.section or "ColocationConfig"
        return f"{key}.enabled is false, and there is no {where}"
    known = [each for each in feature.features if is_supported(supported, each)]
    if not known:
        return f"{key}.enabled is false, and --supported-features has no {_names(feature)}"
    on = frozenset(each for each in known if is_active(config, each))
    if on:
        said = {"enabled": True, **feature.says(config, on)}
        return part.read(said, feature.section or key, settings)
    return _why_off(feature, config, key, labels)


def _why_off(feature: _Feature, config: Colocation, key: str, labels: Mapping[str, str]) -> str:
    if not _is_wanted(feature, config):
        return f"neither {key}.enabled nor {feature.section}.enable is true"
    throttle = feature.features == (Feature.CPU_THROTTLE,)
    label = OVER_SUBSCRIPTION_LABEL if throttle else COLOCATION_LABEL
    enabled = f"{feature.section} is enabled, but the node"
    if label in labels:
        return f"{enabled}'s label {label} is {quoted(labels[label])}, which is not true"
    return f'{enabled} has no label {label}: "true"'


def _is_wanted(feature: _Feature, config: Colocation | None) -> bool:
    """Whether the configuration would switch it on, if labels and flags let it."""
    if config is None:
        return False
    labelled = msgspec.structs.replace(config, node_label=NodeLabel(True, True))
    return any(is_active(labelled, each) for each in feature.features)


def _names(feature: _Feature) -> str:
    return " or ".join(each.value for each in feature.features)
