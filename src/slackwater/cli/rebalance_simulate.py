"""`slackwater rebalance simulate`: a recorded or a generated day in, what rotating would bring out."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.settings import rotation_whatif as told
from slackwater.settings.bound import Bound, SettingsError, check_text
from slackwater.settings.real import Real, check_real_text
from slackwater.settings.rotation import MoveSettings
from slackwater.settings.rotation_entry import Entry, checked_text
from slackwater.settings.rotation_workload import MOVES

if TYPE_CHECKING:
    from slackwater.rebalancer.whatif import Terms
    from slackwater.rebalancer.whatif_day import Day
    from slackwater.rebalancer.whatif_report import Report

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Texts = Mapping[str, str | None]
_MICROS = 1_000_000


def _options(command: _Command) -> _Command:
    """Their texts are checked here, so that all complaints read alike."""
    for entry in reversed(MOVES):
        kind = entry.setting
        if isinstance(kind, Bound | Real):
            command = _option(entry.flag, entry.variable, kind, entry.default())(command)
    for each in reversed((*told.OF_A_GENERATED_DAY, *told.OF_ANY_DAY)):
        default = "none" if each is told.HPA_AVERAGE_VALUE else each.shown(each.default)  # type: ignore[arg-type]
        command = _option(told.flag_of(each), told.variable_of(each), each, default)(command)
    return command


def _option(
    flag: str, variable: str, kind: Bound | Real, default: str
) -> Callable[[_Command], _Command]:
    first = kind.prose.partition(". ")[0].rstrip(".")
    return click.option(
        flag,
        metavar="NUMBER" if isinstance(kind, Real) else kind.unit.value.upper(),
        default=None,
        envvar=variable,
        show_envvar=True,
        help=f"{first}. Default {default}; {kind.span()}.",
    )


@click.command()
@click.argument("recording", metavar="[RECORDING.csv]", required=False)
@click.option("--svg", metavar="FILE", default="", help="Where a picture goes. Default: none.")
@output_options
@_options
def simulate(
    recording: str | None, svg: str, output: Output, no_color: bool, **said: str | None
) -> None:
    """What rotating would have brought, on a recorded or a generated day.

    RECORDING is CSV with the columns time, pod, cores and request, or Prometheus' answer to a
    query_range; - is standard input. Without one a day is generated. The decisions are those that
    `run` would have made, in virtual time; the rest is a model, which assumes that load follows
    the pods. No cluster is asked, and nothing is changed.

    \b
    Examples:
      slackwater rebalance simulate
      slackwater rebalance simulate --pods 40 --skew 1 --svg day.svg
      slackwater rebalance simulate day.csv --tolerance 1.3 --hpa-target 60
      slackwater rebalance simulate day.csv --stickiness 0.8   much of the load is one hot key
      curl -s "$URL/api/v1/query_range?..." | slackwater rebalance simulate - --request 0.5
      slackwater rebalance simulate day.csv -o json | jq .saved

    \b
    Exit codes: 0 done, 1 a file cannot be read or written, 2 wrong usage, recording or settings.
    """
    from slackwater.contract.document import ContractError

    try:
        terms = _terms(said)
        day, seed = _recorded(recording, said) if recording else _generated(said, terms)
    except (ContractError, SettingsError) as error:
        raise WrongSettings(str(error)) from None
    report = _lived(day, terms, recording, seed)
    if svg:
        _draw(report, svg)
    _print(report, output, wants_colour(no_color))


def _terms(said: _Texts) -> "Terms":
    from slackwater.rebalancer.fleet import Aim, AimKind
    from slackwater.rebalancer.whatif import Terms

    percent, cores = _said(said, told.HPA_TARGET), _said(said, told.HPA_AVERAGE_VALUE)
    if percent is not None and cores is not None:
        raise WrongSettings("--hpa-target and --hpa-average-value are given, but must be one")
    if cores is not None:
        aim = Aim(AimKind.AVERAGE_VALUE, cores, "")
    else:
        aim = Aim(AimKind.UTILIZATION, _number(said, told.HPA_TARGET), "")
    return Terms(aim, _moves(said), _number(said, told.STICKINESS))


def _moves(said: _Texts) -> MoveSettings:
    import msgspec

    found = {
        entry.path[-1]: checked_text(entry, text, entry.flag)
        for entry in MOVES
        if (text := said[_word(entry)]) is not None
    }
    return msgspec.structs.replace(MoveSettings(), **found)


def _word(entry: Entry) -> str:
    """As click calls the flag's value."""
    return entry.flag[2:].replace("-", "_")


