"""What `slackwater rebalance simulate` is told: flags and variables into one value.

Owns how its own settings are said; a workload's are said and checked as for `plan` and `run`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from slackwater.cli.output import WrongSettings
from slackwater.cli.rebalance_options import variables_of
from slackwater.model.problem import InvalidError
from slackwater.settings import rotation_whatif as own
from slackwater.settings.bound import Bound, check_text
from slackwater.settings.real import Real, check_real_text
from slackwater.settings.rebalancer import MoveSettings
from slackwater.settings.rotation_document import Worded
from slackwater.settings.rotation_workload import MOVES

if TYPE_CHECKING:
    from slackwater.rebalancer.observed import HpaTarget, Seconds
    from slackwater.rebalancer.whatif.day import DayShape
    from slackwater.rebalancer.whatif.simulate_day import SimulationTerms

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NAME = "simulated"
_MICROS = 1_000_000


def simulate_options(command: _Command) -> _Command:
    for entry in reversed(MOVES):
        if isinstance(entry.setting, Bound | Real):
            names = variables_of(entry)
            command = _option(entry.flag, names, entry.setting, entry.default())(command)
    for each in reversed(own.ALL):
        names = (own.variable_of(each),)
        command = _option(own.flag_of(each), names, each, own.default_of(each))(command)
    return command


def _option(
    flag: str, names: tuple[str, ...], kind: own.Told, default: str
) -> Callable[[_Command], _Command]:
    """As `plan` and `run` show theirs."""
    said = f"{kind.prose.partition('. ')[0].rstrip('.')}."
    metavar = "NUMBER" if isinstance(kind, Real) else kind.unit.value.upper()
    help_text = f"{said} Default: {default}. Bound: {kind.span()}. [env: {' or '.join(names)}]"
    return click.option(flag, metavar=metavar, default=None, help=help_text)


class Told(msgspec.Struct, frozen=True):
    """Each setting that was said, by its name, with the flag or the variable that said it;
    `told_by` has checked them."""

    words: Mapping[str, Worded]
    moves: MoveSettings

    def real(self, kind: Real) -> float | None:
        word = self.words.get(kind.name)
        return None if word is None else check_real_text(kind, word.text, word.where)

    def real_or_default(self, kind: Real) -> float:
        found = self.real(kind)
        return kind.default if found is None else found

    def whole(self, kind: Bound) -> int | None:
        word = self.words.get(kind.name)
        return None if word is None else check_text(kind, word.text, word.where)

    def whole_or_default(self, kind: Bound) -> int:
        found = self.whole(kind)
        return kind.default if found is None else found


def told_by(flags: Mapping[str, str | None], environment: Mapping[str, str] | None = None) -> Told:
    """Flags over variables; a variable that is set but empty is not set. Raises WrongSettings
    with a line for each bad value."""
    environment = os.environ if environment is None else environment
    words = {}
    for each in own.ALL:
        flag, variable = own.flag_of(each), own.variable_of(each)
        text = flags.get(_word(flag))
        if text is not None:
            words[each.name] = Worded(flag, text)
        elif environment.get(variable):
            words[each.name] = Worded(variable, environment[variable])
    told, sentences = Told(words, MoveSettings()), list(_bad(words))
    try:
        told = Told(words, _moves(flags, environment))
    except WrongSettings as error:
        sentences.append(error.message)
    refuse(sentences)
    return told


def refuse(sentences: Iterable[str]) -> None:
    """Where there are any: all at once, as `plan` and `run` do."""
    if told := "\nslackwater: ".join(sentences):
        raise WrongSettings(told)


def _bad(words: Mapping[str, Worded]) -> Iterator[str]:
    told = Told(words, MoveSettings())
    for kind in own.ALL:
        try:
            _ = told.real(kind) if isinstance(kind, Real) else told.whole(kind)
        except InvalidError as error:
            yield str(error)


def _moves(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> MoveSettings:
    """Only what is tried here counts: a wrong address of Prometheus hurts nobody."""
    from slackwater.cli.rebalance_settings import resolve

    said = {_word(entry.flag): flags.get(_word(entry.flag)) for entry in MOVES}
    names = [name for entry in MOVES for name in variables_of(entry)]
    around = {name: environment[name] for name in names if name in environment}
    resolved = resolve((_NAME,), "", said, around)
    for warning in resolved.warnings:
        click.echo(f"slackwater: {warning}", err=True)
    return resolved.settings.workloads[0].moves


def _word(flag: str) -> str:
    """As click calls a flag's value."""
    return flag.removeprefix("--").replace("-", "_")


def terms_of(told: Told) -> "SimulationTerms":
    from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind
    from slackwater.rebalancer.whatif.simulate_day import SimulationTerms

    percent, cores = told.real(own.HPA_TARGET), told.real(own.HPA_AVERAGE_VALUE)
    if percent is not None and cores is not None:
        one, other = own.flag_of(own.HPA_TARGET), own.flag_of(own.HPA_AVERAGE_VALUE)
        raise WrongSettings(f"{one} and {other} are both said, but an HPA has one target")
    if cores is not None:
        hpa_target = HpaTarget(HpaTargetKind.AVERAGE_VALUE, cores, "")
    else:
        hpa_target = HpaTarget(HpaTargetKind.UTILIZATION, told.real_or_default(own.HPA_TARGET), "")
    return SimulationTerms(hpa_target, told.moves, told.real_or_default(own.STICKINESS))


def shape_of(told: Told, hpa_target: "HpaTarget") -> "DayShape":
    """Its busiest hour is what the HPA aims at."""
    from slackwater.rebalancer.observed import Cores, HpaTargetKind, Seconds
    from slackwater.rebalancer.whatif.day import DayShape

    request = told.real_or_default(own.REQUEST)
    busiest = (
        hpa_target.value / 100 * request
        if hpa_target.kind is HpaTargetKind.UTILIZATION
        else hpa_target.value
    )
    return DayShape(
        pods=told.whole_or_default(own.PODS),
        partitions=told.whole_or_default(own.PARTITIONS),
        skew=told.real_or_default(own.SKEW),
        hours=told.real_or_default(own.HOURS),
        request=Cores(request),
        busiest=Cores(busiest),
        step=Seconds(told.whole_or_default(own.STEP) / _MICROS),
    )


def step_of(told: Told) -> "Seconds | None":
    """None where nobody said it: then the recording says it."""
    from slackwater.rebalancer.observed import Seconds

    found = told.whole(own.STEP)
    return None if found is None else Seconds(found / _MICROS)
