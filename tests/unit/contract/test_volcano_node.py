"""Labels, annotations and flags of Volcano's agent; facts/volcano.md sections 3.1, 4.4 and 5."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.volcano_document import (
    Colocation,
    CpuBurstSection,
    CpuQosSection,
    CpuThrottling,
    Evicting,
    MemoryQosSection,
    MemoryQosV2Section,
    NetworkQos,
    NodeLabel,
    OverSubscription,
)
from slackwater.contract.volcano_node import (
    COLOCATION_LABEL,
    OVER_SUBSCRIPTION_LABEL,
    Feature,
    is_active,
    is_supported,
    node_label,
    read_features,
)
from slackwater.model.problem import InvalidError

ON = Colocation(
    NodeLabel(),
    CpuQosSection(True),
    CpuBurstSection(True),
    MemoryQosSection(True),
    MemoryQosV2Section(True),
    NetworkQos(True),
    OverSubscription(True),
    Evicting(),
    CpuThrottling(True),
)
OFF = Colocation(over_subscription=OverSubscription(False))
ALWAYS = {Feature.EVICTION, Feature.RESOURCES}
OVERSOLD = {Feature.OVER_SUBSCRIPTION, Feature.CPU_THROTTLE}


@pytest.mark.parametrize(
    ("colocation", "over", "expected"),
    [
        (None, None, (False, False)),
        ("true", None, (True, False)),
        ("T", "0", (True, False)),
        (None, "true", (True, True)),
        ("false", "true", (True, True)),
        ("yes", "on", (False, False)),
        ("", "", (False, False)),
        ("1", "1", (True, True)),
    ],
)
def test_labels(colocation: str | None, over: str | None, expected: tuple[bool, bool]) -> None:
    pairs = {COLOCATION_LABEL: colocation, OVER_SUBSCRIPTION_LABEL: over}
    labels = {key: value for key, value in pairs.items() if value is not None}
    assert node_label(labels) == NodeLabel(*expected)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (NodeLabel(False, False), ALWAYS),
        (NodeLabel(True, False), set(Feature) - OVERSOLD),
        (NodeLabel(True, True), set(Feature)),
    ],
)
def test_gates_with_everything_enabled(label: NodeLabel, expected: set[Feature]) -> None:
    config = Colocation(
        label,
        ON.cpu_qos,
        ON.cpu_burst,
        ON.memory_qos,
        ON.memory_qos_v2,
        ON.network_qos,
        ON.over_subscription,
        ON.evicting,
        ON.cpu_throttling,
    )
    assert {feature for feature in Feature if is_active(config, feature)} == expected


@pytest.mark.parametrize("feature", Feature)
def test_gates_with_nothing_enabled(feature: Feature) -> None:
    config = Colocation(NodeLabel(True, True), over_subscription=OFF.over_subscription)
    assert is_active(config, feature) is (feature in ALWAYS)


@pytest.mark.parametrize(
    ("listed", "supported"),
    [
        ("", False),
        ("*", True),
        ("CPUThrottle", True),
        ("-CPUThrottle", False),
        ("*,-CPUThrottle", False),
        ("-CPUThrottle,*", False),
        ("-CPUThrottle,CPUThrottle", False),
        ("CPUThrottle,-CPUThrottle", True),
        ("*,CPUThrottle,-CPUThrottle", True),
        ("Eviction,Resources", False),
        (" Eviction , CPUThrottle ", True),
        ("-Eviction", False),
    ],
)
def test_supported_features(listed: str, supported: bool) -> None:
    assert is_supported(read_features(listed, "x"), Feature.CPU_THROTTLE) is supported


@pytest.mark.parametrize("listed", ["cputhrottle", "CPUThrottle,", "-*", "--CPUThrottle", "a b"])
def test_unknown_features(listed: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_features(listed, "--supported-features")
    assert str(caught.value).startswith("a part of --supported-features is '")
    assert "but must be *, or one of CPUQoS, CPUBurst, " in str(caught.value)


@given(st.text(max_size=20))
def test_any_flag_reads_or_is_refused(value: str) -> None:
    try:
        read_features(value, "x")
    except InvalidError as error:
        assert str(error).isprintable()