def _said(said: _Texts, kind: Real) -> float | None:
    flag = told.flag_of(kind)
    text = said[flag[2:].replace("-", "_")]
    return None if text is None else check_real_text(kind, text, flag)


def _number(said: _Texts, kind: Real) -> float:
    found = _said(said, kind)
    return kind.default if found is None else found


def _whole(said: _Texts, kind: Bound) -> int:
    flag = told.flag_of(kind)
    text = said[flag[2:].replace("-", "_")]
    return kind.default if text is None else check_text(kind, text, flag)


def _generated(said: _Texts, terms: "Terms") -> "tuple[Day, int]":
    """Its busiest hour is what the HPA aims at."""
    import random

    from slackwater.rebalancer.fleet import AimKind, Cores, Seconds
    from slackwater.rebalancer.whatif_generated import Shape, generated

    request, aim = _number(said, told.REQUEST), terms.aim
    busiest = aim.value / 100 * request if aim.kind is AimKind.UTILIZATION else aim.value
    seed = _whole(said, told.SEED)
    shape = Shape(
        pods=_whole(said, told.PODS),
        partitions=_whole(said, told.PARTITIONS),
        skew=_number(said, told.SKEW),
        hours=_number(said, told.HOURS),
        request=Cores(request),
        busiest=Cores(busiest),
        step=Seconds(_whole(said, told.STEP) / _MICROS),
    )
    return generated(shape, random.Random(seed).random), seed  # noqa: S311 - noise, not a secret


def _recorded(recording: str, said: _Texts) -> "tuple[Day, None]":
    from slackwater.cli.replay import STDIN, contents
    from slackwater.contract.document import ContractError
    from slackwater.model.complaint import Complaint
    from slackwater.rebalancer.fleet import Cores, Seconds
    from slackwater.rebalancer.whatif_day import MOST_STEPS, day_of, step_for, steps_in
    from slackwater.rebalancer.whatif_recording import read_recording

    for kind in told.OF_A_GENERATED_DAY:
        if said[kind.name] is not None:
            raise WrongSettings(f"{told.flag_of(kind)} is for a generated day, but {recording} is "
                                "recorded")  # fmt: skip
    name = "standard input" if recording == STDIN else recording
    try:
        text = contents(recording).decode()
    except UnicodeDecodeError as error:
        raise ContractError(Complaint(name, f"no UTF-8 at byte {error.start}", "UTF-8")) from None
    request = _said(said, told.REQUEST)
    samples = read_recording(text, name, None if request is None else Cores(request))
    step = step_for(samples)
    if said[told.STEP.name] is not None:
        step = Seconds(_whole(said, told.STEP) / _MICROS)
    count = steps_in(samples, step)
    if count > MOST_STEPS:
        wanted = f"at most {MOST_STEPS}: choose a longer --step, or a shorter recording"
        raise ContractError(Complaint(f"{name} in steps of {step:g} s", f"{count} steps", wanted))
    return day_of(samples, step), None


def _lived(day: "Day", terms: "Terms", recording: str | None, seed: int | None) -> "Report":
    """With a bar where somebody looks at it."""
    from slackwater.kube.time_of_day import whole_seconds
    from slackwater.rebalancer.whatif import live_through
    from slackwater.rebalancer.whatif_report import report_of

    with click.progressbar(
        length=len(day.moments), label="steps", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        lived = live_through(day, terms, whole_seconds, lambda: bar.update(1))
    return report_of(day, terms, lived, recording, seed)


def _draw(report: "Report", path: str) -> None:
    from slackwater.simulation.rotation_picture import picture

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(report))
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"slackwater: wrote {path}", err=True)


def _print(report: "Report", output: Output, colour: bool) -> None:
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
        return
    from slackwater.cli.rebalance_simulate_text import print_simulation

    print_simulation(report, colour, every=output is Output.WIDE)
