"""What `slackwater rebalance simulate` is told: flags and variables into one value.

A workload's settings are said and checked as for `plan` and `run`.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from msgspec import inspect

from slackwater.cli.output import WrongSettings
from slackwater.cli.rebalance_options import option_help, variables_of
from slackwater.contract.decoding import with_stated
from slackwater.contract.document import Field
from slackwater.model.problem import Problem
from slackwater.settings.rebalance_simulation import SETTINGS, SimulationSettings
from slackwater.settings.rebalancer import MoveSettings
from slackwater.settings.rebalancer_document import WORKLOAD_SETTINGS
from slackwater.settings.setting import Setting, StatedText, check_texts, nest

if TYPE_CHECKING:
    from slackwater.rebalancer.observed import HpaTarget, Seconds
    from slackwater.rebalancer.whatif.day import DayShape
    from slackwater.rebalancer.whatif.simulate_day import SimulationTerms

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NAME = "simulated"
_MICROS = 1_000_000


BY_KEY: Mapping[str, Setting] = {each.key: each for each in SETTINGS}
#: Those of a workload's settings that are tried here.
MOVES: tuple[Setting, ...] = tuple(each for each in WORKLOAD_SETTINGS if each.path[0] == "moves")


def simulate_options(command: _Command) -> _Command:
    for setting in reversed((*SETTINGS, *MOVES)):
        number = isinstance(setting.annotation.type, inspect.FloatType)
        metavar = "NUMBER" if number else setting.unit.upper()
        option = click.option(
            setting.flag, metavar=metavar, default=None, help=option_help(setting)
        )
        command = option(command)
    return command


class Told(msgspec.Struct, frozen=True):
    """The settings, and what was said of them, by key."""

    settings: SimulationSettings
    texts: Mapping[str, StatedText]
    moves: MoveSettings


def told_by(flags: Mapping[str, str | None], environment: Mapping[str, str] | None = None) -> Told:
    """Flags over variables; a variable that is set but empty is not set. Raises WrongSettings
    with a line for each bad value."""
    environment = os.environ if environment is None else environment
    texts = {}
    for each in SETTINGS:
        text = flags.get(each.option)
        if text is not None:
            texts[each.key] = StatedText(each.flag, text)
        elif environment.get(each.variable):
            texts[each.key] = StatedText(each.variable, environment[each.variable])
    problems: list[Problem] = []
    stated = nest(SETTINGS, check_texts(SETTINGS, texts, problems))
    sentences = [each.sentence() for each in problems]
    moves = MoveSettings()
    try:
        moves = _moves(flags, environment)
    except WrongSettings as error:
        sentences.append(error.message)
    refuse_all(sentences)
    return Told(with_stated(SimulationSettings(), Field("", "", None), stated), texts, moves)


def refuse_all(sentences: Iterable[str]) -> None:
    """Where there are any: all at once, as `plan` and `run` do."""
    if told := "\nslackwater: ".join(sentences):
        raise WrongSettings(told)


def _moves(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> MoveSettings:
    """Only what is tried here counts: a wrong address of Prometheus hurts nobody."""
    from slackwater.cli.rebalance_settings import resolve

    said = {each.option: flags.get(each.option) for each in MOVES}
    names = [name for each in MOVES for name in variables_of(each)]
    around = {name: environment[name] for name in names if name in environment}
    resolved = resolve((_NAME,), "", said, around)
    for warning in resolved.warnings:
        click.echo(f"slackwater: {warning}", err=True)
    return resolved.settings.workloads[0].moves


def terms_of(told: Told) -> "SimulationTerms":
    from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind
    from slackwater.rebalancer.whatif.simulate_day import SimulationTerms

    cores = told.settings.hpa_average_value
    if cores is not None and "hpaTarget" in told.texts:
        one, other = BY_KEY["hpaTarget"].flag, BY_KEY["hpaAverageValue"].flag
        raise WrongSettings(f"{one} and {other} are both said, but an HPA has one target")
    if cores is not None:
        hpa_target = HpaTarget(HpaTargetKind.AVERAGE_VALUE, cores, "")
    else:
        hpa_target = HpaTarget(HpaTargetKind.UTILIZATION, told.settings.hpa_target, "")
    return SimulationTerms(hpa_target, told.moves, told.settings.stickiness)


def shape_of(told: Told, hpa_target: "HpaTarget") -> "DayShape":
    """Its busiest hour is what the HPA aims at."""
    from slackwater.rebalancer.observed import Cores, HpaTargetKind, Seconds
    from slackwater.rebalancer.whatif.day import DayShape

    request = told.settings.request
    busiest = (
        hpa_target.value / 100 * request
        if hpa_target.kind is HpaTargetKind.UTILIZATION
        else hpa_target.value
    )
    return DayShape(
        pods=told.settings.pods,
        partitions=told.settings.partitions,
        skew=told.settings.skew,
        hours=told.settings.hours,
        request=Cores(request),
        busiest=Cores(busiest),
        step=Seconds(told.settings.step / _MICROS),
    )


def step_of(told: Told) -> "Seconds | None":
    """None where nobody said it: then the recording says it."""
    from slackwater.rebalancer.observed import Seconds

    return Seconds(told.settings.step / _MICROS) if "step" in told.texts else None
