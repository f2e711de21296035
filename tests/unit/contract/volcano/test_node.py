"""Volcano's configuration for one node: defaults, bounds, the merge and its laws; node labels and
--supported-features. facts/volcano.md 1.1, 3.1, 4.1, 4.2, 4.4 and 5."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.volcano.colocation_config import (
    Colocation,
    CpuThrottling,
    Evicting,
    FeatureSwitch,
    NetworkQos,
    NodeLabel,
    OverSubscription,
    read_config,
)
from slackwater.contract.volcano.node import (
    COLOCATION_LABEL,
    OVER_SUBSCRIPTION_LABEL,
    Feature,
    for_node,
    is_active,
    is_supported,
    merge,
    node_label,
    read_features,
)
from slackwater.model.problem import InvalidError
from tests.unit.contract.volcano.volcano_config import config, evicting, on_node, problems, throttle


@pytest.mark.parametrize(
    "document", [{"globalConfig": {}}, {"globalConfig": None}, {"nodesConfig": []}]
)
def test_the_defaults(document: object) -> None:
    """Section 4.1, to the letter, but for nodeLabelConfig: that is the node's labels."""
    made = msgspec.to_builtins(on_node(document))
    assert made == {
        "nodeLabelConfig": {"nodeColocationEnable": False, "nodeOverSubscriptionEnable": False},
        "cpuQosConfig": {"enable": False},
        "cpuBurstConfig": {"enable": False},
        "memoryQosConfig": {"enable": False},
        "memoryQosV2Config": {"enable": False},
        "networkQosConfig": {
            "enable": False,
            "onlineBandwidthWatermarkPercent": 80,
            "offlineLowBandwidthPercent": 10,
            "offlineHighBandwidthPercent": 40,
            "qosCheckInterval": 10_000_000,
        },
        "overSubscriptionConfig": {"enable": True, "overSubscriptionTypes": "cpu,memory"},
        "evictingConfig": {
            "evictingCPUHighWatermark": 80,
            "evictingMemoryHighWatermark": 60,
            "evictingCPULowWatermark": 30,
            "evictingMemoryLowWatermark": 30,
        },
        "cpuThrottlingConfig": {
            "enable": False,
            "cpuThrottlingThreshold": None,
            "cpuJitterLimitPercent": None,
            "cpuRecoverLimitPercent": None,
        },
    }
    assert NodeLabel() == NodeLabel(colocation=True, over_subscription=False)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"enable": True}, CpuThrottling(True)),
        ({"cpuThrottlingThreshold": 1}, CpuThrottling(threshold=1)),
        ({"cpuThrottlingThreshold": 100}, CpuThrottling(threshold=100)),
        ({"cpuJitterLimitPercent": 0}, CpuThrottling(jitter=0)),
        ({"cpuJitterLimitPercent": 150}, CpuThrottling(jitter=150)),
        ({"cpuRecoverLimitPercent": 1}, CpuThrottling(recover=1)),
        ({"cpuRecoverLimitPercent": 150}, CpuThrottling(recover=150)),
        # Volcano ignores both where the threshold is absent; that is a bug.
        (
            {"cpuJitterLimitPercent": 5, "cpuRecoverLimitPercent": 20},
            CpuThrottling(jitter=5, recover=20),
        ),
        ({"cpuThrottlingThreshold": None}, CpuThrottling()),
    ],
)
def test_throttling(said: dict[str, object], expected: CpuThrottling) -> None:
    assert on_node({"globalConfig": throttle(**said)}).cpu_throttling == expected


@pytest.mark.parametrize(
    ("said", "bound"),
    [
        ({"cpuThrottlingThreshold": 0}, "a whole number, 1 % to 100 %"),
        ({"cpuThrottlingThreshold": 101}, "a whole number, 1 % to 100 %"),
        ({"cpuThrottlingThreshold": -1}, "a whole number, 1 % to 100 %"),
        ({"cpuJitterLimitPercent": -1}, "a whole number, at least 0 %"),
        ({"cpuRecoverLimitPercent": 0}, "a whole number, at least 1 %"),
    ],
)
def test_throttling_outside_its_bounds(said: dict[str, Any], bound: str) -> None:
    ((key, value),) = said.items()
    assert problems({"globalConfig": throttle(**said)}) == [
        f"c: globalConfig.cpuThrottlingConfig.{key} is {value}, but must be {bound}"
    ]


