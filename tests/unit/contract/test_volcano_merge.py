"""The ColocationConfig's merge: defaults, globalConfig, the last entry that matches; its laws."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.volcano import for_node, merged, render
from slackwater.contract.volcano_document import (
    Colocation,
    CpuThrottling,
    Evicting,
    NetworkQos,
    NodeLabel,
    OverSubscription,
    read_config,
)
from slackwater.contract.volcano_node import OVER_SUBSCRIPTION_LABEL, node_label
from tests.unit.contract.volcano_config import config, evicting, on_node, problems, throttle

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
def test_what_is_rendered_reads_back(colocation: Colocation, labels: dict[str, str]) -> None:
    made = for_node(read_config(render(colocation), "c"), labels)
    assert made == msgspec.structs.replace(colocation, node_label=node_label(labels))
    assert read_config(render(colocation), "c").warnings == ()


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
    said = merged(read_config(twice, "c"), labels)
    assert {key: field.value for key, field in said.items()} == {
        key: field.value for key, field in merged(read_config(once, "c"), labels).items()
    }


@given(COLOCATIONS)
def test_an_entry_that_says_nothing_changes_nothing(colocation: Colocation) -> None:
    alone = for_node(read_config({"globalConfig": _sections(colocation)}, "c"), {})
    beside = config(_sections(colocation), {"selector": {}}, {"selector": {}, "evictingConfig": {}})
    assert for_node(read_config(beside, "c"), {}) == alone


def _sections(colocation: Colocation) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(colocation)
    return made
