"""The what-if's own settings: names that are not taken, defaults inside their bounds."""

import pytest

from slackwater.contract.decoding import read_over
from slackwater.contract.document import Field
from slackwater.settings.rebalance_simulation import (
    OF_A_GENERATED_DAY,
    SETTINGS,
    SimulationSettings,
)
from slackwater.settings.rebalancer_document import SETTINGS as OTHERS
from slackwater.settings.setting import Setting
from tests.unit.settings.setting_values import file_value

BY_KEY = {each.key: each for each in SETTINGS}


def test_every_default_is_inside_its_bound() -> None:
    stated = {
        each.key: file_value(each, each.default_value)
        for each in SETTINGS
        if each.default_value is not None
    }
    assert read_over(Field("", "x", stated), SimulationSettings()) == SimulationSettings()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_prose_is_sentences(setting: Setting) -> None:
    assert setting.description[0].isupper()
    assert setting.description.endswith(".")


def test_flags_and_variables() -> None:
    assert BY_KEY["hpaAverageValue"].flag == "--hpa-average-value"
    assert BY_KEY["pods"].variable == "SLACKWATER_REBALANCE_SIMULATE_PODS"


def test_names_are_taken_once() -> None:
    for name in ("flag", "variable"):
        taken = [getattr(each, name) for each in (*SETTINGS, *OTHERS)]
        assert len(set(taken)) == len(taken)


def test_those_of_a_generated_day() -> None:
    assert [each.key for each in OF_A_GENERATED_DAY] == [
        "pods", "partitions", "skew", "hours", "seed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("pods", "12"),
        ("skew", "0.7"),
        ("hpaTarget", "70 %"),
        ("hpaAverageValue", "none"),
        ("step", "5m"),
    ],
)
def test_defaults_for_people(key: str, shown: str) -> None:
    assert BY_KEY[key].default == shown
