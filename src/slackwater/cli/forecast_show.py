"""`slackwater forecast show NODE`: what a node used, what is predicted of it, what is sold, why."""

import datetime as dt
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence

import click
import msgspec
from rich.console import RenderableType
from rich.text import Text

from slackwater import __version__
from slackwater.cli.agent_client import NoAnswer
from slackwater.cli.cluster_options import cluster_options, find_cluster_access, parse_object_name
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.cli.terminal import print_blocks, text_width
from slackwater.contract.crane.prediction import TimeSeriesPredictionSpec
from slackwater.http.errors import RequestError
from slackwater.http.prometheus_api import PrometheusError
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.kube.client import Client
from slackwater.manager.predictor.promql import query_of
from slackwater.model.elastic import BATCH_CPU
from slackwater.model.gap import Gap
from slackwater.record.timestamps import describe_age
from slackwater.settings.prometheus import PrometheusSettings
from slackwater.status.node_forecast import (
    NodeForecastView,
    OfferShown,
    PredictionShown,
    fetch_node_forecast,
)

_LEVELS = "▁▂▃▄▅▆▇█"
_DAY, _STEP = 86_400.0, 300.0
_GIB = 2**30
#: Columns of the history beside those of the forecast.
_HISTORY_COLUMNS, _FORECAST_COLUMNS = 48, 16


class NodeForecastReport(msgspec.Struct, frozen=True, rename="camel"):
    """The stable form. `history` is by resource: (seconds since 1970, value) of the last day, empty
    without --prometheus-endpoint."""

    api_version: str
    kind: str
    forecast: NodeForecastView
    history: dict[str, tuple[tuple[float, float], ...]]
    problems: tuple[str, ...]


def _parse_node(context: click.Context, option: click.Parameter, said: str | None) -> str | None:
    return None if said is None else parse_object_name(context, option, said)


@click.command(short_help="What a node used, what is predicted, what is offered.")
@click.argument("node", required=False, callback=_parse_node)
@click.option(
    "--node",
    "named",
    metavar="NAME",
    callback=_parse_node,
    help="The same as NODE, as the other commands have it.",
)
@click.option(
    "--prometheus-endpoint",
    metavar="URL",
    default="",
    envvar="SLACKWATER_PROMETHEUS_ENDPOINT",
    show_envvar=True,
    help="Where the history is; without it only the forecast is shown.",
)
@cluster_options
@output_options
def show(
    node: str | None,
    named: str | None,
    prometheus_endpoint: str,
    kubeconfig: str,
    context: str,
    namespace: str,
    output: Output,
    no_color: bool,
) -> None:
    """What NODE used, what is predicted of it and by which estimator, what of it is offered to pods
    as gocrane.io/cpu and gocrane.io/memory, and why.

    \b
    Examples:
      slackwater forecast show node-a
      slackwater forecast show --node node-a --prometheus-endpoint http://localhost:9090
      slackwater forecast show node-a -o json | jq '.forecast.metrics[].nextPeak'

    \b
    Exit codes: 0 it is predicted; 1 it is not, or the cluster cannot be reached; 2 wrong usage.
    """
    node = _only_name(node, named)
    access = find_cluster_access(kubeconfig, context)
    now = time.time()
    try:
        client = Client(access, f"slackwater-forecast/{__version__}")
        found, spec = fetch_node_forecast(client, node, namespace, now)
    except RequestError as error:
        raise NoAnswer(str(error)) from None
    history, problems = fetch_usage_history(spec, prometheus_endpoint, now)
    if output in (Output.JSON, Output.YAML):
        print_data(
            NodeForecastReport("slackwater.io/v1", "NodeForecast", found, history, problems),
            output,
        )
    else:
        print_blocks(blocks(found, history, problems, now), wants_colour(no_color))
    raise click.exceptions.Exit(0 if found.ready else 1)


def _only_name(*said: str | None) -> str:
    """Of the argument and the option."""
    names = {each for each in said if each is not None}
    if len(names) != 1:
        problem = "are different nodes" if names else "is missing: name a node"
        raise click.UsageError(f"NODE {'and --node ' if names else ''}{problem}")
    return names.pop()


History = dict[str, tuple[tuple[float, float], ...]]


def fetch_usage_history(
    spec: TimeSeriesPredictionSpec | None, endpoint: str, now: float
) -> tuple[History, tuple[str, ...]]:
    """The last day of each metric, as the prediction's own query has it; the largest of several
    series, as agents take it of a prediction."""
    histories: History = {}
    problems: list[str] = []
    if not endpoint or spec is None:
        return histories, ()
    client = PrometheusClient(PrometheusSettings(endpoint=endpoint))
    for metric in spec.prediction_metrics:
        query = query_of(metric, spec.target_ref, ())
        if isinstance(query, Gap):
            problems.append(f"{metric.resource_identifier}: {query.reason}")
            continue
        try:
            series = client.ask_range(query.text, now - _DAY, now, _STEP).series
        except PrometheusError as error:
            problems.append(f"{metric.resource_identifier}: {error}")
            continue
        largest: dict[float, float] = {}
        for each in series:
            for at, value in zip(each.times, each.values, strict=True):
                largest[at] = max(largest.get(at, 0.0), value)
        histories[metric.resource_identifier] = tuple(sorted(largest.items()))
    return histories, tuple(problems)


