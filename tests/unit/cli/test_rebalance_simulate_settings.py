"""Flags and variables of the what-if as values."""

from collections.abc import Mapping

import click
import pytest
from click.testing import CliRunner

from slackwater.cli.output import WrongSettings
from slackwater.cli.rebalance_simulate_settings import (
    BY_KEY,
    MOVES,
    shape_of,
    simulate_options,
    step_of,
    terms_of,
    told_by,
)
from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind
from slackwater.rebalancer.whatif.day import DayShape
from slackwater.rebalancer.whatif.simulate_day import SimulationTerms
from slackwater.settings.rebalance_simulation import SETTINGS
from slackwater.settings.rebalancer import MoveSettings

NONE: Mapping[str, str] = {}


def terms(environment: Mapping[str, str] = NONE, /, **flags: str) -> SimulationTerms:
    return terms_of(told_by(flags, environment))


def shape(**flags: str) -> DayShape:
    told = told_by(flags, NONE)
    return shape_of(told, terms_of(told).hpa_target)


def test_nothing_said_is_the_defaults() -> None:
    assert terms() == SimulationTerms(
        HpaTarget(HpaTargetKind.UTILIZATION, 70.0, ""), MoveSettings(), 0.0
    )
    assert shape() == DayShape(), "the Struct's defaults are the settings'"
    assert step_of(told_by({}, NONE)) is None


@pytest.mark.parametrize(
    ("flags", "hpa_target"),
    [
        ({"hpa_target": "55.5"}, HpaTarget(HpaTargetKind.UTILIZATION, 55.5, "")),
        ({"hpa_average_value": "0.25"}, HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.25, "")),
    ],
)
def test_the_hpas_target(flags: dict[str, str], hpa_target: HpaTarget) -> None:
    assert terms(NONE, **flags).hpa_target == hpa_target


def test_an_hpa_has_one_target() -> None:
    with pytest.raises(WrongSettings, match="--hpa-target and --hpa-average-value are both said"):
        terms(hpa_target="60", hpa_average_value="1")
    variable = BY_KEY["hpaTarget"].variable
    with pytest.raises(WrongSettings, match="both said"):
        terms({variable: "60"}, hpa_average_value="1")


@pytest.mark.parametrize(
    ("flags", "busiest"),
    [
        ({}, 0.7),
        ({"request": "2"}, 1.4),
        ({"request": "2", "hpa_target": "50"}, 1.0),
        ({"request": "2", "hpa_average_value": "0.3"}, 0.3),
    ],
)
def test_the_busiest_hour_is_the_hpas_target(flags: dict[str, str], busiest: float) -> None:
    assert shape(**flags).busiest == pytest.approx(busiest)


def test_every_word_of_a_shape() -> None:
    found = shape(
        pods="5", partitions="7", skew="1.5", hours="2.5", request="0.5", step="1m", seed="9"
    )
    assert (found.pods, found.partitions, found.skew) == (5, 7, 1.5)
    assert (found.hours, found.request, found.step) == (2.5, 0.5, 60.0)


def test_flags_over_variables_and_empty_variables_are_none() -> None:
    variable = BY_KEY["stickiness"].variable
    assert terms({variable: "0.5"}).stickiness == 0.5
    assert terms({variable: "0.5"}, stickiness="0.25").stickiness == 0.25
    assert terms({variable: ""}).stickiness == 0.0


@pytest.mark.parametrize(
    ("environment", "flags", "where"),
    [
        ({}, {"stickiness": "2"}, "--stickiness"),
        ({BY_KEY["stickiness"].variable: "2"}, {}, BY_KEY["stickiness"].variable),
    ],
)
def test_who_said_it_is_blamed(
    environment: dict[str, str], flags: dict[str, str], where: str
) -> None:
    with pytest.raises(WrongSettings) as refused:
        terms(environment, **flags)
    assert refused.value.message == f"{where} is '2', but must be a number, 0 to 1"


def test_a_workloads_settings_are_those_of_run() -> None:
    found = terms({"TOLERANCE_MULTIPLIER": "2", "REBALANCE_TOP_K_PODS": "3"}, cooldown="1h").moves
    assert (found.tolerance, found.top_k, found.cooldown) == (2.0, 3, 3_600_000_000)
    with pytest.raises(WrongSettings, match="TOLERANCE_MULTIPLIER is"):
        terms({"TOLERANCE_MULTIPLIER": "0.5"})


def test_other_variables_are_not_even_looked_at() -> None:
    environment = {"PROMETHEUS_ENDPOINT": "nonsense", "DEPLOYMENT_NAME": "%%", "DRY_RUN": "maybe"}
    assert terms(environment) == terms()


def test_what_can_never_be_reached_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert terms(minimum_improvement="90").moves.minimum_improvement == 90.0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("slackwater: ")
    assert told.err.count("\n") == 1


def test_every_setting_has_a_flag_and_shows_its_variables() -> None:
    @click.command()
    @simulate_options
    def command(**_: str | None) -> None:
        """Nothing."""

    shown = CliRunner().invoke(command, ["--help"], terminal_width=400).stdout
    for kind in SETTINGS:
        assert f"{kind.flag} " in shown
        assert kind.variable in shown
        assert f"Bound: {kind.bound}." in shown
    for entry in MOVES:
        assert f"{entry.flag} " in shown
        assert entry.variable in shown
