"""Volcano's configuration for one node: merged, validated, and as sections of our settings.

The merge: defaults, then globalConfig, then the last entry of nodesConfig whose selector matches,
key by key. All values that are out of bounds are reported at once, each with where it was stated.
The node's labels and the agent's --supported-features decide which features are on: a feature that
does not exist is refused; a label that is neither true nor false counts as absent.
"""

import enum
from collections.abc import Callable, Iterator, Mapping

import msgspec

from slackwater.contract.decoding import check_value
from slackwater.contract.document import Field
from slackwater.contract.kubernetes import is_true
from slackwater.contract.schema import ForeignSection
from slackwater.contract.volcano.colocation_config import (
    ORDERED_KEYS,
    SECTIONS,
    Colocation,
    ColocationConfig,
    NodeLabel,
    Stated,
)
from slackwater.model.problem import DocumentName, InvalidError, Problem, quoted

COLOCATION_LABEL = "volcano.sh/colocation"
OVER_SUBSCRIPTION_LABEL = "volcano.sh/oversubscription"


class Feature(enum.Enum):
    """The features of Volcano's agent, by the names in --supported-features."""

    CPU_QOS = "CPUQoS"
    CPU_BURST = "CPUBurst"
    MEMORY_QOS = "MemoryQoS"
    MEMORY_QOS_V2 = "MemoryQoSV2"
    NETWORK_QOS = "NetworkQoS"
    OVER_SUBSCRIPTION = "OverSubscription"
    EVICTION = "Eviction"
    RESOURCES = "Resources"
    CPU_THROTTLE = "CPUThrottle"


_EVERY = "*"


def node_label(labels: Mapping[str, str]) -> NodeLabel:
    """What the node's labels allow; oversubscription implies colocation."""
    over = is_true(labels, OVER_SUBSCRIPTION_LABEL)
    return NodeLabel(is_true(labels, COLOCATION_LABEL) or over, over)


def is_active(config: Colocation, feature: Feature) -> bool:
    """Whether the configuration and the node's labels together switch a feature on."""
    label = config.node_label
    match feature:
        case Feature.CPU_QOS:
            return label.colocation and config.cpu_qos.enable
        case Feature.CPU_BURST:
            return label.colocation and config.cpu_burst.enable
        case Feature.MEMORY_QOS:
            return label.colocation and config.memory_qos.enable
        case Feature.MEMORY_QOS_V2:
            return label.colocation and config.memory_qos_v2.enable
        case Feature.NETWORK_QOS:
            return label.colocation and config.network_qos.enable
        case Feature.OVER_SUBSCRIPTION:
            return label.over_subscription and config.over_subscription.enable
        case Feature.CPU_THROTTLE:
            return label.over_subscription and config.cpu_throttling.enable
        case Feature.EVICTION | Feature.RESOURCES:
            return True


def read_features(listed: str, source: str) -> tuple[str, ...]:
    """--supported-features: "*", a name, "-name", separated by commas; "" is none at all."""
    parts = tuple(part.strip() for part in listed.split(",")) if listed.strip() else ()
    known = [feature.value for feature in Feature]
    for part in parts:
        if part != _EVERY and part.removeprefix("-") not in known:
            wanted = f"*, or one of {', '.join(known)} with or without a - before it"
            raise InvalidError(Problem(f"a part of {source}", quoted(part), wanted))
    return parts


def is_supported(parts: tuple[str, ...], feature: Feature) -> bool:
    """The first part that names the feature decides; else whether "*" is there."""
    names = {feature.value: True, f"-{feature.value}": False}
    return next((names[part] for part in parts if part in names), _EVERY in parts)


#: Volcano's own default lacks CPUThrottle; here the configuration decides (docs/differences.md).
EVERY_FEATURE = ("*",)


def for_node(config: ColocationConfig, labels: Mapping[str, str]) -> Colocation:
    """The configuration of a node with these labels; raises InvalidError."""
    stated = merge(config, labels)
    problems: list[Problem] = []
    values: dict[str, dict[str, object]] = {}
    for (section, key), each in stated.items():
        check_value(each, SECTIONS[section][key].type, problems)
        values.setdefault(section, {})[key] = each.value
    problems += _order_problems(stated, config.source)
    if problems:
        raise InvalidError(*problems)
    found = msgspec.convert(values, Colocation)
    return msgspec.structs.replace(found, node_label=node_label(labels))


def merge(config: ColocationConfig, labels: Mapping[str, str]) -> Stated:
    """What is stated for this node: globally, and by the last entry that selects it."""
    chosen: Stated = {}
    for entry in config.nodes:
        if entry.selector is not None and entry.selector.selects(labels):
            chosen = entry.stated
    return {**config.everywhere, **chosen}


