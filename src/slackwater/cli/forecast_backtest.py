"""`slackwater forecast backtest`: usage series in, how good each estimator would have been out."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence

import click
import numpy as np
from click.core import ParameterSource
from rich.console import RenderableType
from rich.text import Text

from slackwater.bounded_read import read_start
from slackwater.cli.forecast_picture import describe_sold, draw_backtests
from slackwater.cli.forecast_series import NamedSeries, query_series, read_all_series
from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.terminal import TableColumn, make_table, print_blocks
from slackwater.contract.crane.objects import read_time_series_prediction
from slackwater.contract.crane.prediction import TEMPLATE_KEY, PredictionTemplate
from slackwater.contract.crane.unknown_fields import find_unknown_fields
from slackwater.contract.kubernetes import read_config_map
from slackwater.manager.node_template import read_node_template
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import DurationError
from slackwater.observation.objects.documents import one_document
from slackwater.prediction.backtest import (
    CAPACITY,
    PREDICTORS,
    BacktestResult,
    BacktestTerms,
    PeakPredictor,
    SeriesBacktest,
    backtest_series,
    count_windows,
    predict_with,
)
from slackwater.prediction.history import DAY, HOUR
from slackwater.prediction.parameters import read_parameters, read_seconds

_DURATION_WANTED = "a duration such as 3d, 60s or 1h30m"
_LONGEST_HISTORY = 60 * DAY
_SHORTEST_WINDOW = 600.0
_LARGEST_TEMPLATE = 1 << 20
_TEMPLATE = "template"
_TEMPLATE_KINDS = "TimeSeriesPrediction or ConfigMap, or absent"
#: Of fewer windows one that is exceeded is more than 5 %.
_FEW_WINDOWS = 20
_ANY_NODE = "node"
_COLUMNS = (
    TableColumn("SERIES"),
    TableColumn("ESTIMATOR"),
    *(
        TableColumn(name, right=True)
        for name in ("WINDOWS", "EXCEEDED", "WORST", "SOLD OF ORACLE", "TIME ABOVE")
    ),
)
_MEAN_COLUMNS = (
    TableColumn("ESTIMATOR"),
    *(
        TableColumn(name, right=True)
        for name in ("WINDOWS", "EXCEEDED", "WORST SERIES", "SOLD OF ORACLE", "TIME ABOVE")
    ),
)


@click.command(short_help="How good each forecast of the past would have been.")
@click.argument("series", metavar="SERIES...", nargs=-1)
@click.option(
    "--template",
    metavar="FILE",
    default="",
    help="A TimeSeriesPrediction, or the ConfigMap noderesource-tsp-template or its spec, as YAML: "
    "its first metric's algorithm is compared too, as the estimator `template`.",
)
@click.option(
    "--history", metavar="DURATION", default="3d", show_default=True,
    help="What each forecast sees of the past; 1d to 60d.",
)  # fmt: skip
@click.option(
    "--window", metavar="DURATION", default="1h", show_default=True,
    help="How far each forecast reaches; 10m to 1d.",
)  # fmt: skip
@click.option(
    "--capacity", metavar="CPUS", type=float, default=None,
    help="What the node has, in the unit of the series. Default: 1.25 times the largest value.",
)  # fmt: skip
@click.option("--prometheus", metavar="URL", default="", help="Ask this server, in place of files.")
@click.option("--query", metavar="PROMQL", default="", help="What it is asked; needs --prometheus.")
@click.option(
    "--since", metavar="DURATION", default="14d", show_default=True,
    help="How far back the query goes.",
)  # fmt: skip
@click.option(
    "--step", metavar="DURATION", default="60s", show_default=True,
    help="Between two samples of the query; 1s to 1h.",
)  # fmt: skip
@click.option("--svg", metavar="FILE", default="", help="Where a picture goes. Default: none.")
@output_options
def backtest(
    series: tuple[str, ...], template: str, history: str, window: str, capacity: float | None,
    prometheus: str, query: str, since: str, step: str, svg: str, output: Output, no_color: bool,
) -> None:  # fmt: skip
    """Make every forecast of the past again, and compare it with what came.

    SERIES are CSV files with the columns ts,value or timestamp,value: seconds since 1970 or a
    time of ISO 8601 (UTC where it has no zone), and CPUs. A forecast is made for each window from
    the samples before it, and from what its estimator has learnt on the way; none sees the
    future. Nothing is changed anywhere.

    EXCEEDED is the share of windows whose real peak was above the forecast, WORST by how much at
    most, TIME ABOVE for how long in all. SOLD OF ORACLE compares the idle CPU above the forecasts
    with what somebody who knew the peaks could have sold.

    \b
    Examples:
      slackwater forecast backtest node-1.csv node-2.csv --capacity 16
      slackwater forecast backtest node-1.csv --template tsp-template.yaml --svg node-1.svg
      slackwater forecast backtest --prometheus http://localhost:9090 --query \\
        'sum by (instance) (rate(node_cpu_seconds_total{mode!="idle"}[5m]))' --since 14d
      slackwater forecast backtest *.csv -o json | jq '.[] | select(.exceeded > 0.05)'

    \b
    Exit codes: 0 done, 1 a file or a server cannot be read, 2 wrong usage, series or template.
    """
    try:
        terms = _read_terms(history, window, capacity)
        predictors = _add_template(template, terms)
        found = _find_series(series, prometheus, query, since, step)
        tests = _run(found, predictors, terms)
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    if svg:
        _write(svg, draw_backtests(tests, terms))
    results = [result for test in tests for result in test.results]
    if output in (Output.JSON, Output.YAML):
        print_data(results, output)
        return
    print_blocks(_blocks(tests, results, terms), wants_colour(no_color))


def _read_terms(history: str, window: str, capacity: float | None) -> BacktestTerms:
    if capacity is not None and not 0 < capacity < 1e12:
        raise InvalidError(Problem("--capacity", quoted(capacity), "a number above 0"))
    return BacktestTerms(
        _read_duration("--history", history, DAY, _LONGEST_HISTORY, "1d to 60d"),
        _read_duration("--window", window, _SHORTEST_WINDOW, DAY, "10m to 1d"),
        capacity,
    )


def _read_duration(flag: str, text: str, least: float, most: float, bound: str) -> float:
    try:
        seconds = read_seconds(text) if text else 0.0
    except DurationError:
        raise InvalidError(Problem(flag, quoted(text), _DURATION_WANTED)) from None
    if not least <= seconds <= most:
        raise InvalidError(Problem(flag, quoted(text), bound))
    return seconds


def _add_template(path: str, terms: BacktestTerms) -> Mapping[str, PeakPredictor]:
    """The template's estimator is the second: the picture compares it with the first."""
    if not path:
        return PREDICTORS
    template = _read_template(path)
    algorithm = template.prediction_metrics[0].algorithm
    parameters = read_parameters(algorithm, f"{path}: predictionMetrics[0].algorithm")
    said = (float(template.prediction_window_seconds), parameters.history_length)
    if said != (terms.window, terms.history):
        its, tried = f"{_spell(said[0])} from {_spell(said[1])}", _spell(terms.window)
        told = f"it predicts {its}, but is tried on --window {tried} and --history"
        click.echo(f"slackwater: {path}: {told} {_spell(terms.history)}", err=True)
    own = predict_with(parameters)
    first, *others = PREDICTORS
    names = (first, _TEMPLATE, *others)
    return {name: own if name == _TEMPLATE else PREDICTORS[name] for name in names}


