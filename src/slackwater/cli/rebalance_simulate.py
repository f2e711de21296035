"""`slackwater rebalance simulate`: a recorded or generated day in, what rotating brings out."""

import sys
from typing import TYPE_CHECKING

import click

from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.rebalance_simulate_settings import (
    BY_KEY,
    Told,
    refuse_all,
    shape_of,
    simulate_options,
    step_of,
    terms_of,
    told_by,
)
from slackwater.settings.rebalance_simulation import OF_A_GENERATED_DAY

if TYPE_CHECKING:
    from slackwater.rebalancer.whatif.day import Day, UsageSample
    from slackwater.rebalancer.whatif.simulate_day import SimulationTerms
    from slackwater.rebalancer.whatif.simulation_report import SimulationReport


@click.command()
@click.argument("recording", metavar="[RECORDING]", required=False)
@click.option("--svg", metavar="FILE", default="", help="Where a picture goes. Default: none.")
@output_options
@simulate_options
def simulate(
    recording: str | None, svg: str, output: Output, no_color: bool, **flags: str | None
) -> None:
    """What rotating would have brought, on a recorded or a generated day.

    RECORDING is CSV with the columns time, pod, cores and request, or Prometheus' JSON answer to
    a query_range; - is standard input. Without one a day is generated. The decisions are those
    that `run` would have made, in virtual time; what a rotation does to the load is a model: load
    follows the pods. No cluster is asked, and nothing is changed.

    \b
    Examples:
      slackwater rebalance simulate
      slackwater rebalance simulate --pods 40 --skew 1 --svg day.svg
      slackwater rebalance simulate day.csv --tolerance 1.3 --hpa-target 60
      slackwater rebalance simulate day.csv --stickiness 0.8     if a few keys are hot
      curl -s "$PROMETHEUS/api/v1/query_range?..." | slackwater rebalance simulate - --request 0.5
      slackwater rebalance simulate day.csv -o json | jq .saved

    \b
    Exit codes: 0 done, 1 a file cannot be read or written, 2 wrong usage, recording or settings.
    """
    from slackwater.model.problem import InvalidError

    try:
        told = told_by(flags)
        terms = terms_of(told)
        if recording is None:
            day, seed = _generated(told, terms)
        else:
            day, seed = _recorded(recording, told), None
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    report = _lived(day, terms, None if recording is None else _name(recording), seed)
    if svg:
        _draw(report, svg)
    _print(report, output, wants_colour(no_color))


def _generated(told: Told, terms: "SimulationTerms") -> "tuple[Day, int]":
    import random

    from slackwater.rebalancer.whatif.day import generate_day

    shape, seed = shape_of(told, terms.hpa_target), told.settings.seed
    _refuse_many(round(shape.hours * 3600 / shape.step), shape.step, "a generated day")
    draw = random.Random(seed).random  # noqa: S311 - noise, not a secret
    return generate_day(shape, draw), seed


def _refuse_many(steps: int, step: float, name: str) -> None:
    from slackwater.rebalancer.whatif.day import MOST_STEPS

    if steps > MOST_STEPS:
        longer = f"choose a longer {BY_KEY['step'].flag}"
        raise WrongSettings(
            f"{name} is {steps} steps of {step:g} s, but must be at most {MOST_STEPS}: {longer}"
        )


def _recorded(recording: str, told: Told) -> "Day":
    from slackwater.rebalancer.whatif.day import build_day, choose_step, count_steps

    refuse_all(
        f"{text.where} is of a generated day, but there is a recording"
        for each in OF_A_GENERATED_DAY
        if (text := told.texts.get(each.key))
    )
    samples = _samples(recording, told)
    step = step_of(told) or choose_step(samples)
    _refuse_many(count_steps(samples, step), step, _name(recording))
    return build_day(samples, step)


def _name(recording: str) -> str:
    from slackwater.cli.replay import STDIN

    return "standard input" if recording == STDIN else recording


def _samples(recording: str, told: Told) -> "tuple[UsageSample, ...]":
    from slackwater.cli.replay import contents
    from slackwater.model.problem import InvalidError, Problem
    from slackwater.rebalancer.observed import Cores
    from slackwater.rebalancer.whatif.day_recording import read_recording

    name = _name(recording)
    try:
        text = contents(recording).decode()
    except UnicodeDecodeError as error:
        raise InvalidError(Problem(name, f"no UTF-8 at byte {error.start}", "UTF-8")) from None
    request = Cores(told.settings.request) if "request" in told.texts else None
    return read_recording(text, name, request)


def _lived(
    day: "Day", terms: "SimulationTerms", recording: str | None, seed: int | None
) -> "SimulationReport":
    """With a bar where somebody looks at it."""
    from slackwater.rebalancer.whatif.simulate_day import simulate_day
    from slackwater.rebalancer.whatif.simulation_report import build_report

    with click.progressbar(
        length=len(day.moments),
        label="steps",
        width=0,
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        result = simulate_day(day, terms, lambda: bar.update(1))
    return build_report(day, terms, result, recording, seed)


def _draw(report: "SimulationReport", path: str) -> None:
    from slackwater.simulation.rotation_picture import picture

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(report))
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"slackwater: wrote {path}", err=True)


def _print(report: "SimulationReport", output: Output, colour: bool) -> None:
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
        return
    from slackwater.cli.rebalance_simulate_text import RotationList, print_simulation

    rotations = RotationList.ALL if output is Output.WIDE else RotationList.SOME
    print_simulation(report, colour, rotations)
