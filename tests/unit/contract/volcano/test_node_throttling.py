"""From cpuThrottlingConfig to our settings: what a program does with both; facts 1.1 and 4.4.

Neither package knows the other, so the agreement of their bounds is tested here.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from slackwater.contract.decoding import read_over
from slackwater.contract.document import Field, parse_json
from slackwater.contract.schema import annotation_of, struct_type
from slackwater.contract.volcano.colocation_config import (
    Colocation,
    CpuThrottling,
    read_config,
)
from slackwater.contract.volcano.node import OVER_SUBSCRIPTION_LABEL, Feature, for_node, is_active
from slackwater.model.problem import InvalidError
from slackwater.policies.best_effort_share import BestEffortShareSettings

LABELS = {OVER_SUBSCRIPTION_LABEL: "true"}
KEYS = ("cpuThrottlingThreshold", "cpuJitterLimitPercent", "cpuRecoverLimitPercent")


def translated(colocation: Colocation) -> BestEffortShareSettings:
    """As the agent does it: the gate is the contract's, the defaults are ours."""
    section = colocation.cpu_throttling
    said = {
        "enabled": is_active(colocation, Feature.CPU_THROTTLE),
        "threshold": section.threshold,
        "jitter": section.jitter,
        "recover": section.recover,
    }
    return read_over(Field("", "colocation-config", said), BestEffortShareSettings())


def share(said: dict[str, object], labels: dict[str, str]) -> tuple[bool, int, int, int]:
    document = {"globalConfig": {"cpuThrottlingConfig": said}}
    made = translated(for_node(read_config(document, "c"), labels))
    return made.enabled, made.threshold, made.jitter, made.recover


@pytest.mark.parametrize(
    ("said", "labels", "expected"),
    [
        ({}, LABELS, (False, 80, 1, 10)),
        ({"enable": True}, LABELS, (True, 80, 1, 10)),
        ({"enable": True}, {}, (False, 80, 1, 10)),
        ({"enable": True}, {OVER_SUBSCRIPTION_LABEL: "yes"}, (False, 80, 1, 10)),
        ({"enable": True}, {"volcano.sh/colocation": "true"}, (False, 80, 1, 10)),
        ({"enable": False}, LABELS, (False, 80, 1, 10)),
        ({"enable": True, "cpuThrottlingThreshold": 65}, LABELS, (True, 65, 1, 10)),
        # Volcano drops both without a threshold, and makes 1 of a jitter of 0.
        (
            {"enable": True, "cpuJitterLimitPercent": 5, "cpuRecoverLimitPercent": 150},
            LABELS,
            (True, 80, 5, 150),
        ),
        ({"enable": True, "cpuJitterLimitPercent": 0}, LABELS, (True, 80, 0, 10)),
    ],
)
def test_rows_of_section_1_1(
    said: dict[str, object], labels: dict[str, str], expected: tuple[bool, int, int, int]
) -> None:
    assert share(said, labels) == expected


def test_the_config_map_that_volcano_creates() -> None:
    """utils.DefaultCfg of Volcano, as its agent writes it."""
    content = """{"globalConfig": {
        "nodeLabelConfig": {"nodeColocationEnable": true, "nodeOverSubscriptionEnable": false},
        "cpuBurstConfig": {"enable": false}, "cpuQosConfig": {"enable": false},
        "memoryQosConfig": {"enable": false}, "memoryQosV2Config": {"enable": false},
        "networkQosConfig": {"enable": false, "onlineBandwidthWatermarkPercent": 80,
            "offlineLowBandwidthPercent": 10, "offlineHighBandwidthPercent": 40,
            "qosCheckInterval": 10000000},
        "overSubscriptionConfig": {"enable": true, "overSubscriptionTypes": "cpu,memory"},
        "evictingConfig": {"evictingCPUHighWatermark": 80, "evictingMemoryHighWatermark": 60,
            "evictingCPULowWatermark": 30, "evictingMemoryLowWatermark": 30},
        "cpuThrottlingConfig": {"enable": false}}}"""
    config = read_config(parse_json(content, "c"), "c")
    assert config.warnings == ()
    assert translated(for_node(config, LABELS)) == BestEffortShareSettings()


@pytest.mark.parametrize("name", ["threshold", "jitter", "recover"])
def test_the_bounds_are_the_same(name: str) -> None:
    assert bounds(CpuThrottling, name) == bounds(BestEffortShareSettings, name)


def bounds(kind: type[msgspec.Struct], name: str) -> tuple[object, object]:
    [found] = [each for each in struct_type(kind).fields if each.name == name]
    bound = annotation_of(found.type).type
    assert isinstance(bound, inspect.IntType)
    return bound.ge, bound.le


@given(st.dictionaries(st.sampled_from(KEYS), st.integers(-5, 200) | st.none()))
def test_what_the_contract_accepts_the_settings_accept(said: dict[str, object]) -> None:
    try:
        share(said, LABELS)
    except InvalidError as error:
        assert all("cpuThrottlingConfig" in each.where for each in error.problems)
