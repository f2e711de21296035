"""Which policies are on, and how they are set: our own settings and Volcano's configuration.

Owns the translation of foreign configuration into settings. Configuration that is wrong is
told, and what was good before stays.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from slackwater.contract.decoding import read_over
from slackwater.contract.document import Field
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
from slackwater.model.problem import InvalidError, quoted
from slackwater.observation.objects.object_set import Objects
from slackwater.policies import (
    batch_resources,
    best_effort_share,
    memory_qos,
    qos_level,
    quota_burst,
)
from slackwater.settings.agent import AgentSettings
from slackwater.settings.document import DEFAULTS, Settings, section_key, with_texts
from slackwater.settings.memory_qos import MemoryFormula

NOTHING: Mapping[str, str] = {}
#: Volcano's own default lacks CPUThrottle; here the configuration decides (docs/differences.md).
EVERY_FEATURE = ("*",)


class Wishes(msgspec.Struct, frozen=True):
    """Settings by policy name, where a policy that is off is not in it; and the agent's own.
    `off` says of each policy that is not in it what would switch it on; `wanted` are
    those that a ColocationConfig enables, in vain or not. `remarks` say which of its values do
    not count, as ours are stated."""

    policies: dict[str, Any] = {}
    agent: AgentSettings = DEFAULTS.agent
    problems: tuple[str, ...] = ()
    off: dict[str, str] = {}
    wanted: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()

    def is_known(self) -> bool:
        """Whether the objects were ever good: then each policy is on, or off for a reason."""
        return bool(self.policies or self.off)


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
        remarks = tuple(r for each in _DIALECT for r in _overruled(each, own, colocation, features))
    except InvalidError as error:
        stays = "; what was set before stays" if before != Wishes() else ""
        problems = (*objects.problems, f"{error}{stays}")
        return msgspec.structs.replace(before, problems=problems)
    return Wishes(
        {name: each for name, each in found.items() if not isinstance(each, str)},
        own.agent,
        objects.problems,
        {name: each for name, each in found.items() if isinstance(each, str)},
        frozenset(each.policy for each in _DIALECT if _is_wanted(each, colocation)),
        remarks,
    )


class _Feature(msgspec.Struct, frozen=True):
    """A policy in Volcano's words: the features that switch it on, the section of its file, and
    what that section says of our own settings. Its `values` fill what our settings do not state,
    also where those switch the policy on; the rest follows from Volcano's own switches."""

    policy: str
    features: tuple[Feature, ...]
    section: str
    says: Callable[[Colocation, frozenset[Feature]], dict[str, object]]
    values: tuple[str, ...] = ()


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
    _Feature(
        best_effort_share.NAME,
        (Feature.CPU_THROTTLE,),
        "cpuThrottlingConfig",
        _share,
        ("threshold", "jitter", "recover"),
    ),
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
    settings, key = getattr(own, feature.policy), section_key(feature.policy)
    if settings.enabled:
        said = _foreign_values(feature, config, supported)
        free = {name: value for name, value in said.items() if not _is_stated(own, feature, name)}
        return read_over(Field("", feature.section or key, free), settings)
    if config is None:
        where = feature.section or "ColocationConfig"
        return f"{key}.enabled is false, and there is no {where}"
    known = [each for each in feature.features if is_supported(supported, each)]
    if not known:
        return f"{key}.enabled is false, and --supported-features has no {_names(feature)}"
    on = _active(feature, config, supported)
    if on:
        said = {"enabled": True, **feature.says(config, on)}
        return read_over(Field("", feature.section or key, said), settings)
    return _why_off(feature, config, key, labels)


def _active(
    feature: _Feature, config: Colocation, supported: tuple[str, ...]
) -> frozenset[Feature]:
    known = (each for each in feature.features if is_supported(supported, each))
    return frozenset(each for each in known if is_active(config, each))


def _foreign_values(
    feature: _Feature, config: Colocation | None, supported: tuple[str, ...]
) -> dict[str, object]:
    """By our keys, what Volcano's section states; nothing where it is not in force here."""
    on = _active(feature, config, supported) if config else frozenset()
    said = feature.says(config, on) if config and on else {}
    return {name: said[name] for name in feature.values if said.get(name) is not None}


def _is_stated(own: Settings, feature: _Feature, name: str) -> bool:
    """In a file, a flag or a variable; whoever builds settings by hand states what differs."""
    key = section_key(feature.policy)
    default, value = (getattr(getattr(s, feature.policy), name) for s in (DEFAULTS, own))
    return f"{key}.{name}" in own.stated or value != default


def _overruled(
    feature: _Feature, own: Settings, config: Colocation | None, supported: tuple[str, ...]
) -> Iterator[str]:
    settings, key = getattr(own, feature.policy), section_key(feature.policy)
    said = _foreign_values(feature, config, supported) if settings.enabled else {}
    for name, value in said.items():
        ours = getattr(settings, name)
        if ours != value and _is_stated(own, feature, name):
            theirs = f"{feature.section}'s {value}"
            yield f"{key}.{name} is {ours} by our settings; {theirs} does not count"


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
