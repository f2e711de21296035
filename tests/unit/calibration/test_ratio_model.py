"""From calibrations to a normalization model, and back through the manager's reader."""

import msgspec
import pytest

from slackwater.calibration.ratio_model import derive_ratios, read_result, render_config_map
from slackwater.calibration.result import CalibrationResult, MeasuredMachine
from slackwater.contract.koordinator.normalization import (
    CpuBasicInfo,
    RatioChoice,
    choose_ratio,
    format_ratio,
    read_normalization,
)
from slackwater.contract.kubernetes import ConfigMap
from slackwater.model.problem import InvalidError
from tests.unit.calibration.results import result

FAST = MeasuredMachine("Fast CPU", "Vendor", 8, hyper_thread=True, turbo=True)


def test_the_slowest_is_worth_one_and_machines_of_one_kind_count_by_their_median() -> None:
    found = derive_ratios(
        {"a": result(100), "b": result(150, FAST), "c": result(170, FAST), "d": result(160, FAST)}
    )
    assert [(each.cpu_model, each.key, format_ratio(each.ratio)) for each in found] == [
        ("Fast CPU", "hyperThreadTurboEnabledRatio", "1.60"),
        ("Old CPU", "baseRatio", "1.00"),
    ]


def test_the_config_map_is_what_the_manager_reads() -> None:
    made = render_config_map(derive_ratios({"a": result(100), "b": result(137, FAST)}), "ns")
    data = made["data"]
    assert isinstance(data, dict)
    strategy, where = read_normalization(ConfigMap("ns", "slo-controller-config", data)).for_node(
        {}
    )
    info = CpuBasicInfo("Fast CPU", hyper_thread_enabled=True, turbo_enabled=True)
    found = choose_ratio(strategy, where, "true", info)
    assert isinstance(found, RatioChoice)
    assert format_ratio(found.ratio) == "1.37"
    # Off by itself: nodes are enabled by their label.
    off = choose_ratio(strategy, where, None, info)
    assert isinstance(off, RatioChoice)
    assert not off.enabled


def test_a_result_is_read_as_it_was_written() -> None:
    made = result(100)
    assert read_result(msgspec.json.encode(made), "a.json") == made


def _changed(**fields: object) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(result(100)), **fields})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "a.json is not one ("),
        (b"\xff", "a.json is not one ("),
        (b"[1]", "must be a file that `slackwater calibrate -o json` wrote"),
        (_changed(kind="Pod"), "a.json: kind is 'Pod', but must be CalibrationResult"),
        (_changed(apiVersion="slackwater.io/v9"), "a.json: apiVersion is 'slackwater.io/v9'"),
        (
            _changed(machine={**msgspec.to_builtins(FAST), "cpuModel": ""}),
            "a.json: machine.cpuModel is ''",
        ),
        (_changed(score={"single": 1, "all": 0}), "a.json: score.all is 0.0, but must be above 0"),
        (
            _changed(
                machine={
                    "cpuModel": None,
                    "vendor": None,
                    "cpus": 1,
                    "hyperThread": None,
                    "turbo": None,
                }
            ),
            "a.json: machine.cpuModel is null",
        ),
    ],
)
def test_a_file_that_is_not_a_result_is_refused(content: bytes, sentence: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read_result(content, "a.json")
    assert sentence in str(refused.value)


def test_scores_over_other_kernels_do_not_compare() -> None:
    fewer: CalibrationResult = msgspec.structs.replace(result(100), kernels=result(1).kernels[:2])
    with pytest.raises(InvalidError) as refused:
        derive_ratios({"a": result(100), "b": fewer})
    assert "b: kernels is integer, floating-point, but must be those of a" in str(refused.value)


def test_a_ratio_beyond_what_may_be_configured_is_refused() -> None:
    with pytest.raises(InvalidError) as refused:
        derive_ratios({"a": result(100), "b": result(501, FAST)})
    assert "the ratio of 'Fast CPU' is 5.01, but must be at most 5.00" in str(refused.value)
