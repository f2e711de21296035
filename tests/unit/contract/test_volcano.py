"""The ColocationConfig for one node: defaults and bounds; facts/volcano.md 1.1, 4.1, 4.2."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.volcano_document import (
    CpuThrottling,
    Evicting,
    NetworkQos,
    NodeLabel,
    OverSubscription,
)
from tests.unit.contract.volcano_config import evicting, on_node, problems, throttle


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
        ({"cpuThrottlingThreshold": 0}, "a whole number from 1 to 100 (percent)"),
        ({"cpuThrottlingThreshold": 101}, "a whole number from 1 to 100 (percent)"),
        ({"cpuThrottlingThreshold": -1}, "a whole number from 1 to 100 (percent)"),
        ({"cpuJitterLimitPercent": -1}, "a whole number of at least 0 (percent)"),
        ({"cpuRecoverLimitPercent": 0}, "a whole number of at least 1 (percent)"),
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
            ["qosCheckInterval is 0, but must be a whole number of at least 1 (nanoseconds)"],
        ),
        (
            {"onlineBandwidthWatermarkPercent": 1001},
            [
                (
                    "onlineBandwidthWatermarkPercent is 1001, but must be a whole number from 1 to "
                    "1000 (percent)"
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
                (
                    "offlineLowBandwidthPercent is 0, but must be a whole number from 1 to 1000 "
                    "(percent)"
                ),
                (
                    "offlineHighBandwidthPercent is -1, but must be a whole number from 1 to 1000 "
                    "(percent)"
                ),
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
