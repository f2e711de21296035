"""CPU normalization as Koordinator's users write it: strategies, ratios, annotations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.koordinator.normalization import (
    BASIC_INFO_ANNOTATION,
    ENABLED_LABEL,
    AmplificationStrategy,
    CpuBasicInfo,
    Hundredths,
    ModelRatios,
    NormalizationStrategy,
    RatioChoice,
    amplification_ratios,
    amplify,
    choose_ratio,
    format_amplification,
    format_ratio,
    parse_ratio,
    read_amplification,
    read_basic_info,
    read_normalization,
    to_hundredths,
)
from slackwater.contract.kubernetes import ConfigMap
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError

MODEL = "Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz"
RATIOS = ModelRatios(1.5, 1.0, 1.65, 1.1)
BOTH_ON = CpuBasicInfo(MODEL, hyper_thread_enabled=True, turbo_enabled=True)


def config_map(**keys: object) -> ConfigMap:
    """Underscores in names are dashes; a value that is not a text becomes JSON."""
    data = {
        key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value)
        for key, value in keys.items()
    }
    return ConfigMap("koordinator-system", "slo-controller-config", data)


def strategy(**stated: object) -> NormalizationStrategy:
    return read_normalization(config_map(cpu_normalization_config=stated)).strategy


def ratio_of(
    given_strategy: NormalizationStrategy, info: CpuBasicInfo | Gap, label: str | None = "true"
) -> str:
    """The annotation that would be written; a sentence where there is none."""
    found = choose_ratio(given_strategy, "CLUSTER", label, info)
    return found.reason if isinstance(found, Gap) else format_ratio(found.ratio)


@pytest.mark.parametrize(
    ("hyper_threads", "turbo", "ratio"),
    [
        (True, True, "1.10"),
        (True, False, "1.00"),
        (False, True, "1.65"),
        (False, False, "1.50"),
    ],
)
def test_the_ratio_is_that_of_the_model_and_of_what_is_switched_on(
    hyper_threads: bool, turbo: bool, ratio: str
) -> None:
    info = CpuBasicInfo(MODEL, hyper_threads, turbo)
    assert ratio_of(NormalizationStrategy(ratio_model={MODEL: RATIOS}), info) == ratio


@pytest.mark.parametrize(
    ("stated", "info", "ratio"),
    [
        ({}, BOTH_ON, f"ratioModel of CLUSTER has no CPU model {MODEL!r}"),
        (
            {"ratioModel": {MODEL: {"baseRatio": 1.5}}},
            BOTH_ON,
            f"ratioModel[{MODEL!r}].hyperThreadTurboEnabledRatio of CLUSTER is missing",
        ),
        ({"defaultRatio": 2.5}, BOTH_ON, "2.50"),
        ({"defaultRatio": 2.2, "ratioModel": {MODEL: {}}}, BOTH_ON, "2.20"),
        ({"defaultRatio": 2.2}, Gap("there is no topology"), "2.20"),
        ({"ratioModel": {MODEL: {"baseRatio": 1.5}}}, Gap("there is none"), "there is none"),
    ],
)
def test_a_default_ratio_stands_in_for_whatever_is_missing(
    stated: dict[str, object], info: CpuBasicInfo | Gap, ratio: str
) -> None:
    assert ratio_of(strategy(**stated), info) == ratio


@pytest.mark.parametrize(
    ("enable", "label", "enabled"),
    [
        (None, None, False),
        (True, None, True),
        (False, None, False),
        (False, "true", True),
        (True, "false", False),
        (True, "0", False),
        (False, "T", True),
    ],
)
def test_the_label_counts_before_the_strategy(
    enable: bool | None, label: str | None, enabled: bool
) -> None:
    given_strategy = NormalizationStrategy(enable, 1.3)
    found = choose_ratio(given_strategy, "the cluster's strategy", label, BOTH_ON)
    assert isinstance(found, RatioChoice)
    assert (found.enabled, found.ratio) == (enabled, 130 if enabled else 100)


def test_a_label_that_is_neither_true_nor_false_changes_nothing() -> None:
    found = choose_ratio(NormalizationStrategy(True, 1.3), "x", "{]", BOTH_ON)
    assert found == Gap(
        f"label {ENABLED_LABEL} is '{{]', but must be true or false (1, t, T, TRUE and True are "
        "true, their opposites false)"
    )


def test_the_first_node_config_that_matches_counts() -> None:
    found = read_normalization(
        config_map(
            cpu_normalization_config={
                "enable": False,
                "ratioModel": {MODEL: {"baseRatio": 1.2}, "other": {"baseRatio": 1.9}},
                "nodeConfigs": [
                    {"name": "nobody", "enable": True},
                    {"nodeSelector": {"matchLabels": {"no such": "x"}}, "enable": True},
                    {
                        "name": "fast",
                        "nodeSelector": {"matchLabels": {"xxx": "yyy"}},
                        "enable": True,
                        "ratioModel": {MODEL: {"hyperThreadTurboEnabledRatio": 1.1}},
                    },
                    {"nodeSelector": {}, "enable": True},
                ],
            }
        )
    )
    fast, where = found.for_node({"xxx": "yyy"})
    assert where == "data[cpu-normalization-config].nodeConfigs[2] 'fast'"
    assert ratio_of(fast, BOTH_ON, None) == "1.10"
    assert fast.ratio_model["other"].base_ratio == 1.9
    # An entry replaces the whole entry below it.
    assert fast.ratio_model[MODEL].base_ratio is None
    assert found.for_node({})[1].endswith("nodeConfigs[3]")
    assert len(found.warnings) == 2
    assert found.warnings[0].endswith("nodeConfigs[0] has no nodeSelector and is for no node")
    assert found.warnings[1].count("ConfigMap") == 1
    assert found.warnings[1].endswith(": the entry is for no node")


def test_keys_are_read_in_any_case_and_unknown_ones_ignored() -> None:
    found = strategy(ENABLE=True, DefaultRatio=1.25, ratiomodel={}, color="blue")
    assert found == NormalizationStrategy(True, 1.25)


def test_no_key_is_the_default() -> None:
    assert read_normalization(config_map()).strategy == NormalizationStrategy()
    assert read_amplification(config_map()).strategy == AmplificationStrategy()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '{"enable": tru',
            "slo-controller-config: data[cpu-normalization-config] is '{\"enable\": tru'",
        ),
        ("[]", "data[cpu-normalization-config] is a list, but must be a mapping"),
        ('{"enable": "true"}', "data[cpu-normalization-config].enable is 'true', but must be true"),
        ('{"defaultRatio": 0.82}', ".defaultRatio is 0.82, but must be a number from 1.00 to 5.00"),
        ('{"defaultRatio": 5.01}', ".defaultRatio is 5.01, but must be a number from 1.00 to 5.00"),
        ('{"defaultRatio": "1.2"}', ".defaultRatio is '1.2', but must be a number from 1.00"),
        ('{"defaultRatio": 1e999}', "JSON"),
        ('{"ratioModel": {"x": {"baseRatio": 0}}}', ".ratioModel.x.baseRatio is 0, but must be"),
        ('{"ratioModel": {"x": 1.2}}', ".ratioModel.x is 1.2, but must be a mapping"),
        ('{"nodeConfigs": {}}', ".nodeConfigs is a mapping, but must be a list"),
        (
            '{"nodeConfigs": [{"defaultRatio": 9}]}',
            ".nodeConfigs[0].defaultRatio is 9, but must be",
        ),
        (
            '{"nodeConfigs": [{"nodeSelector": 1}]}',
            ".nodeConfigs[0].nodeSelector is 1, but must be",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_path_value_and_bound(text: str, sentence: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read_normalization(config_map(cpu_normalization_config=text))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.2, "1.20"), (1.15, "1.15"), (1.125, "1.12"), (3.1415926, "3.14")]
)
def test_ratios_have_two_decimals(ratio: float, text: str) -> None:
    assert format_ratio(to_hundredths(ratio)) == text


@given(st.integers(100, 500))
def test_every_step_of_a_hundredth_is_written_and_read_again(hundredths: int) -> None:
    text = format_ratio(Hundredths(hundredths))
    assert parse_ratio(text, "n") == hundredths
    assert to_hundredths(float(text)) == hundredths


@pytest.mark.parametrize("text", ["", "0.82", "5.01", "nan", "inf", "1,2", "one", "-1", "1e0", "٢"])
def test_a_ratio_that_nobody_could_mean_is_refused(text: str) -> None:
    found = parse_ratio(text, "n")
    assert isinstance(found, Gap)
    assert repr(text) in found.reason
    assert "a number from 1.00 to 5.00" in found.reason


@pytest.mark.parametrize(
    ("normalization", "configured", "annotation"),
    [
        (None, {}, "{}"),
        (100, {}, "{}"),
        (120, {}, '{"cpu":1.20}'),
        (120, {"cpu": 1.5, "memory": 2.5}, '{"cpu":1.80,"memory":2.50}'),
        (
            150,
            {"cpu": 0.8, "memory": 3.5, "storage": 1.8},
            '{"cpu":1.20,"memory":3.50,"storage":1.80}',
        ),
        (113, {"cpu": 1.1}, '{"cpu":1.24}'),
    ],
)
def test_amplification_is_what_is_configured_times_the_normalization_ratio(
    normalization: int | None, configured: dict[str, float], annotation: str
) -> None:
    ratio = None if normalization is None else Hundredths(normalization)
    found = amplification_ratios(AmplificationStrategy(True, configured), ratio)
    assert not isinstance(found, Gap)
    assert format_amplification(found) == annotation


def test_no_resource_is_made_smaller() -> None:
    found = amplification_ratios(AmplificationStrategy(True, {"storage": 0.5}), Hundredths(150))
    assert found == Gap(
        "resourceAmplificationRatio['storage'] is 0.5, but must be a number of at least 1.00"
    )


def test_what_is_configured_counts_only_where_it_is_enabled() -> None:
    assert amplification_ratios(AmplificationStrategy(None, {"memory": 2.0}), Hundredths(120)) == {
        "cpu": 120
    }


@pytest.mark.parametrize(("raw", "ratio", "amplified"), [(3000, 113, 3390), (3920, 113, 4430)])
def test_amplified_amounts_are_exact(raw: int, ratio: int, amplified: int) -> None:
    assert amplify(raw, Hundredths(ratio)) == amplified


def test_basic_info_is_read_from_the_topology() -> None:
    text = json.dumps({"cpuModel": MODEL, "hyperThreadEnabled": True, "turboEnabled": True})
    assert read_basic_info({BASIC_INFO_ANNOTATION: text}, "n1") == BOTH_ON


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({}, f"NodeResourceTopology n1 has no annotation {BASIC_INFO_ANNOTATION}"),
        (
            {BASIC_INFO_ANNOTATION: "{"},
            f"metadata.annotations[{BASIC_INFO_ANNOTATION}] is '{{', but must be JSON",
        ),
        (
            {BASIC_INFO_ANNOTATION: '{"turboEnabled": 1}'},
            f"metadata.annotations[{BASIC_INFO_ANNOTATION}].turboEnabled is 1, but must be true",
        ),
    ],
)
def test_basic_info_that_cannot_be_read_is_a_gap(annotations: dict[str, str], reason: str) -> None:
    found = read_basic_info(annotations, "n1")
    assert isinstance(found, Gap)
    assert reason in found.reason
