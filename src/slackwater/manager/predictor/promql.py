"""The query of one metric of a prediction, and one query for many nodes where that is the same.

Queries about a node differ in its name alone. Of the forms that are known here, Crane's own and
the template's that its documentation gives, all are written a second time with the instance as a
label of the result; that answer is the same if each node has one instance and each instance one
node, which `share_out` checks. Any other expression is asked for each node alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slackwater.contract.crane.prediction import (
    LabelCondition,
    LabelOperator,
    MetricQuery,
    PredictionMetric,
    QueryResource,
    QueryType,
    TargetRef,
)
from slackwater.http.prometheus_api import SeriesRange
from slackwater.model.gap import Gap

#: As Crane asks: long enough for two samples of the usual scrape intervals.
_RATE_WINDOW = "3m"
_INSTANCE = 'instance=~"({})(:\\\\d+)?"'
_NODE_CPU = (
    'sum(count(node_cpu_seconds_total{{mode="idle",{selector}}}) by (mode, cpu)) - '
    'sum(irate(node_cpu_seconds_total{{mode="idle",{selector}}}[{window}]))'
)
_NODES_CPU = (
    'sum by (instance) (count by (mode, cpu, instance) (node_cpu_seconds_total{{mode="idle",'
    "{selector}}})) - sum by (instance) (irate(node_cpu_seconds_total"
    '{{mode="idle",{selector}}}[{window}]))'
)
_NODE_MEMORY = (
    "sum(node_memory_MemTotal_bytes{{{selector}}} - node_memory_MemAvailable_bytes{{{selector}}})"
)
_NODES_MEMORY = (
    "sum by (instance) (node_memory_MemTotal_bytes{{{selector}}} - "
    "node_memory_MemAvailable_bytes{{{selector}}})"
)
#: The template's expression, with any node and any window.
_TEMPLATE = re.compile(
    re.escape(_NODE_CPU.format(selector=_INSTANCE.format("NODE"), window="WINDOW"))
    .replace("NODE", r"(?P<node>[a-z0-9.-]+)", 1)
    .replace("NODE", r"(?P=node)")
    .replace("WINDOW", r"(?P<window>[0-9]+[smh])")
    .replace(r"\ ", r"\s*")
)
_PODS = {
    "Pod": "{}",
    "StatefulSet": "{}-[0-9]+",
    "Deployment": "{}-[a-z0-9]+-[a-z0-9]{{5}}",
    "ReplicaSet": "{}-[a-z0-9]{{5}}",
    "DaemonSet": "{}-[a-z0-9]{{5}}",
}
_OF_PODS = {
    QueryResource.CPU: "sum(irate(container_cpu_usage_seconds_total{{{selector}}}[{window}]))",
    QueryResource.MEMORY: "sum(container_memory_working_set_bytes{{{selector}}})",
}
#: What an operator of a condition is in PromQL; `in` is any of several values.
_OPERATORS = {LabelOperator.IN: "=~"}


class QueryGroup(msgspec.Struct, frozen=True):
    """Queries that differ only in the node: `grouped` is the one for all of them, to be filled with
    a selector. `escaped`: whether a dot of a name means a dot alone."""

    grouped: str
    window: str
    matchers: str
    escaped: bool


class MetricHistoryQuery(msgspec.Struct, frozen=True):
    """`text` asks for this metric alone. `node` is the node that it is about, where it belongs to a
    group."""

    text: str
    group: QueryGroup | None = None
    node: str = ""


Matchers = Sequence[tuple[str, str]]


def query_of(
    metric: PredictionMetric, target: TargetRef, matchers: Matchers
) -> MetricHistoryQuery | Gap:
    """`matchers` are added to the queries that we write ourselves."""
    match metric.type:
        case QueryType.RESOURCE if metric.resource_query is not None:
            return _resource_query(metric.resource_query, target, matchers)
        case QueryType.METRIC if metric.metric_query is not None:
            return MetricHistoryQuery(_metric_query(metric.metric_query, matchers))
        case QueryType.EXPRESSION if metric.expression_query is not None:
            return _expression_query(metric.expression_query.expression)
        case kind:
            return Gap(f"there is no query of the type {kind.value}")


def _expression_query(text: str) -> MetricHistoryQuery:
    found = _TEMPLATE.fullmatch(text.strip())
    if found is None:
        return MetricHistoryQuery(text)
    group = QueryGroup(_NODES_CPU, found["window"], "", escaped=False)
    return MetricHistoryQuery(text, group, found["node"])


def _resource_query(
    resource: QueryResource, target: TargetRef, matchers: Matchers
) -> MetricHistoryQuery | Gap:
    more = "".join(f",{key}={_quoted(value)}" for key, value in matchers)
    if target.kind == "Node":
        of_cpu = resource is QueryResource.CPU
        one, many = (_NODE_CPU, _NODES_CPU) if of_cpu else (_NODE_MEMORY, _NODES_MEMORY)
        selector = _instances((target.name,), escaped=True) + more
        text = one.format(selector=selector, window=_RATE_WINDOW)
        group = QueryGroup(many, _RATE_WINDOW, more, escaped=True)
        return MetricHistoryQuery(text, group, target.name)
    pods = _PODS.get(target.kind)
    if pods is None:
        kinds = ", ".join(("Node", *_PODS))
        return Gap(f"spec.targetRef.kind is '{target.kind}', but must be one of {kinds}")
    if not target.namespace:
        return Gap(f"spec.targetRef.namespace is missing, but must be there with {target.kind}")
    pod = _quoted(pods.format(_escape(target.name)))
    selector = f'namespace={_quoted(target.namespace)},pod=~{pod},container!=""{more}'
    return MetricHistoryQuery(_OF_PODS[resource].format(selector=selector, window=_RATE_WINDOW))


def _metric_query(query: MetricQuery, matchers: Matchers) -> str:
    conditions = [_condition(each) for each in query.labels]
    conditions += [f"{key}={_quoted(value)}" for key, value in matchers]
    return f"sum({query.metric_name}{{{','.join(conditions)}}})"


def _condition(condition: LabelCondition) -> str:
    operator = _OPERATORS.get(condition.operator, condition.operator.value)
    if condition.operator is LabelOperator.IN:
        value = "|".join(_escape(each) for each in condition.value)
    else:
        value = condition.value[0]
    return f"{condition.key}{operator}{_quoted(value)}"


def grouped_text(group: QueryGroup, nodes: Iterable[str]) -> str:
    selector = _instances(nodes, escaped=group.escaped) + group.matchers
    return group.grouped.format(selector=selector, window=group.window)


def share_out(
    group: QueryGroup, nodes: Sequence[str], answer: Sequence[SeriesRange]
) -> tuple[Mapping[str, SeriesRange], tuple[str, ...]]:
    """The answer's series by node, and the nodes that have to be asked alone: those with several
    instances, or with one that another node's query would count too. A node without a series is in
    neither."""
    patterns = {node: _pattern(node, escaped=group.escaped) for node in nodes}
    of_node: dict[str, list[SeriesRange]] = {}
    shared: set[str] = set()
    for series in answer:
        instance = series.labels.get("instance", "")
        plain = re.sub(r":[0-9]+\Z", "", instance)
        owners = [plain] if plain in patterns else []
        if not group.escaped:
            owners = [node for node, pattern in patterns.items() if pattern.fullmatch(instance)]
        for node in owners:
            of_node.setdefault(node, []).append(series)
        if len(owners) > 1:
            shared.update(owners)
    alone = {node for node, found in of_node.items() if len(found) > 1} | shared
    return (
        {node: found[0] for node, found in of_node.items() if node not in alone},
        tuple(sorted(alone)),
    )


def _pattern(node: str, *, escaped: bool) -> re.Pattern[str]:
    return re.compile(rf"({re.escape(node) if escaped else node})(:\d+)?", re.ASCII)


def _instances(nodes: Iterable[str], *, escaped: bool) -> str:
    return _INSTANCE.format("|".join(_doubled(node) if escaped else node for node in nodes))


def _escape(name: str) -> str:
    """As a part of a regular expression of RE2."""
    return re.sub(r"([.+*?()|\[\]{}^$\\])", r"\\\1", name)


def _doubled(name: str) -> str:
    """The same inside a text of PromQL, in which a backslash is two."""
    return _escape(name).replace("\\", "\\\\")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
