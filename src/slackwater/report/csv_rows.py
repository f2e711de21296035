"""The report as one CSV: a row for each number, so that any spreadsheet can pivot it."""

import csv
import io
from collections.abc import Iterator

from slackwater.report.cluster_report import ClusterReport

COLUMNS = ("table", "name", "day", "quantity", "value", "unit")
_Row = tuple[str, str, str, str, float | None, str]
#: What spreadsheets take for a formula (OWASP, CSV injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_csv(report: ClusterReport) -> str:
    """Numbers that are not known have no row."""
    written = io.StringIO()
    writer = csv.writer(written)  # RFC 4180: a line ends in CRLF, and what holds either is quoted
    writer.writerow(COLUMNS)
    for table, name, day, quantity, value, unit in _rows(report):
        if value is not None:
            writer.writerow((table, _harmless(name), day, quantity, f"{value:.6g}", unit))
    return written.getvalue()


def _harmless(name: str) -> str:
    return f"'{name}" if name.startswith(_FORMULA) else name


def _rows(report: ClusterReport) -> Iterator[_Row]:
    for node in report.nodes:
        yield ("node", node.node, "", "allocatable", node.allocatable, "cores")
        yield ("node", node.node, "", "used", node.used, "cores")
        yield ("node", node.node, "", "peak", node.peak, "cores")
        yield ("node", node.node, "", "idle", node.idle, "cores")
        for day in node.days:
            yield ("node", node.node, day.day, "used", day.used, "cores")
            yield ("node", node.node, day.day, "peak", day.peak, "cores")
            yield ("node", node.node, day.day, "idle", day.idle, "cores")
    for each in report.offer.estimators if report.offer else ():
        yield ("forecast", each.estimator, "", "sold", each.sold, "cores")
        yield ("forecast", each.estimator, "", "exceeded", each.exceeded, "share of hours")
        yield ("forecast", each.estimator, "", "worstNode", each.worst_node, "share of hours")
        yield ("forecast", each.estimator, "", "timeAbove", each.time_above, "share of time")
    for use in report.workloads:
        name = f"{use.namespace}/{use.workload}"
        yield ("workload", name, "", "pods", use.pods, "pods")
        yield ("workload", name, "", "requested", use.requested, "cores")
        yield ("workload", name, "", "used", use.used, "cores")
        yield ("workload", name, "", "peak", use.peak, "cores")
    if report.slackwater:
        for policy in report.slackwater.policies:
            yield ("policy", policy.policy, "", "nodes", policy.nodes, "nodes")
            yield ("policy", policy.policy, "", "acted", policy.acted, "share of ticks")
            yield ("policy", policy.policy, "", "held", policy.held, "share of ticks")
    if report.savings:
        yield ("savings", "", "", "cores", report.savings.cores, "cores")
        yield ("savings", "", "", "nodes", report.savings.nodes, "nodes")
        yield ("savings", "", "", "money", report.savings.money, "in 30 days")
