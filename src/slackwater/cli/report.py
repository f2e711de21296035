"""`slackwater report`: one file about a cluster's CPU, from Prometheus and the API server.

For people who have not installed anything yet: it only reads, and its queries are bounded.
"""

import enum
import re
import sys
import time
from typing import TYPE_CHECKING

import click

from slackwater import __version__
from slackwater.cli.agent_client import NoAnswer
from slackwater.cli.cluster_options import access_options, find_cluster_access
from slackwater.cli.output import Failed, WrongSettings
from slackwater.model.problem import Problem, quoted

if TYPE_CHECKING:
    from slackwater.kube.access import Access
    from slackwater.report.cluster_report import ClusterReport
    from slackwater.settings.prometheus import PrometheusSettings

_DAY = 86_400.0
_MOST_DAYS = 60
#: A label of Prometheus.
_MATCHER = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)=([^,]*)", re.ASCII)


class ReportForm(enum.StrEnum):
    HTML = "html"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


@click.command(short_help="A cluster's idle CPU, and what could be sold of it.")
@click.option(
    "--prometheus-endpoint", metavar="URL", required=True,
    envvar="SLACKWATER_PROMETHEUS_ENDPOINT", show_envvar=True,
    help="Prometheus, VictoriaMetrics, or any server with the same API, with the series of the "
    "node exporter and of the kubelets' cAdvisor.",
)  # fmt: skip
@click.option(
    "--prometheus-token-file", metavar="FILE", default="",
    envvar="SLACKWATER_PROMETHEUS_TOKEN_FILE", show_envvar=True,
    help="A file with a bearer token for it.",
)  # fmt: skip
@click.option(
    "--prometheus-ca-file", metavar="FILE", default="",
    envvar="SLACKWATER_PROMETHEUS_CA_FILE", show_envvar=True,
    help="CA certificates to verify it with, in place of the system's.",
)  # fmt: skip
@click.option(
    "--prometheus-matchers", metavar="NAME=VALUE,...", default="",
    envvar="SLACKWATER_PROMETHEUS_MATCHERS", show_envvar=True,
    help="Labels that all series of this cluster have, where one Prometheus holds several.",
)  # fmt: skip
@click.option(
    "--days", type=click.IntRange(1, _MOST_DAYS), default=7, show_default=True,
    help="How far back; a forecast can be tried from two days on, and is at its best from four.",
)  # fmt: skip
@click.option(
    "--price", metavar="AMOUNT", type=float, default=None,
    help="What a CPU costs for an hour, in any currency: then savings are told in it.",
)  # fmt: skip
@click.option(
    "-o", "--format", "form", type=click.Choice([each.value for each in ReportForm]),
    default=ReportForm.HTML.value, show_default=True,
    callback=lambda _context, _parameter, value: ReportForm(value),
    help="html is one self-contained file; json and csv have every number.",
)  # fmt: skip
@click.option("--file", metavar="FILE", default="", help="Where it goes. Default: standard output.")
@access_options
def report(
    prometheus_endpoint: str, prometheus_token_file: str, prometheus_ca_file: str,
    prometheus_matchers: str, days: int, price: float | None, form: ReportForm, file: str,
    kubeconfig: str, context: str,
) -> None:  # fmt: skip
    """One file about a cluster's CPU: what is idle by node and day, what of it could be sold to
    batch work and at which risk, which workloads are hottest and coldest, what Slackwater's
    policies did, and what it would save.

    Nothing has to be installed in the cluster, and nothing is changed: it reads nodes and pods from
    the API server, and usage from Prometheus by queries of bounded size.

    \b
    Examples:
      kubectl -n monitoring port-forward service/prometheus 9090 &
      slackwater report --prometheus-endpoint http://localhost:9090 --file report.html
      slackwater report --days 14 --price 0.04 -o markdown
      slackwater report -o json | jq '.offer.estimators[0]'
      slackwater report -o csv --file cpu.csv

    \b
    Exit codes: 0 written; 1 the cluster or Prometheus cannot be asked, or has no data; 2 wrong
    usage.
    """
    if form is ReportForm.HTML and not file and _is_terminal():
        told = "a page of HTML is not for a terminal: name a --file, or choose -o markdown"
        raise click.UsageError(told)
    if price is not None and not 0 < price < 1e6:
        raise WrongSettings(Problem("--price", quoted(price), "a number above 0").sentence())
    matchers = _read_matchers(prometheus_matchers)
    settings = _settings(prometheus_endpoint, prometheus_token_file, prometheus_ca_file)
    access = find_cluster_access(kubeconfig, context)
    made = _make(access, settings, matchers, days, price)
    _write(_render(made, form), file)
    for note in made.notes:
        click.echo(f"slackwater: {note}", err=True)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _read_matchers(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in filter(None, text.split(",")):
        pair = _MATCHER.fullmatch(part.strip())
        if not pair:
            wanted = "NAME=VALUE with commas between several, such as cluster=prod-eu"
            raise WrongSettings(Problem("--prometheus-matchers", quoted(part), wanted).sentence())
        found.append((pair[1], pair[2]))
    return tuple(found)


def _settings(endpoint: str, token_file: str, ca_file: str) -> "PrometheusSettings":
    from slackwater.http.prometheus_api import PrometheusError, read_address
    from slackwater.settings.prometheus import PrometheusSettings

    try:
        read_address(endpoint)
    except PrometheusError as error:
        raise WrongSettings(str(error)) from None
    return PrometheusSettings(endpoint=endpoint, token_file=token_file, ca_file=ca_file)


def _make(
    access: "Access",
    settings: "PrometheusSettings",
    matchers: tuple[tuple[str, str], ...],
    days: int,
    price: float | None,
) -> "ClusterReport":
    """With a progress bar on a terminal."""
    try:
        from slackwater.report.make_report import ReportSource, make_report
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        told = "a report needs the package numpy: pip install '.[forecast]' in Slackwater's source"
        raise Failed(told) from None
    from slackwater.http.errors import RequestError
    from slackwater.http.prometheus_client import PrometheusClient, PrometheusError
    from slackwater.kube.client import Client
    from slackwater.report.fetch_objects import fetch_objects
    from slackwater.report.fetch_series import SeriesReader

    now = time.time()
    client = Client(access, f"slackwater-report/{__version__}", timeout=60.0)
    try:
        objects = fetch_objects(client)
    except RequestError as error:
        raise NoAnswer(str(error)) from None
    finally:
        client.close()
    try:
        reader = SeriesReader(PrometheusClient(settings), matchers, now)
        series = reader.collect(days * _DAY, objects)
    except PrometheusError as error:
        raise Failed(str(error)) from None
    if not series.nodes and not series.pods:
        raise Failed(_describe_nothing(settings.endpoint, matchers))
    source = ReportSource(str(access.server), settings.endpoint, now, price)
    with click.progressbar(
        length=1, label="forecasts tried", width=0, file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:  # fmt: skip

        def tell(_done: int, of: int) -> None:
            bar.length = of
            bar.update(1)

        return make_report(series, objects, source, tell)


def _describe_nothing(endpoint: str, matchers: tuple[tuple[str, str], ...]) -> str:
    chosen = ",".join("=".join(each) for each in matchers)
    which = f" with {chosen}" if chosen else ""
    return (
        f"Prometheus at {endpoint} has neither node_cpu_seconds_total (the node exporter's) of "
        "this cluster's nodes nor container_cpu_usage_seconds_total (the kubelets' cAdvisor)"
        f"{which}: is it the one that scrapes this cluster?"
    )


def _render(made: "ClusterReport", form: ReportForm) -> str:
    match form:
        case ReportForm.HTML:
            from slackwater.report.html import render_html

            return render_html(made)
        case ReportForm.MARKDOWN:
            from slackwater.report.markdown import render_markdown

            return render_markdown(made)
        case ReportForm.CSV:
            from slackwater.report.csv_rows import render_csv

            return render_csv(made)
        case ReportForm.JSON:
            import msgspec

            text = msgspec.json.format(msgspec.json.encode(made), indent=2).decode()
            return text + "\n"


def _write(text: str, path: str) -> None:
    if not path:
        click.echo(text, nl=False)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"slackwater: wrote {path}", err=True)
