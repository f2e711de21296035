"""What a Volcano user says outside the ConfigMap: node labels and annotations, agent flags.

Owns the label and annotation keys, the gates that they open, and the syntax of the flags.
Refuses a flag's value that means nothing; a label that is no bool merely says nothing.
"""

import enum
import re
from collections.abc import Mapping

from slackwater.contract.kubernetes import is_true
from slackwater.contract.volcano_document import Colocation, Evicting, NodeLabel
from slackwater.model.problem import InvalidError, Problem, quoted

COLOCATION_LABEL = "volcano.sh/colocation"
OVER_SUBSCRIPTION_LABEL = "volcano.sh/oversubscription"
_WATERMARKS = {
    "cpu_high": "evicting-cpu-high-watermark",
    "cpu_low": "evicting-cpu-low-watermark",
    "memory_high": "evicting-memory-high-watermark",
    "memory_low": "evicting-memory-low-watermark",
}
# Go's strconv.Atoi, up to 18 digits.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


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


#: The flag's default; CPUThrottle is not in it.
DEFAULT_FEATURES = (
    Feature.OVER_SUBSCRIPTION.value,
    Feature.EVICTION.value,
    Feature.RESOURCES.value,
)
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


def read_ratio(value: str, source: str) -> int:
    """--oversubscription-ratio: a percent above 0, which may be above 100."""
    if not _WHOLE.fullmatch(value) or int(value) <= 0:
        wanted = "a whole number of at least 1 (percent)"
        raise InvalidError(Problem(source, quoted(value), wanted))
    return int(value)


def read_watermarks(annotations: Mapping[str, str], source: str) -> Evicting | None:
    """The node's own watermarks; None if it states none. What it does not state is the default."""
    stated = {
        attribute: (key, annotations[key])
        for attribute, name in _WATERMARKS.items()
        for key in (_stated_key(annotations, name),)
        if key
    }
    if not stated:
        return None
    marks = Evicting(
        **{
            attribute: _watermark(value, f"{source}: metadata.annotations['{key}']")
            for attribute, (key, value) in stated.items()
        }
    )
    _check_order(marks.cpu_low, marks.cpu_high, "cpu", source)
    _check_order(marks.memory_low, marks.memory_high, "memory", source)
    return marks


def _stated_key(annotations: Mapping[str, str], name: str) -> str:
    """The annotation in use: the old key counts only where the new one is absent."""
    keys = (f"volcano.sh/{name}", f"volcano.sh/oversubscription-{name}")
    return next((key for key in keys if key in annotations), "")


def _watermark(value: str, where: str) -> int:
    if not _WHOLE.fullmatch(value) or int(value) < 0:
        wanted = "a whole number of at least 0 (percent)"
        raise InvalidError(Problem(where, quoted(value), wanted))
    return int(value)


def _check_order(low: int, high: int, resource: str, source: str) -> None:
    """Unlike in the ConfigMap, equal is refused here, as in Volcano."""
    if low >= high:
        where = f"{source}: metadata.annotations: the evicting {resource} low watermark"
        raise InvalidError(Problem(where, quoted(low), f"below the high one ({high})"))
