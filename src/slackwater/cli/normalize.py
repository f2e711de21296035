"""`slackwater normalize`: a normalization model from measured machines, and what it would do."""

import click
from rich.table import Table

from slackwater.calibration.ratio_model import (
    ModelRatio,
    derive_ratios,
    read_result,
    render_config_map,
)
from slackwater.cli.cluster_options import parse_namespace
from slackwater.cli.normalize_plan import plan
from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.terminal import TableColumn, make_table, print_blocks
from slackwater.contract.koordinator.node_strategy import NAMESPACE
from slackwater.contract.koordinator.normalization import format_ratio
from slackwater.model.problem import InvalidError


@click.group()
def normalize() -> None:
    """Ratios that make a CPU unit worth the same on every machine."""


normalize.add_command(plan)


@normalize.command(short_help="A model of ratios from calibrations, slowest CPU 1.00.")
@click.argument(
    "results",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="RESULT...",
)
@click.option(
    "-n",
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    callback=parse_namespace,
    help="The namespace of the ConfigMap.",
)
@output_options
def model(results: tuple[str, ...], namespace: str, output: Output, no_color: bool) -> None:
    """Turn calibrations into a ratioModel in which the slowest CPU is worth 1.00.

    RESULT is what `slackwater calibrate -o json` wrote on one machine of each kind; several
    machines of one kind count by their median. The table shows the ratios; -o yaml is the
    ConfigMap, ready to apply. It enables nothing by itself: label the nodes with
    node.koordinator.sh/cpu-normalization-enabled=true, or set `enable`. What disturbed a
    measurement is said on stderr.

    \b
    Examples:
      slackwater normalize model old.json new.json
      slackwater normalize model *.json -o yaml | kubectl apply -f -

    \b
    Exit codes: 0 done, 1 a file cannot be read, 2 a result cannot be used.
    """
    try:
        measured = {path: read_result(_content(path), path) for path in results}
        ratios = derive_ratios(measured)
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    if output in (Output.YAML, Output.JSON):
        print_data(render_config_map(ratios, namespace), output)
    else:
        print_blocks([_table(ratios)], wants_colour(no_color))
    for path, result in measured.items():
        for disturbance in result.disturbances:
            click.echo(f"slackwater: {path}: {disturbance}", err=True)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from None


def _table(ratios: tuple[ModelRatio, ...]) -> Table:
    columns = [
        TableColumn("CPU model", wrap=True),
        TableColumn("ratio for"),
        TableColumn("measured", right=True),
        TableColumn("score", right=True),
        TableColumn("ratio", right=True),
    ]
    rows = [
        (r.cpu_model, r.key, str(r.measurements), f"{r.score:.1f}", format_ratio(r.ratio))
        for r in ratios
    ]
    return make_table(columns, rows)
