"""The pages about a cluster: its nodes at a glance, its policies, its rotation plans. Pure."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from slackwater.model.decision import RuleState
from slackwater.status.cluster_status import ORDER, NodeState, NodeStatusRow
from slackwater.status.node_forecast import PredictionShown
from slackwater.ui.amounts import share
from slackwater.ui.charts import Chart, ChartSeries, make_chart, thin
from slackwater.ui.page import View
from slackwater.ui.sources import ClusterSnapshot, ForecastAndHistory, RotationPlans, WorkloadQuery

#: Of a line in a forecast's chart.
_POINTS = 300

#: How nodes can be sorted: by a word of the page's address.
SORTS = {
    "state": "problems first",
    "name": "name",
    "used": "best effort used",
    "quota": "best effort quota",
    "rules": "rules triggered",
    "heard": "oldest report",
}


class NodeLine(msgspec.Struct, frozen=True):
    """A node's row, and what of it is drawn or counted. Shares are in percent of the machine."""

    row: NodeStatusRow
    used: float | None
    granted: float | None
    triggered: tuple[str, ...]


class NodesQuery(msgspec.Struct, frozen=True):
    """Which nodes are wanted, and in which order."""

    wanted: str = ""
    state: str = ""
    sort: str = "state"


def read_query(said: Mapping[str, str]) -> NodesQuery:
    """What makes no sense is ignored: it is an address that somebody typed."""
    state, sort = said.get("state", ""), said.get("sort", "state")
    known = {each.value for each in NodeState}
    return NodesQuery(
        said.get("q", "").strip(),
        state if state in known else "",
        sort if sort in SORTS else "state",
    )


def nodes_view(snapshot: ClusterSnapshot, said: Mapping[str, str], live: float) -> View:
    query, rows = read_query(said), snapshot.status.nodes
    fitting = [
        node_line(row)
        for row in rows
        if query.wanted in row.name and query.state in ("", row.state.value)
    ]
    return View(
        "nodes.html",
        "Nodes",
        "",
        {
            "snapshot": snapshot,
            "status": snapshot.status,
            "lines": sorted(fitting, key=lambda line: _order(line, query.sort)),
            "query": query,
            "states": Counter(row.state.value for row in rows),
            "sorts": SORTS,
            "triggered": sum(bool(node_line(row).triggered) for row in rows),
        },
        live,
        key=f"{snapshot.version} {msgspec.json.encode(query).decode()}",
    )


def node_line(row: NodeStatusRow) -> NodeLine:
    return NodeLine(
        row,
        share(row.used, row.allocatable),
        share(row.physical_quota(), row.allocatable),
        tuple(
            f"{title}/{rule.rule} {rule.state}"
            for title, rules in row.rules.items()
            for rule in rules
            if rule.state != RuleState.QUIET.value
        ),
    )


def _order(line: NodeLine, sort: str) -> tuple[float, str, str]:
    row = line.row
    match sort:
        case "name":
            return 0, "", row.name
        case "used":
            return -(row.used or 0), "", row.name
        case "quota":
            return -(row.physical_quota() or 0), "", row.name
        case "rules":
            return -len(line.triggered), "", row.name
        case "heard":
            return 0, row.heard or "", row.name
        case _:
            return ORDER[row.state], "", row.name


class ForecastChart(msgspec.Struct, frozen=True):
    """One predicted resource: its last day beside its forecast, and how good that is."""

    resource: str
    next_peak: float | None
    chart: Chart | None
    told: str


def forecast_charts(found: ForecastAndHistory) -> tuple[ForecastChart, ...]:
    return tuple(
        ForecastChart(
            each.resource,
            each.next_peak,
            make_chart(
                f"{each.resource}: what was used, and the forecast",
                (
                    ChartSeries(
                        "used", "node", thin(found.history.get(each.resource, ()), _POINTS)
                    ),
                    ChartSeries("forecast", "forecast", thin(each.samples, _POINTS)),
                ),
                found.view.allocatable.get(each.resource, 0.0),
            ),
            _told(each),
        )
        for each in found.view.metrics
    )


def _told(shown: PredictionShown) -> str:
    if not shown.estimator:
        return shown.message or "not predicted"
    error = shown.last_day_error
    off = "" if error is None else f"; off by {error:.1%} on the last day"
    message = f"; {shown.message}" if shown.message else ""
    return f"by {shown.estimator}, predicted at {shown.predicted_at}{off}{message}"


def policies_view(snapshot: ClusterSnapshot, live: float) -> View:
    """With the nodes on which rules of each are not quiet."""
    on_nodes: dict[str, list[tuple[str, str, str, str]]] = {
        f"{policy.kind}/{policy.name}": [] for policy in snapshot.status.policies
    }
    for node in snapshot.status.nodes:
        for title, rules in node.rules.items():
            for rule in rules:
                if rule.state != RuleState.QUIET.value:
                    line = (node.name, rule.rule, rule.state, rule.since)
                    on_nodes.setdefault(title, []).append(line)
    switches: dict[str, Counter[str]] = {}
    for node in snapshot.status.nodes:
        for name, state in node.policies.items():
            switches.setdefault(name, Counter())[state] += 1
    values = {
        "snapshot": snapshot,
        "status": snapshot.status,
        "on_nodes": on_nodes,
        "switches": {name: states.most_common(4) for name, states in sorted(switches.items())},
    }
    return View("policies.html", "Policies", "policies", values, live)


def rotation_view(
    plans: RotationPlans, query: WorkloadQuery, problem: str, from_file: bool
) -> View:
    most = max(
        (pod.usage or 0.0 for plan in plans.plans for pod in plan.pods),
        default=0.0,
    )
    marks = [plan.threshold or 0.0 for plan in plans.plans]
    values = {
        "plans": plans,
        "query": query,
        "problem": problem,
        "from_file": from_file,
        "most": max(most, *marks, 1e-9) if marks else 1.0,
    }
    return View("rotation.html", "Rotation", "rotation", values)