def _read_template(path: str) -> PredictionTemplate:
    """As the manager reads it: what it would refuse is refused here."""
    match read_start(path, _LARGEST_TEMPLATE):
        case Gap(reason):
            raise Failed(f"{path} cannot be read: {reason}")
        case found:
            content = found.data
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(Problem(path, f"no UTF-8 at byte {error.start}", "UTF-8")) from None
    kind, document = _kind_of(text, path)
    if kind == "TimeSeriesPrediction":
        spec = read_time_series_prediction(document, path).spec
        _warn(find_unknown_fields(kind, document, path))
        return spec
    if kind not in ("", "ConfigMap"):
        raise InvalidError(Problem(f"{path}: kind", quoted(kind), _TEMPLATE_KINDS))
    if kind:
        data, path = read_config_map(document, path).data, f"{path}: data.{TEMPLATE_KEY}"
        if TEMPLATE_KEY not in data:
            raise InvalidError(Problem(path, "missing", "a prediction's spec"))
        text = data[TEMPLATE_KEY]
    template = read_node_template(text, path)
    _warn(template.warnings)
    return template.spec_of(_ANY_NODE)


def _warn(sentences: Iterable[str]) -> None:
    for each in sentences:
        click.echo(f"slackwater: {each}", err=True)


def _kind_of(text: str, path: str) -> tuple[str, object]:
    """None where the text is a template itself, in which a node's name may stand anywhere."""
    try:
        document = one_document(text, path)
    except InvalidError:
        return "", None
    kind = document.get("kind") if isinstance(document, dict) else None
    return str(kind or ""), document