@pytest.mark.parametrize(
    ("said", "sentences"),
    [
        (
            {"qosCheckInterval": 0},
            ["qosCheckInterval is 0, but must be a whole number of nanoseconds, at least 1"],
        ),
        (
            {"onlineBandwidthWatermarkPercent": 1001},
            [
                (
                    "onlineBandwidthWatermarkPercent is 1001, but must be a whole number, 1 % to "
                    "1000 %"
                )
            ],
        ),
        (
            {"offlineLowBandwidthPercent": 50},
            [
                (
                    "offlineLowBandwidthPercent is 50, but must be at most c: the default of "
                    "networkQosConfig.offlineHighBandwidthPercent, which is 40"
                )
            ],
        ),
        (
            {"offlineLowBandwidthPercent": 0, "offlineHighBandwidthPercent": -1},
            [
                ("offlineLowBandwidthPercent is 0, but must be a whole number, 1 % to 1000 %"),
                ("offlineHighBandwidthPercent is -1, but must be a whole number, 1 % to 1000 %"),
                (
                    "offlineLowBandwidthPercent is 0, but must be at most c: globalConfig."
                    "networkQosConfig.offlineHighBandwidthPercent, which is -1"
                ),
            ],
        ),
    ],
)
def test_network_outside_its_bounds(said: object, sentences: list[str]) -> None:
    start = "c: globalConfig.networkQosConfig."
    document = {"globalConfig": {"networkQosConfig": said}}
    assert problems(document) == [start + sentence for sentence in sentences]


def test_network_at_its_bounds() -> None:
    said = {
        "onlineBandwidthWatermarkPercent": 1000,
        "offlineLowBandwidthPercent": 1000,
        "offlineHighBandwidthPercent": 1000,
        "qosCheckInterval": 1,
    }
    made = on_node({"globalConfig": {"networkQosConfig": said}})
    assert made.network_qos == NetworkQos(False, 1000, 1000, 1000, 1)


@pytest.mark.parametrize("types", ["", "cpu", "memory", "cpu,memory", "memory,cpu", "cpu,cpu"])
def test_over_subscription_types(types: str) -> None:
    document = {"globalConfig": {"overSubscriptionConfig": {"overSubscriptionTypes": types}}}
    assert on_node(document).over_subscription == OverSubscription(True, types)


@pytest.mark.parametrize("types", ["gpu", "cpu, memory", "CPU", ",", "cpu,", " "])
def test_other_over_subscription_types(types: str) -> None:
    document = {"globalConfig": {"overSubscriptionConfig": {"overSubscriptionTypes": types}}}
    assert problems(document) == [
        (
            f"c: globalConfig.overSubscriptionConfig.overSubscriptionTypes is {types!r}, "
            "but must be a list of cpu and memory, separated by commas alone"
        )
    ]


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ({"CPUHigh": 0}, 2),  # and below the default of the low one
        ({"MemoryLow": 0}, 1),
        ({"CPULow": 0, "MemoryLow": -1}, 2),
        ({"CPULow": 81}, 1),
        ({"MemoryLow": 61}, 1),
        ({"CPULow": 81, "MemoryLow": 61}, 2),
    ],
)
def test_watermarks_outside_their_bounds(said: dict[str, object], count: int) -> None:
    assert len(problems({"globalConfig": evicting(**said)})) == count


def test_watermarks_at_their_bounds() -> None:
    """Equal is allowed, and there is no upper bound."""
    made = on_node({"globalConfig": evicting(CPUHigh=300, CPULow=300, MemoryLow=60)})
    assert made.evicting == Evicting(300, 60, 300, 60)


POOL_A = {"matchLabels": {"pool": "a"}}


def test_row_63_the_merged_configuration_is_validated() -> None:
    document = config(evicting(CPULow=30), {"selector": POOL_A, **evicting(CPUHigh=10)})
    assert problems(document, pool="a") == [
        (
            "c: globalConfig.evictingConfig.evictingCPULowWatermark is 30, but must be at most "
            "c: nodesConfig[0].evictingConfig.evictingCPUHighWatermark, which is 10"
        )
    ]
    assert on_node(document, pool="b").evicting == Evicting()


def test_row_63_against_the_default() -> None:
    document = config({}, {"selector": POOL_A, **evicting(CPUHigh=10)})
    assert problems(document, pool="a") == [
        (
            "c: the default of evictingConfig.evictingCPULowWatermark is 30, but must be at most "
            "c: nodesConfig[0].evictingConfig.evictingCPUHighWatermark, which is 10"
        )
    ]


@pytest.mark.parametrize(
    ("everywhere", "node", "expected"),
    [
        ({"enable": True}, {}, CpuThrottling(True)),
        ({"enable": True}, {"enable": False}, CpuThrottling(False)),
        ({"enable": True}, {"enable": None}, CpuThrottling(True)),
        ({"enable": True}, None, CpuThrottling(True)),
        (None, {"enable": True}, CpuThrottling(True)),
        ({"cpuJitterLimitPercent": 5}, {"cpuJitterLimitPercent": 0}, CpuThrottling(jitter=0)),
        (
            {"cpuThrottlingThreshold": 60, "enable": True},
            {"cpuThrottlingThreshold": 70},
            CpuThrottling(True, threshold=70),
        ),
    ],
)
def test_a_node_entry_overrides_key_by_key(
    everywhere: object, node: object, expected: CpuThrottling
) -> None:
    document = config(
        {"cpuThrottlingConfig": everywhere}, {"selector": {}, "cpuThrottlingConfig": node}
    )
    assert on_node(document).cpu_throttling == expected


