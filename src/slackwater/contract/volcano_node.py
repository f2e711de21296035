"""What a Volcano user says outside the ConfigMap: node labels and the agent's flag for features.

A flag's value that means nothing is refused; a label that is neither true nor false says nothing.
"""

import enum
from collections.abc import Mapping

from slackwater.contract.kubernetes import is_true
from slackwater.contract.volcano_document import Colocation, NodeLabel
from slackwater.model.problem import InvalidError, Problem, quoted

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