def _order_problems(stated: Stated, source: str | DocumentName) -> Iterator[Problem]:
    for section, *keys in ORDERED_KEYS:
        low, high = (stated.get((section, key)) or _default(section, key, source) for key in keys)
        match low.value, high.value:
            case int(lower), int(upper) if lower > upper:
                yield low.problem(f"at most {high.where()}, which is {upper}")


def _default(section: str, key: str, source: str | DocumentName) -> Field:
    return Field(source, f"the default of {section}.{key}", SECTIONS[section][key].default)


class _Row(msgspec.Struct, frozen=True):
    """A section of our settings in Volcano's words: the features that switch it on, the section of
    its file, and what that says of our settings. Its `values` fill what ours do not state, also
    where ours switch the section on; the rest follows from Volcano's own switches."""

    key: str
    features: tuple[Feature, ...]
    section: str
    says: Callable[[Colocation, frozenset[Feature]], dict[str, object]]
    values: tuple[str, ...] = ()


def _throttling(config: Colocation, _: frozenset[Feature]) -> dict[str, object]:
    section = config.cpu_throttling
    return {
        "threshold": section.threshold,
        "jitter": section.jitter,
        "recover": section.recover,
    }


def _memory(_: Colocation, on: frozenset[Feature]) -> dict[str, object]:
    """Volcano's two features are one policy here: levels, and ratios on cgroup v2."""
    formula = "ratios" if Feature.MEMORY_QOS_V2 in on else "none"
    return {"levels": Feature.MEMORY_QOS in on, "formula": formula}


def _nothing(_: Colocation, __: frozenset[Feature]) -> dict[str, object]:
    return {}


_ROWS = (
    _Row(
        "bestEffortShare",
        (Feature.CPU_THROTTLE,),
        "cpuThrottlingConfig",
        _throttling,
        ("threshold", "jitter", "recover"),
    ),
    _Row("elasticResources", (Feature.RESOURCES,), "", _nothing),
    _Row("qosLevel", (Feature.CPU_QOS,), "cpuQosConfig", _nothing),
    _Row(
        "memoryQos",
        (Feature.MEMORY_QOS, Feature.MEMORY_QOS_V2),
        "memoryQosConfig or memoryQosV2Config",
        _memory,
    ),
    _Row("quotaBurst", (Feature.CPU_BURST,), "cpuBurstConfig", _nothing),
)


def sections_for_node(
    config: ColocationConfig | None,
    labels: Mapping[str, str],
    supported: tuple[str, ...] = EVERY_FEATURE,
) -> dict[str, ForeignSection]:
    """What Volcano's configuration says of our sections, by their keys, on a node with these
    labels, to an agent that supports these of its features. Raises InvalidError."""
    colocation = for_node(config, labels) if config else None
    return {row.key: _section(row, colocation, labels, supported) for row in _ROWS}


def _section(
    row: _Row, config: Colocation | None, labels: Mapping[str, str], supported: tuple[str, ...]
) -> ForeignSection:
    title = row.section or row.key
    if config is None:
        missing = row.section or "ColocationConfig"
        return ForeignSection(
            title, why_off=f"{row.key}.enabled is false, and there is no {missing}"
        )
    labelled = msgspec.structs.replace(config, node_label=NodeLabel(True, True))
    wanted = any(is_active(labelled, each) for each in row.features)
    known = [each for each in row.features if is_supported(supported, each)]
    on = frozenset(each for each in known if is_active(config, each))
    if not on:
        return ForeignSection(title, why_off=_why_off(row, known, labels, wanted), wanted=wanted)
    said = row.says(config, on)
    values = {name: said[name] for name in row.values if said.get(name) is not None}
    return ForeignSection(title, {"enabled": True, **said}, values, wanted=wanted)


def _why_off(row: _Row, known: list[Feature], labels: Mapping[str, str], wanted: bool) -> str:
    if not known:
        names = " or ".join(each.value for each in row.features)
        return f"{row.key}.enabled is false, and --supported-features has no {names}"
    if not wanted:
        return f"neither {row.key}.enabled nor {row.section}.enable is true"
    throttle = row.features == (Feature.CPU_THROTTLE,)
    label = OVER_SUBSCRIPTION_LABEL if throttle else COLOCATION_LABEL
    enabled = f"{row.section} is enabled, but the node"
    if label in labels:
        return f"{enabled}'s label {label} is {quoted(labels[label])}, which is not true"
    return f'{enabled} has no label {label}: "true"'