def blocks(
    found: NodeForecastView, history: History, problems: Sequence[str], now: float
) -> Iterator[RenderableType]:
    yield Text.assemble(("node ", "bold"), found.node)
    if not found.prediction:
        yield Text(
            "there is no prediction of it: neither the ConfigMap noderesource-tsp-template nor "
            "--default-template asks for one, or the manager has not made it yet",
            "yellow",
        )
    elif not found.ready:
        yield Text(found.reason or "it has not been predicted yet", "yellow")
    for metric in found.metrics:
        yield Text("")
        yield from _metric(metric, found, history.get(metric.resource, ()), now)
    yield Text("")
    yield from _sold(found.offers, found.why_not_sold)
    for problem in problems:
        yield Text(f"history of {problem}", "yellow")


def _metric(
    metric: PredictionShown,
    found: NodeForecastView,
    history: Sequence[tuple[float, float]],
    now: float,
) -> Iterator[Text]:
    told = _amount_of(metric.resource)
    of = found.allocatable.get(metric.resource)
    line = Text.assemble((f"{metric.resource} ", "bold"))
    hours = found.window / 3600
    peak = "none" if metric.next_peak is None else told(metric.next_peak)
    later = "none" if metric.following_peak is None else told(metric.following_peak)
    line.append(f"peak of the next {hours:g} h {peak}, of the {hours:g} h after it {later}")
    if of is not None:
        line.append(f", of {told(of)} allocatable", "dim")
    yield line
    yield Text(f"  {_by(metric, now)}", "dim")
    if metric.message:
        yield Text(f"  {metric.message}", "yellow")
    if metric.samples:
        yield _picture(history, metric.samples, of, text_width())


def _by(metric: PredictionShown, now: float) -> str:
    if not metric.estimator:
        return "not predicted"
    moment = dt.datetime.fromtimestamp(now, dt.UTC)
    told = f"by {metric.estimator} for {describe_age(metric.estimator_since, moment)}"
    told += f", predicted {describe_age(metric.predicted_at, moment)} ago"
    if metric.last_day_error is not None:
        told += f"; off by {metric.last_day_error:.1%} on the last day"
    return told


def _picture(
    history: Sequence[tuple[float, float]],
    samples: Sequence[tuple[int, float]],
    largest: float | None,
    width: int,
) -> Text:
    """The last day and the forecast, on one scale."""
    past = _peaks([value for _, value in history], min(_HISTORY_COLUMNS, width // 2))
    coming = _peaks([value for _, value in samples], _FORECAST_COLUMNS)
    top = max((*past, *coming, largest or 0.0, 1e-9))
    line = Text("  ")
    if past:
        line.append(_bars(past, top)).append(" now ", "dim")
    return line.append(_bars(coming, top), "cyan")


def _peaks(values: Sequence[float], columns: int) -> list[float]:
    """The largest of each part."""
    if not values:
        return []
    columns = min(columns, len(values))
    edges = [len(values) * k // columns for k in range(columns + 1)]
    parts = itertools.pairwise(edges)
    return [max((v for v in values[a:b] if math.isfinite(v)), default=0.0) for a, b in parts]


def _bars(values: Sequence[float], top: float) -> str:
    last = len(_LEVELS) - 1
    return "".join(_LEVELS[min(round(max(v, 0.0) / top * last), last)] for v in values)


def _sold(offers: Sequence[OfferShown], why_not: str) -> Iterator[Text]:
    for each in offers:
        told = _amount_of("memory" if each.resource.endswith("memory") else each.resource)
        yield Text.assemble(
            (f"{each.resource} ", "bold"),
            f"{told(each.offered)} offered, {told(each.allocated)} of it allocated",
        )
    if not offers:
        yield Text.assemble(("sold ", "bold"), f"nothing: {why_not or 'nothing is offered yet'}")
    yield Text("why each amount is what it is: slackwater explain node", "dim")


def _amount_of(resource: str) -> Callable[[float], str]:
    if resource == BATCH_CPU:
        return _milli
    return _gib if resource == "memory" else _cpus


def _cpus(amount: float) -> str:
    return f"{amount:.2f}"


def _milli(amount: float) -> str:
    return f"{amount:.0f}m"


def _gib(amount: float) -> str:
    return f"{amount / _GIB:.1f} GiB"
