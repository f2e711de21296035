"""Volcano's configuration for one node: merged, validated, and as sections of our settings.

The merge: defaults, then globalConfig, then the last entry of nodesConfig whose selector matches,
key by key. All values that are out of bounds are reported at once, each with where it was stated.
The node's labels and the agent's --supported-features decide which features are on: a feature that
does not exist is refused; a label that is neither true nor false counts as absent.
"""

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from slackwater.contract.dialect import ForeignSection
from slackwater.contract.document import Field
from slackwater.contract.kubernetes import is_true
from slackwater.contract.volcano.colocation_config import (
    GLOBAL,
    ORDERS,
    OVER_SUBSCRIPTION_TYPES,
    RANGES,
    Colocation,
    ColocationConfig,
    NodeLabel,
    Said,
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
_TYPES_WANTED = f"a list of {' and '.join(OVER_SUBSCRIPTION_TYPES)}, separated by commas alone"


def for_node(config: ColocationConfig, labels: Mapping[str, str]) -> Colocation:
    """The configuration that counts on a node with these labels."""
    said = merged(config, labels)
    infos = msgspec.structs.fields(Colocation)
    sections = {info.name: info.type(**_values(said, info.name)) for info in infos}
    colocation = Colocation(**{**sections, "node_label": node_label(labels)})
    problems = tuple(_problems(colocation, said, config.source))
    if problems:
        raise InvalidError(*problems)
    return colocation


def _values(said: Said, section: str) -> dict[str, Any]:
    return {attribute: each.value for (name, attribute), each in said.items() if name == section}


def merged(config: ColocationConfig, labels: Mapping[str, str]) -> Said:
    """What was said for this node: globally, and by the last entry that selects it."""
    chosen: Said = {}
    for entry in config.nodes:
        if entry.selector is not None and entry.selector.selects(labels):
            chosen = entry.said
    return {**config.everywhere, **chosen}


def render(colocation: Colocation) -> dict[str, object]:
    """The document that reads as this configuration on every node; the defaults by default."""
    return {GLOBAL: msgspec.to_builtins(colocation)}


def _problems(colocation: Colocation, said: Said, source: str | DocumentName) -> Iterator[Problem]:
    for each in RANGES:
        value = _value(colocation, each.section, each.attribute)
        if not each.holds(value):
            field = _field(said, each.section, each.attribute, source)
            yield field.problem(each.words(), quoted(value))
    for order in ORDERS:
        low = _value(colocation, order.section, order.low)
        high = _value(colocation, order.section, order.high)
        if low > high:
            above = _field(said, order.section, order.high, source)
            field = _field(said, order.section, order.low, source)
            yield field.problem(f"at most {above.where()}, which is {high}", quoted(low))
    yield from _type_problems(colocation, said, source)


def _type_problems(
    colocation: Colocation, said: Said, source: str | DocumentName
) -> Iterator[Problem]:
    """Each part is exactly cpu or memory; an empty text is none of them."""
    types = colocation.over_subscription.types
    if types and any(part not in OVER_SUBSCRIPTION_TYPES for part in types.split(",")):
        field = _field(said, "over_subscription", "types", source)
        yield field.problem(_TYPES_WANTED, quoted(types))


def _value(colocation: Colocation, section: str, attribute: str) -> Any:  # noqa: ANN401
    return getattr(getattr(colocation, section), attribute)


def _field(said: Said, section: str, attribute: str, source: str | DocumentName) -> Field:
    """Where a value was said; a default has no place of its own, but a name."""
    default = Field(source, f"the default of {_file_key(section, attribute)}", "")
    return said.get((section, attribute), default)


def _file_key(section: str, attribute: str) -> str:
    outer = {info.name: info for info in msgspec.structs.fields(Colocation)}[section]
    inner = {info.name: info for info in msgspec.structs.fields(outer.type)}[attribute]
    return f"{outer.encode_name}.{inner.encode_name}"


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
    _Row("batchResources", (Feature.RESOURCES,), "", _nothing),
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
