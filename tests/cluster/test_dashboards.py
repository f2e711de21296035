"""Every query of the chart's dashboards, recording rules and alerts, asked of a real Prometheus
that scraped the real programs."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.cli.cluster_options import NAMESPACE
from tests.cluster.chart import documents
from tests.cluster.metrics_stage import ScrapedPrograms, scraped_programs
from tools.cluster import MANY_NODES_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import find_programs, wait_for
from tools.manifests import CHART, render

#: What Grafana puts in the place of its variables; a scrape is a second here.
_GIVEN = {"$__rate_interval": "30s", "$node": ".*", "$namespace": ".*", "$workload": ".*"}
_SELECTOR = re.compile(r"\b((?:slackwater|rebalancer)[a-z0-9_:]+|up)\b(\{[^}]*\})?")
#: Values of a label that are there only once it has happened: without them there is a series.
_WHEN_IT_HAPPENS = {
    'slackwater_knob_changes_total{result=~"refused|unsupported"}',
    'slackwater_commands_total{kind="evict", result=~"refused|impossible"}',
}
SWITCHED_ON = (
    "prometheusRule.enabled=true",
    "prometheusRule.interval=1s",
    "serviceMonitor.enabled=true",
    "dashboards.enabled=true",
)


@pytest.fixture(scope="module")
def chart(programs: dict[str, Path]) -> list[dict[str, Any]]:
    return documents(render(str(programs["helm"]), NAMESPACE, *SWITCHED_ON))


@pytest.fixture(scope="module")
def groups(chart: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of all its PrometheusRules."""
    rules = [each for each in chart if each["kind"] == "PrometheusRule"]
    return [group for each in rules for group in each["spec"]["groups"]]


@pytest.fixture(scope="module")
def scraped(
    programs: dict[str, Path],
    make_folder: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
    chart: list[dict[str, Any]],
    groups: list[dict[str, Any]],
) -> Iterator[ScrapedPrograms]:
    [monitor] = [each for each in chart if each["kind"] == "ServiceMonitor"]
    [endpoint] = monitor["spec"]["endpoints"]
    kwok = find_programs(MANY_NODES_PROGRAMS, os.environ)["kwok"]
    plane = ControlPlane(make_folder(), programs)
    try:
        plane.open()
        rules = yaml.safe_dump({"groups": groups})
        folder = tmp_path_factory.mktemp("scraped")
        honor = endpoint["honorLabels"]
        with scraped_programs(plane, kwok, folder, rules, honor_labels=honor) as made:
            yield made
    finally:
        plane.close()


def queries() -> Iterator[tuple[str, str]]:
    """By dashboard and panel; a variable's values come from a query too."""
    for path in sorted((CHART / "dashboards").glob("*.json")):
        whole = json.loads(path.read_text())
        for panel in whole["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", target["expr"]
        for variable in whole["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"])
                assert found, variable
                metric, label = found.groups()
                yield f"{path.stem}: ${variable['name']}", f'{metric}{{{label}!=""}}'


def plain(query: str) -> str:
    for variable, value in _GIVEN.items():
        query = query.replace(variable, value)
    assert "$" not in query
    return query


def await_data(scraped: ScrapedPrograms, asked: dict[str, str]) -> None:
    """A rate needs two scrapes, a forecast the manager's first round."""
    waiting = dict(asked)

    def look() -> bool:
        for what, query in tuple(waiting.items()):
            if scraped.ask(query):
                del waiting[what]
        return not waiting

    try:
        wait_for("data", look)
    finally:
        assert sorted(waiting) == []


def test_every_panel_shows_something(scraped: ScrapedPrograms) -> None:
    await_data(scraped, {f"{panel}: {query}": plain(query) for panel, query in queries()})


def test_every_recording_rule_records(
    scraped: ScrapedPrograms, groups: list[dict[str, Any]]
) -> None:
    names = [rule["record"] for group in groups for rule in group["rules"] if "record" in rule]
    assert len(names) == len(set(names)) > 10
    await_data(scraped, {name: name for name in names})


def test_every_alert_is_loaded_and_looks_at_series_that_are_there(
    scraped: ScrapedPrograms, groups: list[dict[str, Any]]
) -> None:
    alerts = {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}
    loaded = {each["name"] for each in scraped.rules() if each["type"] == "alerting"}
    assert loaded == alerts.keys()
    found = {
        f"{name}: {metric}{labels}": metric
        + ("" if metric + labels in _WHEN_IT_HAPPENS else labels)
        for name, rule in alerts.items()
        for metric, labels in _SELECTOR.findall(rule["expr"])
    }
    assert len(found) >= len(alerts)
    await_data(scraped, found)
    assert [each for each in scraped.rules() if each["health"] == "err"] == []


def test_labels_are_our_own(scraped: ScrapedPrograms) -> None:
    """Not those of the pod that was scraped."""
    assert scraped.ask('{__name__=~"slackwater_.*|rebalancer_.*", exported_pod!=""}') == []
    # A limit of 2 at a ratio of 2; a request of 1 that is worth half a CPU here.
    quota = 'slackwater_pod_normalized_cpu_quota_cores{pod="limited"} == 1'
    request = 'slackwater:container_cpu_real_request:cores{pod="limited"} == 0.5'
    real = 'slackwater:pod_cpu_real_utilisation:ratio_rate5m{pod="limited"} > 0'
    await_data(scraped, {each: each for each in (quota, request, real)})