def _find_series(
    files: Sequence[str], url: str, query: str, since: str, step: str
) -> list[NamedSeries]:
    if bool(url) != bool(query):
        raise click.UsageError("--prometheus and --query belong together")
    if bool(url) == bool(files):
        raise click.UsageError("name one or more files, or --prometheus and --query")
    if files:
        _refuse_for_files("since", "step")
        return read_all_series(files)
    if not url.startswith(("http://", "https://")):
        raise InvalidError(Problem("--prometheus", quoted(url), "a URL such as http://host:9090"))
    return query_series(
        url,
        query,
        _read_duration("--since", since, DAY, _LONGEST_HISTORY, "1d to 60d"),
        _read_duration("--step", step, 1.0, HOUR, "1s to 1h"),
    )


def _refuse_for_files(*names: str) -> None:
    for name in names:
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is of a query; it needs --prometheus and --query")


def _run(
    found: Sequence[NamedSeries], predictors: Mapping[str, PeakPredictor], terms: BacktestTerms
) -> list[SeriesBacktest]:
    """With a progress bar on a terminal."""
    for each in found:
        _check_length(each, terms)
    tests = []
    with click.progressbar(
        length=sum(count_windows(each.history, terms) for each in found),
        label="windows",
        width=0,
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        for each in found:
            done = backtest_series(
                each.name, each.history, predictors, terms, lambda: bar.update(1)
            )
            if isinstance(done, Gap):
                raise InvalidError(Problem(each.name, f"of no use ({done.reason})", "longer"))
            tests.append(done)
    for each in found:
        for note in filter(None, (each.note, _describe_excess(each, terms))):
            click.echo(f"slackwater: {each.name}: {note}", err=True)
    return tests


def _describe_excess(series: NamedSeries, terms: BacktestTerms) -> str:
    """No node uses more than it has: then the capacity or the series is in another unit."""
    capacity = math.inf if terms.capacity is None else terms.capacity
    share = float(np.mean(series.history.values > capacity))
    told = f"{100 * share:.1f} % of its samples are above --capacity {capacity:g}"
    return f"{told}: is it in the same unit?" if share else ""


def _check_length(series: NamedSeries, terms: BacktestTerms) -> None:
    if count_windows(series.history, terms):
        return
    wanted = f"over {_spell(terms.history)} (--history) and one window of {_spell(terms.window)}"
    told = f"{_spell(series.history.seconds)} long"
    raise InvalidError(Problem(f"the series {series.name}", told, wanted))


def _spell(seconds: float) -> str:
    for size, unit in ((DAY, "d"), (HOUR, "h"), (60.0, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _blocks(
    tests: Sequence[SeriesBacktest], results: Sequence[BacktestResult], terms: BacktestTerms
) -> list[RenderableType]:
    blocks: list[RenderableType] = [make_table(_COLUMNS, [_row(each) for each in results])]
    if len(tests) > 1:
        rows = [_mean_row(name, results) for name in tests[0].forecasts]
        blocks += [Text(f"\nmean of {len(tests)} series", "bold"), make_table(_MEAN_COLUMNS, rows)]
    if few := min(each.windows for each in results):
        blocks += [Text(f"\n{_describe_few(few)}", "yellow")] if few < _FEW_WINDOWS else []
    return [*blocks, Text(f"\n{_describe_capacity(terms)}", "dim")]


def _describe_few(windows: int) -> str:
    tried = "1 window" if windows == 1 else f"{windows} windows"
    return f"a series of {tried} proves little: one of them is {100 / windows:.0f} %"


def _describe_capacity(terms: BacktestTerms) -> str:
    if terms.capacity is None:
        return f"capacity {CAPACITY:g} times the largest value of each series (--capacity)"
    return f"capacity {terms.capacity:g}"


def _row(result: BacktestResult) -> list[str]:
    return [
        result.series,
        result.estimator,
        str(result.windows),
        f"{100 * result.exceeded:.1f} %",
        f"{result.worst:.4g}",
        describe_sold(result),
        _spell(result.seconds),
    ]


def _mean_row(name: str, results: Sequence[BacktestResult]) -> list[str]:
    """Each series counts alike, however many windows it has."""
    own = [each for each in results if each.estimator == name]
    sold = [each.sold_of_oracle for each in own if each.sold_of_oracle is not None]
    shares = [each.exceeded for each in own]
    return [
        name,
        str(sum(each.windows for each in own)),
        f"{100 * sum(shares) / len(own):.1f} %",
        f"{100 * max(shares):.1f} %",
        f"{sum(sold) / len(sold):.2f}" if sold else "-",
        _spell(sum(each.seconds for each in own)),
    ]


def _write(path: str, picture: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"slackwater: wrote {path}", err=True)
