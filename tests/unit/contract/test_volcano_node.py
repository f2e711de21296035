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
    DEFAULT_FEATURES,
    OVER_SUBSCRIPTION_LABEL,
    Feature,
    is_active,
    is_supported,
    node_label,
    read_features,
    read_ratio,
    read_watermarks,
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


def test_the_default_features_do_not_throttle() -> None:
    assert DEFAULT_FEATURES == ("OverSubscription", "Eviction", "Resources")
    assert not is_supported(DEFAULT_FEATURES, Feature.CPU_THROTTLE)
    assert is_supported(DEFAULT_FEATURES, Feature.EVICTION)


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


@pytest.mark.parametrize(("value", "ratio"), [("60", 60), ("110", 110), ("80", 80), ("+1", 1)])
def test_row_65_ratios(value: str, ratio: int) -> None:
    assert read_ratio(value, "x") == ratio


@pytest.mark.parametrize("value", ["-1", "0", "", "60%", "6e1", "0.6", "9" * 30])
def test_row_65_bad_ratios(value: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_ratio(value, "--oversubscription-ratio")
    assert str(caught.value) == (
        f"--oversubscription-ratio is {value!r}, but must be a whole number of at least 1 (percent)"
    )


def marks(**said: str) -> dict[str, str]:
    """Annotations: cpu_low="90" is volcano.sh/evicting-cpu-low-watermark."""
    return {
        f"volcano.sh/evicting-{key.replace('_', '-')}-watermark": value
        for key, value in said.items()
    }


def old(**said: str) -> dict[str, str]:
    """The same under the older keys."""
    return {
        key.replace("volcano.sh/", "volcano.sh/oversubscription-"): value
        for key, value in marks(**said).items()
    }


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({"volcano.sh/other": "1"}, None),
        (marks(cpu_high="90"), Evicting(cpu_high=90)),
        (marks(cpu_low="0"), Evicting(cpu_low=0)),
        (old(cpu_high="90"), Evicting(cpu_high=90)),
        ({**old(cpu_high="90"), **marks(cpu_high="85")}, Evicting(cpu_high=85)),
        (
            marks(cpu_high="4", cpu_low="3", memory_high="2", memory_low="1"),
            Evicting(cpu_high=4, cpu_low=3, memory_high=2, memory_low=1),
        ),
    ],
)
def test_watermarks(annotations: dict[str, str], expected: Evicting | None) -> None:
    assert read_watermarks(annotations, "x") == expected


@pytest.mark.parametrize(
    ("annotations", "sentence"),
    [
        (
            marks(cpu_low="90"),
            (
                "x: metadata.annotations: the evicting cpu low watermark is 90, "
                "but must be below the high one (80)"
            ),
        ),
        (
            marks(memory_low="-1"),
            (
                "x: metadata.annotations['volcano.sh/evicting-memory-low-watermark'] is '-1', "
                "but must be a whole number of at least 0 (percent)"
            ),
        ),
        (
            old(memory_high="10", memory_low="20"),
            (
                "x: metadata.annotations: the evicting memory low watermark is 20, "
                "but must be below the high one (10)"
            ),
        ),
        (
            marks(cpu_high="x"),
            (
                "x: metadata.annotations['volcano.sh/evicting-cpu-high-watermark'] is 'x', "
                "but must be a whole number of at least 0 (percent)"
            ),
        ),
        (
            marks(cpu_high="30"),
            (
                "x: metadata.annotations: the evicting cpu low watermark is 30, "
                "but must be below the high one (30)"
            ),
        ),
        (
            {**old(cpu_high="90"), **marks(cpu_high="")},
            (
                "x: metadata.annotations['volcano.sh/evicting-cpu-high-watermark'] is '', "
                "but must be a whole number of at least 0 (percent)"
            ),
        ),
    ],
)
def test_row_59_bad_watermarks(annotations: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_watermarks(annotations, "x")
    assert str(caught.value) == sentence


@given(
    st.dictionaries(
        st.sampled_from([*marks(cpu_high="", cpu_low="", memory_low=""), *old(memory_high="")]),
        st.text(max_size=6) | st.integers(-5, 200).map(str),
    )
)
def test_any_annotations_read_or_are_refused(annotations: dict[str, str]) -> None:
    try:
        found = read_watermarks(annotations, "x")
    except InvalidError as error:
        assert str(error).isprintable()
    else:
        assert (found is None) == (not annotations)
        assert found is None or found.cpu_low < found.cpu_high


@given(st.text(max_size=20))
def test_any_flag_reads_or_is_refused(value: str) -> None:
    for read in (read_features, read_ratio):
        try:
            read(value, "x")
        except InvalidError as error:
            assert str(error).isprintable()