def test_an_empty_text_overrides() -> None:
    entry = {"selector": {}, "overSubscriptionConfig": {"overSubscriptionTypes": ""}}
    assert on_node(config({}, entry)).over_subscription.types == ""


def test_the_last_match_wins_alone() -> None:
    document = config(
        throttle(enable=True),
        {"selector": POOL_A, **throttle(cpuThrottlingThreshold=50, cpuJitterLimitPercent=7)},
        {"selector": POOL_A, **throttle(cpuThrottlingThreshold=60)},
        {"selector": {"matchLabels": {"pool": "b"}}, **throttle(cpuThrottlingThreshold=70)},
        {**throttle(cpuThrottlingThreshold=90)},
        {"selector": {"matchExpressions": [{"key": "-", "operator": "Exists"}]}, **throttle()},
    )
    assert on_node(document, pool="a").cpu_throttling == CpuThrottling(True, threshold=60)
    assert on_node(document, pool="b").cpu_throttling == CpuThrottling(True, threshold=70)
    assert on_node(document).cpu_throttling == CpuThrottling(True)


def test_a_bad_entry_for_other_nodes_does_not_matter() -> None:
    document = config({}, {"selector": POOL_A, **throttle(cpuThrottlingThreshold=0)})
    assert on_node(document, pool="b") == on_node({"globalConfig": {}})
    assert len(problems(document, pool="a")) == 1


def test_the_labels_beat_node_label_config() -> None:
    said = {"nodeLabelConfig": {"nodeColocationEnable": True, "nodeOverSubscriptionEnable": True}}
    assert on_node({"globalConfig": said}).node_label == NodeLabel(False, False)
    found = for_node(read_config({"globalConfig": {}}, "c"), {OVER_SUBSCRIPTION_LABEL: "t"})
    assert found.node_label == NodeLabel(True, True)


PERCENT = st.integers(1, 100)
COLOCATIONS = st.builds(
    Colocation,
    network_qos=PERCENT.map(lambda low: NetworkQos(True, 80, low, low + 5, 99)),
    over_subscription=st.builds(
        OverSubscription, st.booleans(), st.sampled_from(["", "cpu", "memory,cpu"])
    ),
    evicting=st.tuples(PERCENT, PERCENT).map(lambda p: Evicting(p[0] + 9, p[1] + 9, p[0], p[1])),
    cpu_throttling=st.builds(
        CpuThrottling,
        st.booleans(),
        PERCENT | st.none(),
        st.integers(0, 200) | st.none(),
        st.integers(1, 200) | st.none(),
    ),
)
LABELS = st.dictionaries(
    st.sampled_from(["pool", "volcano.sh/colocation", "volcano.sh/oversubscription"]),
    st.sampled_from(["a", "true", "false", "1"]),
)


@given(COLOCATIONS, LABELS)
def test_what_is_written_reads_back(colocation: Colocation, labels: dict[str, str]) -> None:
    made = for_node(read_config(config(_sections(colocation)), "c"), labels)
    assert made == msgspec.structs.replace(colocation, node_label=node_label(labels))
    assert read_config(config(_sections(colocation)), "c").warnings == ()


@given(COLOCATIONS, COLOCATIONS)
def test_the_last_match_wins(first: Colocation, last: Colocation) -> None:
    """Entries are not cumulative: nothing is left of those before the last."""
    entries = [{"selector": {}, **_sections(each)} for each in (first, last)]
    made = for_node(read_config(config({}, *entries), "c"), {})
    assert made == msgspec.structs.replace(last, node_label=NodeLabel(False, False))


@given(COLOCATIONS, LABELS)
def test_merging_is_idempotent(colocation: Colocation, labels: dict[str, str]) -> None:
    once = {"globalConfig": _sections(colocation)}
    twice = config(_sections(colocation), {"selector": {}, **_sections(colocation)})
    said = merge(read_config(twice, "c"), labels)
    assert {key: field.value for key, field in said.items()} == {
        key: field.value for key, field in merge(read_config(once, "c"), labels).items()
    }


@given(COLOCATIONS)
def test_an_entry_that_says_nothing_changes_nothing(colocation: Colocation) -> None:
    alone = for_node(read_config({"globalConfig": _sections(colocation)}, "c"), {})
    beside = config(_sections(colocation), {"selector": {}}, {"selector": {}, "evictingConfig": {}})
    assert for_node(read_config(beside, "c"), {}) == alone


def _sections(colocation: Colocation) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(colocation)
    return made


ON = Colocation(
    NodeLabel(),
    FeatureSwitch(True),
    FeatureSwitch(True),
    FeatureSwitch(True),
    FeatureSwitch(True),
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
