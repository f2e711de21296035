"""The ColocationConfig as it is written: outline, spellings, unknown keys, selectors, types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.document import parse_json
from slackwater.contract.kubernetes import ConfigMap
from slackwater.contract.volcano.colocation_config import (
    CONFIG_KEY,
    CONFIG_MAP,
    CpuThrottling,
    config_text,
    is_config,
    read_config,
)
from slackwater.contract.volcano.node import for_node
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import ANYTHING, CONFIG_KEYS, shaped

#: The block of the seed (docs/design/cpu-throttle-design.md), as YAML parses it.
SEED = {
    "cpuThrottlingConfig": {
        "enable": True,
        "cpuThrottlingThreshold": 80,
        "cpuJitterLimitPercent": 1,
        "cpuRecoverLimitPercent": 10,
    }
}


def throttling(document: object) -> CpuThrottling:
    return for_node(read_config(document, "c"), {}).cpu_throttling


def test_the_names_are_volcanos() -> None:
    assert (CONFIG_MAP, CONFIG_KEY) == ("volcano-agent-configuration", "colocation-config")


@pytest.mark.parametrize(
    "document",
    [
        {"globalConfig": SEED},
        SEED,
        {"GlobalConfig": SEED},
        {"globalConfig": {"CPUThrottlingConfig": SEED["cpuThrottlingConfig"]}},
        {"globalConfig": SEED, "nodesConfig": None},
        {"globalConfig": None, "nodesConfig": [{"selector": {}, **SEED}]},
        {"nodesConfig": [{"selector": {}, **SEED}]},
    ],
)
def test_the_seeds_block_wherever_it_is_unambiguous(document: object) -> None:
    config = read_config(document, "c")
    assert config.warnings == ()
    assert throttling(document) == CpuThrottling(True, 80, 1, 10)


@pytest.mark.parametrize("rest", [{"globalConfig": {}}, {"nodesConfig": []}])
def test_a_section_beside_the_outline_means_nothing(rest: dict[str, object]) -> None:
    config = read_config({**rest, **SEED}, "c")
    assert config.warnings == ("c: cpuThrottlingConfig is not known and has no effect",)
    assert for_node(config, {}).cpu_throttling == CpuThrottling()


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"enable": True, "ENABLE": False}, True),
        ({"ENABLE": False, "enable": True}, True),
        ({"ENABLE": True}, True),
        ({"Enable": None}, False),
        ({"enable": None, "ENABLE": True}, False),
    ],
)
def test_keys_in_any_case_and_the_exact_one_first(section: object, expected: bool) -> None:
    assert throttling({"cpuThrottlingConfig": section}).enable is expected


def test_unknown_keys_are_kept_and_told_once() -> None:
    document = {
        "globalConfig": {
            "cpuThrottlingConfig": {"enable": True, "ENABLE": False, "burst": [1]},
            "timeBasedQoSPolicies": [{"name": "night"}],
        },
        "nodesConfig": [{"selector": {}, "evictingConfig": {"monitorInterval": 10}}],
        "version": 2,
    }
    config = read_config(document, "c")
    told = [
        "version",
        "globalConfig.timeBasedQoSPolicies",
        "globalConfig.cpuThrottlingConfig.ENABLE",
        "globalConfig.cpuThrottlingConfig.burst",
        "nodesConfig[0].evictingConfig.monitorInterval",
    ]
    assert sorted(config.warnings) == sorted(
        f"c: {path} is not known and has no effect" for path in told
    )
    kept = {each.path: each.value for each in config.unknown}
    assert kept["globalConfig.timeBasedQoSPolicies"] == [{"name": "night"}]
    assert kept["version"] == 2


@pytest.mark.parametrize(
    ("selector", "warning"),
    [
        (None, "c: nodesConfig[0] has no selector and is for no node"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            (
                "c: nodesConfig[0] is skipped: c: nodesConfig[0].selector.matchExpressions[0]: "
                "operator is 'Near', but must be one of In, NotIn, Exists, DoesNotExist"
            ),
        ),
    ],
)
def test_entries_that_are_for_no_node(selector: object, warning: str) -> None:
    config = read_config({"nodesConfig": [{"selector": selector, **SEED}]}, "c")
    assert config.warnings == (warning,)
    assert config.nodes[0].selector is None
    assert for_node(config, {"a": "b"}).cpu_throttling == CpuThrottling()


def test_a_null_entry_is_for_no_node() -> None:
    config = read_config({"nodesConfig": [None]}, "c")
    assert config.warnings == ("c: nodesConfig[0] has no selector and is for no node",)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (None, "c is missing, but must be a mapping"),
        ([], "c is a list, but must be a mapping"),
        ("{}", "c is '{}', but must be a mapping"),
        ({}, "c is a mapping of 0 unknown keys, but must be a mapping with globalConfig, "),
        ({"globalConf": {}}, "c is a mapping of 1 unknown keys, but must be a mapping with glob"),
        ({5: {}, "globalConfig": {}}, "a key of c is 5, but must be a text"),
        ({"globalConfig": []}, "c: globalConfig is a list, but must be a mapping"),
        ({"nodesConfig": {}}, "c: nodesConfig is a mapping, but must be a list"),
        ({"nodesConfig": [5]}, "c: nodesConfig[0] is 5, but must be a mapping"),
        (
            {"nodesConfig": [{"selector": "a=b"}]},
            "c: nodesConfig[0].selector is 'a=b', but must be a mapping",
        ),
        ({"cpuQosConfig": True}, "c: cpuQosConfig is true, but must be a mapping"),
        ({"cpuQosConfig": {"enable": 1}}, "c: cpuQosConfig.enable is 1, but must be true or false"),
        (
            {"cpuThrottlingConfig": {"cpuThrottlingThreshold": 80.0}},
            "c: cpuThrottlingConfig.cpuThrottlingThreshold is 80.0, but must be a whole number",
        ),
        (
            {"cpuThrottlingConfig": {"cpuThrottlingThreshold": "80"}},
            "c: cpuThrottlingConfig.cpuThrottlingThreshold is '80', but must be a whole number",
        ),
        (
            {"evictingConfig": {"evictingCPUHighWatermark": 2**70}},
            f"c: evictingConfig.evictingCPUHighWatermark is {2**70}, but must be a whole number of",
        ),
        (
            {"overSubscriptionConfig": {"overSubscriptionTypes": ["cpu"]}},
            "c: overSubscriptionConfig.overSubscriptionTypes is a list, but must be a text",
        ),
    ],
)
def test_wrong_types(document: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_config(document, "c")
    assert str(caught.value).startswith(sentence)


def test_all_wrong_types_are_told_at_once() -> None:
    document = {
        "globalConfig": {
            "cpuQosConfig": [],
            "cpuThrottlingConfig": {"enable": "yes", "cpuJitterLimitPercent": 1.5},
        },
        "nodesConfig": [{"selector": {}, "cpuBurstConfig": {"enable": 1}}, 5],
    }
    with pytest.raises(InvalidError) as caught:
        read_config(document, "c")
    assert [each.where for each in caught.value.problems] == [
        "c: globalConfig.cpuQosConfig",
        "c: globalConfig.cpuThrottlingConfig.enable",
        "c: globalConfig.cpuThrottlingConfig.cpuJitterLimitPercent",
        "c: nodesConfig[0].cpuBurstConfig.enable",
        "c: nodesConfig[1]",
    ]


@pytest.mark.parametrize(
    ("document", "known"),
    [
        (SEED, True),
        ({"globalConfig": None}, True),
        ({"NODESCONFIG": []}, True),
        ({"kind": "Pod"}, False),
        ({5: 5}, False),
        ({}, False),
        ([], False),
        (None, False),
    ],
)
def test_what_looks_like_a_configuration(document: object, known: bool) -> None:
    assert is_config(document) is known


def test_the_text_in_its_config_map() -> None:
    found = ConfigMap("volcano-system", CONFIG_MAP, {CONFIG_KEY: '{"globalConfig": {}}'})
    assert config_text(found, "x") == '{"globalConfig": {}}'
    with pytest.raises(InvalidError, match=r"^x: data\.colocation-config is missing, but must be"):
        config_text(ConfigMap("", CONFIG_MAP, {}), "x")


def test_json_text() -> None:
    content = '{"globalConfig": {"cpuThrottlingConfig": {"enable": true}}}'
    assert for_node(read_config(parse_json(content, "c"), "c"), {}).cpu_throttling.enable
    with pytest.raises(InvalidError, match=r"^c is '\{', but must be JSON"):
        parse_json("{", "c")


@given(ANYTHING | shaped(CONFIG_KEYS), st.dictionaries(st.sampled_from("ab"), st.text(max_size=2)))
def test_any_document_is_a_configuration_or_refused(
    document: object, labels: dict[str, str]
) -> None:
    for wrapped in (document, {"globalConfig": document}, {"nodesConfig": [document]}):
        try:
            config = read_config(wrapped, "c")
            for_node(config, labels)
        except InvalidError as error:
            assert str(error).isprintable()
            assert error.problems
        else:
            assert all(warning.isprintable() for warning in config.warnings)


@given(st.text(max_size=40))
def test_any_text_is_a_configuration_or_refused(content: str) -> None:
    try:
        read_config(parse_json(content, "c"), "c")
    except InvalidError as error:
        assert str(error).isprintable()
